//! Tables that another program changed, in namespaces of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use model::Result;
use netlink::Netns;

use crate::Guard;
use crate::route::RouteFilter;

/// A named namespace, as long as the test runs.
struct Apart(PathBuf);

impl Apart {
    fn run(name: &str, test: impl FnOnce()) {
        let path = PathBuf::from(format!("/run/netns/overlay-{name}-{}", std::process::id()));
        std::fs::create_dir_all("/run/netns").unwrap();
        let apart = Self(path);
        Netns::make(&apart.0).unwrap().enter(test).unwrap();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        Netns::unmake(&self.0).unwrap();
    }
}

fn nft(command: &str) -> String {
    let output = Command::new("nft").args(["-a", command]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Changes the first rule of the chain that drops into one that accepts.
fn accepted(table: &str, chain: &str, ensure: &dyn Fn() -> Result<bool>) {
    ensure().unwrap();
    assert!(!ensure().unwrap(), "{table} as it was made is not known again");
    let listed = nft(&format!("list chain {table} {chain}"));
    let drops = |line: &&str| line.contains(" drop #");
    let (rule, handle) = listed.lines().find(drops).unwrap().split_once(" drop # handle ").unwrap();
    nft(&format!("replace rule {table} {chain} handle {handle} {rule} accept"));
    assert!(ensure().unwrap(), "{rule} accept");
    assert!(!ensure().unwrap());
}

/// Hangs the rules of the chain elsewhere.
fn moved(table: &str, chain: &str, ensure: &dyn Fn() -> Result<bool>) {
    let listed = nft(&format!("list chain {table} {chain}"));
    let rules = listed.lines().filter(|line| line.contains("# handle") && !line.contains("chain"));
    let rules: Vec<&str> = rules.map(|line| line.split(" # ").next().unwrap().trim()).collect();
    nft(&format!("flush chain {table} {chain}; delete chain {table} {chain}"));
    nft(&format!(
        "add chain {table} {chain} {{ type filter hook prerouting priority 300; }}; {}",
        rules.iter().map(|rule| format!("add rule {table} {chain} {rule};")).collect::<String>()
    ));
    assert!(ensure().unwrap(), "another hook");
    assert!(!ensure().unwrap());
}

#[test]
fn a_guard_that_accepts_is_made_again() {
    for (table, name, addresses) in [
        ("ip spoke_overlay", "guard", ["192.0.2.1", "192.0.2.2"]),
        ("ip6 spoke_overlay", "guard6", ["2001:db8::1", "2001:db8::2"]),
    ] {
        let [local, member] = addresses.map(|address| address.parse().unwrap());
        let guard = Guard { local, members: BTreeSet::from([member]) };
        Apart::run(name, || {
            accepted(table, "input", &|| guard.ensure());
            moved(table, "forward", &|| guard.ensure());
            let set = nft(&format!("list set {table} members"));
            assert!(set.contains(addresses[1]), "{set}");
        });
    }
}

#[test]
fn a_filter_of_routes_that_accepts_is_made_again() {
    let filter = RouteFilter {
        underlay: None,
        hosts: BTreeSet::new(),
        sources: BTreeMap::new(),
        subnets: Vec::new(),
    };
    Apart::run("routes", || {
        accepted("inet spoke_routes", "arriving", &|| filter.ensure());
        moved("inet spoke_routes", "input", &|| filter.ensure());
    });
}
