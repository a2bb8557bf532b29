//! Links between the pages, and the sources that they name: each file and each heading is there.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::Result;

/// The pages beside those in `docs`.
const TOP: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "STYLE.md"];

pub(super) fn complaints(root: &Path) -> Result<Vec<String>> {
    let mut pages: Vec<PathBuf> = TOP.iter().map(|name| root.join(name)).collect();
    for folder in ["docs", "docs/design"] {
        let folder = root.join(folder);
        let unreadable = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            pages.extend(path.extension().is_some_and(|end| end == "md").then_some(path));
        }
    }
    let mut complaints = Vec::new();
    for page in pages {
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        let text = fs::read_to_string(&page).map_err(|error| format!("{name}: {error}"))?;
        let broken = links(&text).filter(|link| !leads_to_something(&page, &text, link));
        complaints.extend(broken.map(|link| format!("{name}: no page has {link}")));
        let gone = sources(&text).filter(|source| !is_there(root, source));
        complaints.extend(gone.map(|source| format!("{name}: no source is called {source}")));
    }
    Ok(complaints)
}

/// The targets of links on a page: `file#anchor`, each part may be missing.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    ends.filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
}

fn is_there(root: &Path, source: &str) -> bool {
    root.join(source).exists() || root.join("crates").join(source).exists()
}

/// The sources of crates that a page names: `model/src/port.rs`, `cni/src/plugin/`. Placeholders have capitals.
fn sources(text: &str) -> impl Iterator<Item = &str> {
    let is_source = |span: &&str| {
        let is_of_path =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.-".contains(c);
        span.contains("/src/") && span.chars().all(is_of_path)
    };
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_source)
}

fn leads_to_something(page: &Path, text: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = normal(&page.parent().unwrap_or(page).join(file));
    if anchor.is_empty() {
        return target.exists();
    }
    match file.is_empty() {
        true => has_heading(text, anchor),
        false => fs::read_to_string(target).is_ok_and(|other| has_heading(&other, anchor)),
    }
}

/// Without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#'))).any(|slug| slug == anchor)
}

/// A heading's anchor, as GitHub makes it.
fn slug(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_that_of_its_heading() {
        let page = "# A page\n## Options of a network (`-o`)\nSee [it](#options-of-a-network--o).";
        assert!(links(page).all(|link| has_heading(page, &link[1..])));
        assert!(!has_heading(page, "options"));
    }

    #[test]
    fn a_source_is_a_whole_path() {
        let page =
            "`a/src/b.rs`, `a/src/NAME.rs`, a/src/c.rs, `cargo run a/src/d.rs`\n| `e/src/f/` |";
        assert_eq!(sources(page).collect::<Vec<_>>(), ["a/src/b.rs", "e/src/f/"]);
    }

    #[test]
    fn links_to_elsewhere_are_not_read() {
        let found: Vec<&str> = links("[a](https://a/b) [b](c.md#d) [e](f.png)").collect();
        assert_eq!(found, ["c.md#d", "f.png"]);
    }
}
