//! Who may depend on whom (ARCHITECTURE.md, invariants 1 to 4).

use super::Package;

/// The binary and its three parts, which know all spokes, and of each other those named here: the command line
/// and the daemon compile beside each other.
const BINARY: [(&str, &[&str]); 4] = [
    ("spoke", &["cli", "daemon", "host"]),
    ("cli", &["host"]),
    ("daemon", &["host"]),
    ("host", &[]),
];
/// What is split off the binary and stands below its parts: each knows the spokes that it is made of, and no
/// spoke knows it.
const PARTS: [(&str, &[&str]); 2] = [
    ("config", &["cni", "container", "image", "kurma", "neutron"]),
    ("conformance", &["cni", "remote"]),
];
/// Everything that `model` and `engine` may use: nothing with which to do I/O.
const PURE: [&str; 6] = ["model", "ipnet", "serde", "sha2", "strsim", "thiserror"];
/// Only these may be used between crates of ours.
const CORE: [&str; 9] =
    ["model", "engine", "file", "libnetwork", "netlink", "spec", "template", "web", "yaml"];
/// What plugin containers are made of: `kurma` alone may use them.
const CONTAINERS: [&str; 2] = ["container", "image"];
/// What speaks to the kernel, and may be unsafe.
const UNSAFE: [&str; 2] = ["netlink", "container"];
const KERNEL: [&str; 4] = ["libc", "netlink-packet", "netlink-sys", "nix"];
const ASYNC: [&str; 7] = ["tokio", "axum", "hyper", "async-", "futures", "smol", "tonic"];

pub(super) fn complaints(packages: &[Package]) -> Vec<String> {
    let own: Vec<_> = packages.iter().filter(|package| package.own).collect();
    let is_own = |name: &str| own.iter().any(|package| package.name == name);
    let mut complaints = Vec::new();
    for package in &own {
        for need in &package.needs {
            if let Some(why) = refusal(&package.name, need, is_own(need)) {
                complaints.push(format!("{} depends on {need}: {why}", package.name));
            }
        }
    }
    complaints
}

/// Why `name` must not depend on `need`.
fn refusal(name: &str, need: &str, own: bool) -> Option<&'static str> {
    let among = |list: &[&str]| list.iter().any(|start| need.starts_with(start));
    let tool = matches!(name, "bench" | "fuzz" | "tests" | "xtask");
    let is_container = name == "kurma" && CONTAINERS.contains(&need);
    let of_binary = BINARY.iter().find(|(part, _)| *part == name);
    let is_binarys = BINARY.iter().any(|(part, _)| *part == need);
    let is_part = PARTS.iter().any(|(part, needs)| *part == name && needs.contains(&need));
    if matches!(name, "model" | "engine") && !PURE.contains(&need) {
        Some("model and engine do no I/O (1)")
    } else if of_binary.is_some_and(|(_, parts)| is_binarys && !parts.contains(&need)) {
        Some("the command line and the daemon know the host, and no other part of the binary (2)")
    } else if own
        && of_binary.is_none()
        && !tool
        && !CORE.contains(&need)
        && !is_container
        && !is_part
    {
        Some("a spoke depends on model, engine, spec and netlink only (2)")
    } else if own && name == "netlink" && need != "model" {
        Some("netlink stands below the engine (2)")
    } else if among(&KERNEL) && !UNSAFE.contains(&name) && !tool {
        Some("only netlink and container know the kernel's interfaces (3)")
    } else if among(&ASYNC) && name != "docker" && !tool {
        Some("no async outside docker (4)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_and_the_binary_are_free() {
        for (name, need, own) in [
            ("engine", "model", true),
            ("cni", "netlink", true),
            ("cni", "serde_json", false),
            ("spoke", "cni", true),
            ("spoke", "daemon", true),
            ("daemon", "cluster", true),
            ("cli", "host", true),
            ("docker", "axum", false),
            ("netlink", "libc", false),
            ("container", "libc", false),
            ("kurma", "image", true),
            ("config", "neutron", true),
            ("conformance", "remote", true),
        ] {
            assert_eq!(refusal(name, need, own), None, "{name} {need}");
        }
    }

    #[test]
    fn each_invariant_refuses() {
        for (name, need, own, number) in [
            ("model", "serde_json", false, "(1)"),
            ("engine", "rustix", false, "(1)"),
            ("cni", "linux", true, "(2)"),
            ("linux", "spoke", true, "(2)"),
            ("linux", "host", true, "(2)"),
            ("host", "cli", true, "(2)"),
            ("cli", "daemon", true, "(2)"),
            ("daemon", "cli", true, "(2)"),
            ("daemon", "spoke", true, "(2)"),
            ("netlink", "engine", true, "(2)"),
            ("cni", "container", true, "(2)"),
            ("cni", "config", true, "(2)"),
            ("conformance", "docker", true, "(2)"),
            ("linux", "libc", false, "(3)"),
            ("linux", "netlink-packet-route", false, "(3)"),
            ("store", "tokio", false, "(4)"),
            ("daemon", "tokio", false, "(4)"),
        ] {
            let why = refusal(name, need, own).unwrap_or("nothing");
            assert!(why.ends_with(number), "{name} {need}: {why}");
        }
    }
}
