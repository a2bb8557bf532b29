//! The services of the engine, and that none names one after it (ARCHITECTURE.md, "The engine's services").

/// In their order: each may use those before it.
const SERVICES: [&str; 7] =
    ["records", "addresses", "links", "subnets", "attachments", "networks", "repair"];

/// The services after its own that a source of the engine names. `name` is its path from the root.
pub(super) fn complaints(name: &str, product: &str) -> Vec<String> {
    let Some(own) = service_of(name) else { return Vec::new() };
    let code: String = product.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let named = code.split("crate::").skip(1).flat_map(named_first);
    let later = named.filter(|named| position(named) > position(own));
    later.map(|later| format!("{name}: {own} names {later}, which calls it")).collect()
}

fn service_of(name: &str) -> Option<&str> {
    let path = name.strip_prefix("crates/engine/src/")?;
    let first = path.split(['/', '.']).next()?;
    SERVICES.contains(&first).then_some(first)
}

/// What stands behind `crate::`: one name, or those between braces.
fn named_first(rest: &str) -> Vec<String> {
    let names = match rest.strip_prefix('{') {
        Some(list) => list.split('}').next().unwrap_or(list),
        None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest),
    };
    names.split(',').map(|name| name.trim().to_lowercase()).collect()
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Nothing for what is no service: everybody may use it.
fn position(name: &str) -> Option<usize> {
    SERVICES.iter().position(|service| *service == name)
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn a_service_names_those_before_it_only() {
        let links = "crates/engine/src/links/serving.rs";
        let fine =
            "use crate::port::Store;\nuse crate::{Addresses, Records};\n// crate::Networks\n";
        assert!(complaints(links, fine).is_empty());
        for wrong in ["use crate::{Records, Repair};", "crate::networks::kept::shown(id)"] {
            assert_eq!(complaints(links, wrong).len(), 1, "{wrong}");
        }
        assert!(complaints("crates/engine/src/lib.rs", "pub use crate::Repair;").is_empty());
    }
}
