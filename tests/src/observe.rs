//! What one network namespace holds, in the words of the programs that show it.

use std::fs;
use std::path::Path;

use crate::ask::{has_qdiscs, has_tables, has_vlans};
use crate::within::Within;

/// What is asked of each link, of each family: what a configuration changes.
const SYSCTLS: [&str; 9] = [
    "accept_ra",
    "arp_notify",
    "disable_ipv6",
    "forwarding",
    "keep_addr_on_down",
    "ndisc_notify",
    "proxy_arp",
    "route_localnet",
    "rp_filter",
];

/// What was said, as it was.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) links: String,
    /// Of IPv4 and IPv6, a line each: addresses, routes, rules.
    pub(crate) families: [String; 2],
    pub(crate) nft: String,
    /// Of IPv4 and IPv6.
    pub(crate) iptables: [String; 2],
    /// `PATH:VALUE`, below `/proc/sys/net`.
    pub(crate) sysctls: String,
    pub(crate) qdiscs: String,
    pub(crate) vlans: String,
}

impl Observed {
    /// The namespace that this thread is in. A program takes longer to start than to look: there are few of them, and
    /// none whose answer is known to be empty.
    pub(crate) fn here(inside: &Within) -> Self {
        // A line each. A command that fails ends them.
        let family = "address show\nroute show table all\nrule show\n";
        let first = format!("link show\n{family}");
        let said = inside.said("ip", &["-j", "-d", "-4", "-batch", "-"], &first);
        let (links, four) = said.split_once('\n').unwrap_or_default();
        assert!(links.contains("\"lo\""), "ip says nothing of this namespace: {said}");
        let six = inside.said("ip", &["-j", "-6", "-batch", "-"], family);
        let nft = match has_tables() {
            true => inside.said("nft", &["-s", "list", "ruleset"], ""),
            false => String::new(),
        };
        let iptables = ["", "6"].map(|version| iptables(inside, version, &nft));
        let qdiscs = match has_qdiscs() {
            true => inside.said("tc", &["-j", "qdisc", "show"], ""),
            false => String::new(),
        };
        let vlans = match has_vlans() {
            true => inside.said("bridge", &["-j", "vlan", "show"], ""),
            false => String::new(),
        };
        Self {
            links: links.to_owned(),
            families: [four.to_owned(), six],
            nft,
            iptables,
            sysctls: sysctls(Path::new("/proc/sys/net")),
            qdiscs,
            vlans,
        }
    }
}

/// iptables-save shows tables of nftables, unless it is the one that asks the kernel's former interface.
pub(crate) fn iptables(inside: &Within, version: &str, nft: &str) -> String {
    let program = inside.find("iptables-save").and_then(|path| path.canonicalize().ok());
    let is_nft = program.is_some_and(|path| path.ends_with("xtables-nft-multi"));
    match is_nft && !nft.contains(&format!("table ip{version} ")) {
        true => String::new(),
        false => inside.said(&format!("ip{version}tables-save"), &[], ""),
    }
}

fn sysctls(top: &Path) -> String {
    let mut said = String::new();
    let mut read = |path: String| {
        // A link may go while we look.
        let value = fs::read_to_string(top.join(&path)).unwrap_or_default();
        if !value.trim().is_empty() {
            said.push_str(&format!("{path}:{}\n", value.trim_end()));
        }
    };
    read("ipv4/ip_forward".to_owned());
    for family in ["ipv4", "ipv6"] {
        let links = fs::read_dir(top.join(family).join("conf")).into_iter().flatten().flatten();
        for link in links {
            let link = link.file_name().to_string_lossy().into_owned();
            SYSCTLS.iter().for_each(|name| read(format!("{family}/conf/{link}/{name}")));
        }
    }
    said
}
