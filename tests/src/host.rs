//! The real host, which no test may change.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::snapshot::report;
use crate::{Cgroup, World};

/// Links, addresses, packet filters and mounts outside of every world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(BTreeSet<String>);

const POLL_INTERVAL: &str = r#"
ip -o link | cut -d ' ' -f 2 | sed 's/^/link /'
ip -o address | awk '{ print "address", $2, $4 }'
nft -s list ruleset | sed 's/^/nft /'
{ iptables-save; ip6tables-save; } 2>/dev/null | grep -v '^#' | sed 's/\[.*//; s/^/tables /'
cut -d ' ' -f 4- /proc/self/mountinfo | sed 's/^/mount /'
"#;

impl Host {
    /// What the host has now.
    #[track_caller]
    pub fn now() -> Self {
        let done = Command::new("bash").args(["-uc", POLL_INTERVAL]).output().expect("bash starts");
        Self(String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect())
    }

    /// What came (`+`) and went (`-`) since `before`.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        report(&before.0, &self.0)
    }
}

/// How to find what is left of a world that was dropped: its network namespace, in which all its
/// daemons are, and the cgroup of its containers.
#[derive(Clone, Debug)]
pub struct Traces {
    netns: String,
    cgroup: String,
}

impl Traces {
    pub(crate) fn of(world: &World, cgroup: &Cgroup) -> Self {
        let pid = Path::new("/proc").join(world.pid().to_string());
        let netns = fs::read_link(pid.join("ns/net")).expect("the world is there");
        Self { netns: netns.to_string_lossy().into_owned(), cgroup: cgroup.name().to_owned() }
    }

    /// The processes and cgroups that are there.
    pub fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let netns = fs::read_link(entry.path().join("ns/net")).unwrap_or_default();
            let cgroups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            if netns.to_string_lossy() == self.netns || cgroups.contains(&self.cgroup) {
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                found.push(format!("process {}", name.trim()));
            }
        }
        let top = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(top).into_iter().flatten().flatten();
        for place in hierarchies.map(|entry| entry.path()).chain([top.to_owned()]) {
            let cgroup = place.join(&self.cgroup);
            if cgroup.exists() {
                found.push(format!("cgroup {}", cgroup.display()));
            }
        }
        found
    }
}
