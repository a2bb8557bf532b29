//! What must not stand in which source, and how long a source may be.

use std::fs;
use std::path::Path;

use super::{order, words};
use crate::Result;

const LONGEST: usize = 500;
/// With these a crate would read or change something outside of itself.
const IO: [&str; 8] = [
    "std::fs",
    "std::process",
    "std::env",
    "SystemTime",
    "Instant::now",
    "serde_json",
    "std::os::",
    "std::thread",
];
const UNSAFE: [&str; 4] = ["unsafe {", "unsafe fn", "unsafe impl", "setns("];
/// Without one of these there is nothing to await.
const ASYNC: [&str; 3] = ["async fn", "async move", "async {"];
/// Names that say nothing, and work that is not done.
const EMPTY: [&str; 8] =
    ["Manager", "Helper", "Utils", "TODO", "FIXME", "XXX", "dbg!(", "#[ignore"];
pub(super) fn complaints(root: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for folder in ["crates", "fuzz", "tests", "xtask"] {
        visit(root, &root.join(folder), &mut complaints)?;
    }
    Ok(complaints)
}

fn visit(root: &Path, folder: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let unreadable = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() && !name.ends_with("/target") {
            visit(root, &path, complaints)?;
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            complaints.extend(judge(&name, &text));
        } else if name.ends_with("/Cargo.toml") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            complaints.extend(manifest(&name, &text));
        }
    }
    Ok(())
}

/// The lints are the workspace's, in every crate that is part of it.
fn manifest(name: &str, text: &str) -> Option<String> {
    let own = text.contains("[workspace]") || text.contains("[lints]\nworkspace = true");
    (!own).then(|| format!("{name}: [lints] workspace = true is missing"))
}

/// The complaints about one source; `name` is its path from the root.
fn judge(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let length = text.lines().count();
    if length > LONGEST {
        complaints.push(format!("{name}: {length} lines, at most {LONGEST}"));
    }
    let product = product(name, text);
    complaints.extend(order::complaints(name, product));
    for (number, line) in product.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        let place = || format!("{name}:{}", number + 1);
        for (words, why) in forbidden(name) {
            if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                complaints.push(format!("{}: {word} {why}", place()));
            }
        }
    }
    complaints.extend(words::complaints(name, product));
    complaints.extend(unexplained(name, product));
    complaints
}

/// The part that ships: no tests, and nothing of the crates that never ship.
fn product<'a>(name: &str, text: &'a str) -> &'a str {
    let test = name.contains("/tests/") || name.ends_with("/tests.rs");
    let ships = name.starts_with("crates/") && name.contains("/src/") && !test;
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    if ships { &text[..end] } else { "" }
}

type Rule = (&'static [&'static str], &'static str);

/// What must not stand in the source `name`.
fn forbidden(name: &str) -> Vec<Rule> {
    let krate = name.split('/').nth(1).unwrap_or_default();
    let mut rules: Vec<Rule> = vec![(&EMPTY, "says nothing, or is not done")];
    if matches!(krate, "model" | "engine") {
        rules.push((&IO, "is I/O: model and engine do none (1)"));
    }
    if !matches!(krate, "netlink" | "container") {
        rules.push((&UNSAFE, "belongs into netlink or container (3)"));
    }
    if krate != "docker" {
        rules.push((&ASYNC, "is async: only docker is (4)"));
    }
    rules
}

/// Every unsafe block says why it is sound.
fn unexplained(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let explained =
        |at: usize| lines[at.saturating_sub(8)..=at].iter().any(|line| line.contains("SAFETY:"));
    let blocks = lines.iter().enumerate().filter(|(_, line)| line.contains("unsafe {"));
    let bare = blocks.filter(|(at, _)| !explained(*at));
    bare.map(|(at, _)| format!("{name}:{}: unsafe without // SAFETY:", at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_seen_in_its_place_only() {
        for (name, text, count) in [
            ("crates/model/src/a.rs", "use std::fs;", 1),
            ("crates/store/src/a.rs", "use std::fs;", 0),
            ("crates/engine/src/a.rs", "// not std::fs", 0),
            ("crates/engine/src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests { use std::fs; }", 0),
            ("crates/linux/src/a.rs", "let a = unsafe { b() };", 2),
            ("crates/netlink/src/a.rs", "// SAFETY: it is\nlet a = unsafe { b() };", 0),
            ("crates/netlink/src/a.rs", "let a = unsafe { b() };", 1),
            ("crates/cni/src/a.rs", "async fn a() {}", 1),
            ("crates/daemon/src/a.rs", "hosts.await_shared(subnet)", 0),
            ("crates/docker/src/a.rs", "async fn a() {}", 0),
            ("crates/cni/src/a.rs", "struct NetworkManager;", 1),
            ("tests/src/a.rs", "unsafe { a() }", 0),
            ("crates/cni/src/a.rs", "let port_wish = 1;", 1),
        ] {
            assert_eq!(judge(name, text).len(), count, "{name}: {text}");
        }
    }

    #[test]
    fn length_counts_everywhere() {
        assert_eq!(judge("tests/src/a.rs", &"\n".repeat(LONGEST)).len(), 0);
        assert_eq!(judge("tests/src/a.rs", &"\n".repeat(LONGEST + 1)).len(), 1);
    }

    #[test]
    fn a_crate_takes_the_lints_of_the_workspace() {
        assert!(manifest("a/Cargo.toml", "[lints]\nworkspace = true\n").is_none());
        assert!(manifest("a/Cargo.toml", "[lints.rust]\n").is_some());
    }
}
