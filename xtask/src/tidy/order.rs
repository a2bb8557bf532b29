//! The order of modules in a crate: none names one after it (ARCHITECTURE.md, "The engine's services", "Rules").

/// The engine's services.
const ENGINE: &[&str] =
    &["records", "addresses", "links", "subnets", "attachments", "networks", "repair"];

/// The modules of `host`, which the command line, the daemon and the plugins share.
const HOST: &[&str] = &[
    "standard",
    "time",
    "event",
    "web",
    "sandbox",
    "hosts",
    "podman_networks",
    "replaced",
    "described",
    "neighbours",
    "rivals",
    "standing",
    "denied",
    "follow",
    "facts",
    "cloud",
    "engines",
    "dataplane",
    "views",
    "shared",
    "sources",
    "host",
    "host_context",
    "kurma",
];

/// Where each order holds.
const ORDERS: [(&str, &[&str]); 2] = [("crates/engine/src/", ENGINE), ("crates/host/src/", HOST)];

/// The modules after its own that a source names. `name` is its path from the root.
pub(super) fn complaints(name: &str, product: &str) -> Vec<String> {
    let order =
        ORDERS.iter().find_map(|(folder, order)| Some((name.strip_prefix(folder)?, *order)));
    let Some((path, order)) = order else { return Vec::new() };
    let Some(own) = path.split(['/', '.']).next() else { return Vec::new() };
    let position = |name: &str| order.iter().position(|module| *module == name);
    let Some(place) = position(own) else { return Vec::new() };
    let code: String = product.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let named = code.split("crate::").skip(1).flat_map(named_first);
    let later = named.filter(|named| position(named).is_some_and(|other| other > place));
    later.map(|later| format!("{name}: {own} names {later}, which stands after it")).collect()
}

/// What stands behind `crate::`: one name, or those between braces.
fn named_first(rest: &str) -> Vec<String> {
    let names = match rest.strip_prefix('{') {
        Some(list) => list.split('}').next().unwrap_or(list),
        None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest),
    };
    let first = |name: &str| name.trim().split("::").next().unwrap_or(name).to_lowercase();
    names.split(',').map(first).collect()
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
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

    #[test]
    fn what_the_host_context_is_made_of_does_not_name_it() {
        let wrong = "use crate::{host_context, time};";
        assert_eq!(complaints("crates/host/src/dataplane/remote.rs", wrong).len(), 1);
        assert!(complaints("crates/host/src/host_context.rs", "use crate::dataplane;").is_empty());
        assert!(complaints("crates/host/src/lib.rs", wrong).is_empty());
    }
}
