use std::time::Duration;

use model::{Fence, Protocol, Timestamp};

use super::space::Space;
use super::table::listed;
use crate::filter::fence::{self, Fenced, Opening};

const TRUTH: &str = include_str!("../fence.nft");
const LIST: &str = "nft list table inet spoke_fence";

fn fenced(bridge: &str, network: &str, rules: &str) -> Fenced {
    let fence: Fence = rules.parse().unwrap();
    let gateways = vec!["10.1.2.1/24".parse().unwrap(), "fd00::1/64".parse().unwrap()];
    let (network, bridge) = (network.parse().unwrap(), bridge.parse().unwrap());
    Fenced { network, bridge, gateways, fence }
}

fn opening(source: &str, destination: &str) -> Opening {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Opening { source, destination, protocol: Protocol::Tcp, port: 443 }
}

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    fence::keep(&mut socket, &fenced("br0", "a", "none"), None).unwrap();
    for set in ["fenced", "within", "sources4", "sources6"] {
        space.run(&format!("nft flush set inet spoke_fence {set}"));
    }
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn rules_come_and_go_and_the_table_goes_with_the_last_network() {
    let space = Space::new();
    let mut socket = space.socket();
    let one =
        fenced("br0", "a", "10.9.0.0/16:1-100,10.9.0.7:50-200/tcp,[fd01::/16]:53/udp,x.example:1");
    let other = fenced("br1", "b", "10.9.0.7:443");
    fence::ensure(&mut socket, &one).unwrap();
    fence::ensure(&mut socket, &other).unwrap();
    let before = space.run(LIST);
    assert!(before.contains("\"br0\" . 10.9.0.7 . tcp . 1-200"), "{before}");
    assert!(fence::is_kept(&mut socket, &[one.clone(), other.clone()]).unwrap());
    for lost in [
        "flush ruleset",
        "flush chain inet spoke_fence refused",
        "flush set inet spoke_fence allowed4",
        "delete element inet spoke_fence sources4 { \"br0\" . 10.1.2.0/24 }",
        "flush set inet spoke_fence fenced",
    ] {
        space.run(&format!("nft {lost}"));
        assert!(!fence::is_kept(&mut socket, &[one.clone(), other.clone()]).unwrap(), "{lost}");
        fence::keep(&mut socket, &one, Some(Timestamp(9))).unwrap();
        fence::keep(&mut socket, &other, Some(Timestamp(9))).unwrap();
        assert_eq!(sorted(&space.run(LIST)), sorted(&before), "{lost}");
    }
    let less = fenced("br0", "a", "10.9.0.0/16:1-100");
    fence::ensure(&mut socket, &less).unwrap();
    let now = space.run(LIST);
    assert!(now.contains("\"br0\" . 10.9.0.0/16 . tcp . 1-100"), "{now}");
    assert!(!now.contains("1-200") && now.contains("\"br1\" . 10.9.0.7 . tcp . 443"), "{now}");
    fence::forget_bridge(&mut socket, &less.bridge).unwrap();
    let now = space.run(LIST);
    assert!(!now.contains("br0") && now.contains("br1"), "{now}");
    for _ in 0..2 {
        fence::forget_bridge(&mut socket, &other.bridge).unwrap();
    }
    assert_eq!(space.run("nft list tables"), "");
}

#[test]
fn what_a_name_opens_ends_with_its_rule() {
    let space = Space::new();
    let mut socket = space.socket();
    let both = fenced("br0", "a", "a.example:443,b.example:443");
    fence::keep(&mut socket, &both, None).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
    let all = [
        (opening("10.1.2.5", "1.1.1.1"), names(&["a.example"])),
        (opening("10.1.2.5", "1.1.1.2"), names(&["b.example"])),
        (opening("10.1.2.5", "1.1.1.3"), names(&["a.example", "b.example"])),
        (opening("10.1.3.5", "1.1.1.1"), names(&["c.example"])),
        (opening("fd00::5", "2606::1"), names(&["a.example"])),
    ];
    let limit = Duration::from_secs(60);
    for one in &all {
        for _ in 0..2 {
            fence::open(&mut socket, std::slice::from_ref(one), limit).unwrap();
        }
    }
    let opened = fence::opened(&mut socket).unwrap();
    assert_eq!(opened.len(), 5);
    assert!(opened.values().all(|(_, remaining)| *remaining > Duration::from_secs(50)));
    let less = fenced("br0", "a", "b.example:443,a.example:80");
    fence::ensure(&mut socket, &less).unwrap();
    fence::prune(&mut socket, &less).unwrap();
    let opened = fence::opened(&mut socket).unwrap();
    let mut left: Vec<String> = opened.keys().map(|it| it.destination.to_string()).collect();
    left.sort();
    assert_eq!(left, ["1.1.1.1", "1.1.1.2", "1.1.1.3"], "another network's stay");
    fence::forget_source(&mut socket, &["10.1.2.5".parse().unwrap()]).unwrap();
    assert_eq!(fence::opened(&mut socket).unwrap().len(), 1);
}

/// Elements have no order.
fn sorted(listed: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = listed.split(['\n', ',', '{', '}', '=']).map(str::trim).collect();
    parts.sort_unstable();
    parts
}
