//! Permissive licences only; `deny.toml` says which.

use std::fs;
use std::path::Path;

use super::Package;
use crate::Result;

pub(super) fn complaints(root: &Path, packages: &[Package]) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("deny.toml"))
        .map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = allowed(&text);
    let refused = packages.iter().filter(|package| !permitted(&package.licence, &allowed));
    Ok(refused
        .map(|package| {
            format!("{}: licence {:?} is not in deny.toml", package.name, package.licence)
        })
        .collect())
}

/// The strings of `allow = [ … ]`.
fn allowed(text: &str) -> Vec<&str> {
    let list = text.split("allow = [").nth(1).unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Whether an SPDX expression can be satisfied by `allowed` (SPDX 2.3 annex D; `/` is Cargo's old OR).
fn permitted(expression: &str, allowed: &[&str]) -> bool {
    let words = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = words.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut good = all(rest, allowed);
    while let ["OR", after @ ..] = rest {
        *rest = after;
        good |= all(rest, allowed);
    }
    good
}

fn all(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut good = one(rest, allowed);
    while let ["AND", after @ ..] = rest {
        *rest = after;
        good &= one(rest, allowed);
    }
    good
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let good = any(rest, allowed);
            if let [")", after @ ..] = rest {
                *rest = after;
            }
            good
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, after @ ..] => {
            *rest = after;
            allowed.contains(name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: [&str; 3] = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];

    #[test]
    fn alternatives_and_conjunctions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(permitted(good, &ALLOWED), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0",
            "(MIT OR GPL-3.0) AND GPL-2.0",
            "MIT MIT",
        ] {
            assert!(!permitted(bad, &ALLOWED), "{bad}");
        }
    }

    #[test]
    fn the_list_is_read() {
        assert_eq!(
            allowed("[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\nx = [\"no\"]"),
            ["MIT", "ISC"]
        );
    }
}
