//! What may be left of a container: quicker to see than a whole [`crate::Snapshot`].

use std::collections::BTreeSet;

use nix::net::if_::if_nameindex;

use crate::World;
use crate::ask::has_tables;
use crate::observe::iptables;
use crate::snapshot::report;
use crate::within::{Within, within};

/// Where records are.
const FOLDERS: [&str; 3] = ["/run/spoke", "/var/lib/spoke", "/var/lib/cni"];
/// What belongs to the network and stays with it: where the search for an address goes on, what its configuration says.
const STAYS: [&str; 4] = ["/cursors/", "/configured/", "/calls/", "/namespaces/"];

/// Links, addresses and routes of containers, packet filter and records, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains(BTreeSet<String>);

impl Remains {
    /// What is in `world` now.
    #[track_caller]
    pub fn of(world: &World) -> Self {
        let mut lines = within(world, |inside| {
            let mut lines = links("host");
            rules(inside, &mut lines);
            for space in inside.spaces().iter().filter(|space| inside.go(space)) {
                lines.extend(links(space));
                let said =
                    inside.said("ip", &["-o", "-4", "-batch", "-"], "address show\nroute show\n");
                // An address has its link's number before it.
                let facts =
                    said.lines().map(|line| line.split_once(": ").map_or(line, |(_, it)| it));
                lines.extend(facts.map(|fact| format!("{space} {fact}")));
            }
            lines
        });
        for folder in FOLDERS {
            let files = world.files(folder).into_iter().filter(|path| is_record(path));
            lines.extend(files);
        }
        Self(lines)
    }

    /// What came (`+`) and went (`-`) since `before`.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        report(&before.0, &self.0)
    }
}

fn links(space: &str) -> BTreeSet<String> {
    let links = if_nameindex().expect("the links of this namespace");
    links.iter().map(|link| format!("{space} link {}", link.name().to_string_lossy())).collect()
}

/// Not how often a port came with something: that goes by itself, after seconds.
fn rules(inside: &Within, lines: &mut BTreeSet<String>) {
    let nft = match has_tables() {
        true => inside.said("nft", &["-s", "list", "ruleset"], ""),
        false => String::new(),
    };
    let goes = |line: &str| {
        let limit = line.split_once("limit rate over ");
        limit.is_some_and(|(_, rest)| rest.contains(" packets timeout"))
    };
    let nft_lines = nft.lines().filter(|line| !line.trim().is_empty() && !goes(line));
    lines.extend(nft_lines.map(str::to_owned));
    let saved = iptables(inside, "", &nft);
    lines.extend(saved.lines().filter(|line| line.starts_with('-')).map(str::to_owned));
}

/// Neither what stays nor locks. A prepared file that a dead process never put into its place is overwritten by the
/// next one.
fn is_record(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_prepared = name.starts_with('.') && name.ends_with(".new");
    let is_other = name == "lock" || name.starts_with("last_reserved_ip.") || is_prepared;
    !is_other && !STAYS.iter().any(|part| path.contains(part))
}
