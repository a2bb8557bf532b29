//! Bridges that stay shut: processes that make rules ask the kernel which these are.

use std::collections::BTreeSet;

use model::{IfName, Moment};
use netlink::Socket;
use netlink::nft;

use super::space::Space;
use crate::filter::fence::{self, Fenced, Own, Reach};

const RULE: &str = "1.1.1.1:443";

fn fenced(bridge: &str) -> Fenced {
    Fenced {
        network: "a".parse().unwrap(),
        bridge: bridge.parse().unwrap(),
        gateways: vec!["10.1.2.1/24".parse().unwrap()],
        fence: RULE.parse().unwrap(),
        reach: Reach::default(),
        beside: None,
    }
}

fn own(bridge: &str) -> Own {
    Own {
        id: doubles::attachment_id("a", "c"),
        bridge: bridge.parse().unwrap(),
        sender: None,
        sources: vec!["10.1.2.7".parse().unwrap()],
        gateways: vec!["10.1.2.1/24".parse().unwrap()],
        fence: RULE.parse().unwrap(),
        near: Vec::new(),
        reach: Reach::default(),
    }
}

fn now() -> Moment {
    Moment { boot: "a".to_owned(), seconds: 9 }
}

fn shut(socket: &mut Socket, bridges: &[&str]) {
    let bridges: Vec<IfName> = bridges.iter().map(|it| it.parse().unwrap()).collect();
    fence::set_shut(socket, &bridges.iter().collect()).unwrap();
    let all: BTreeSet<IfName> = bridges.into_iter().collect();
    assert_eq!(fence::shut_bridges(socket).unwrap(), all);
}

/// Of which bridges the sets of what is allowed have something.
fn allowed(space: &Space, set: &str) -> [bool; 2] {
    let all = space.run(&format!("nft list set inet spoke_fence {set}"));
    ["br0", "br1"].map(|bridge| all.contains(bridge))
}

#[test]
fn nothing_is_allowed_behind_a_bridge_that_stays_shut() {
    let space = Space::new();
    let mut socket = space.socket();
    shut(&mut socket, &[]);
    assert_eq!(space.run("nft list tables"), "", "nothing is made for none");
    // The table may be gone that had the others' rules.
    shut(&mut socket, &["br0"]);
    let make = |socket: &mut Socket| {
        for bridge in ["br0", "br1"] {
            fence::ensure(socket, &fenced(bridge)).unwrap();
            fence::keep(socket, &fenced(bridge), Some(&now())).unwrap();
            fence::keep_own(socket, &own(bridge), Some(&now())).unwrap();
        }
    };
    make(&mut socket);
    for set in ["allowed4", "own_allowed4"] {
        assert_eq!(allowed(&space, set), [false, true], "{set}");
    }
    // What the daemon compares is what is there.
    let (closed, shut_own) = (fenced("br0").closed(), own("br0").shut());
    assert!(fence::is_kept(&mut socket, &[closed, fenced("br1")], &now()).unwrap());
    let all = [shut_own, own("br1")];
    assert!(fence::is_own_kept(&mut socket, &all, (&[], &|_| false), &now()).unwrap());
    shut(&mut socket, &["br0", "br1"]);
    shut(&mut socket, &[]);
    make(&mut socket);
    for set in ["allowed4", "own_allowed4"] {
        assert_eq!(allowed(&space, set), [true; 2], "{set}");
    }
}

#[test]
fn a_bridge_that_is_gone_stays_shut_no_longer() {
    let space = Space::new();
    let mut socket = space.socket();
    fence::keep(&mut socket, &fenced("br1"), None).unwrap();
    shut(&mut socket, &["br0", "br1"]);
    let left = BTreeSet::from(["br1".parse::<IfName>().unwrap()]);
    for by_network in [true, false] {
        shut(&mut socket, &["br0", "br1"]);
        match by_network {
            true => fence::keep(&mut socket, &fenced("br0"), None).unwrap(),
            false => fence::keep_own(&mut socket, &own("br0"), None).unwrap(),
        }
        fence::forget_bridge(&mut socket, &"br0".parse().unwrap()).unwrap();
        assert_eq!(fence::shut_bridges(&mut socket).unwrap(), left, "{by_network}");
    }
}

/// The record that cannot be read may be of one more container.
#[test]
fn a_bridge_stays_shut_when_the_last_rules_there_go() {
    for has_others in [true, false] {
        let space = Space::new();
        let mut socket = space.socket();
        let bridge: IfName = "br0".parse().unwrap();
        if has_others {
            fence::keep(&mut socket, &fenced("br1"), None).unwrap();
        }
        shut(&mut socket, &["br0"]);
        let is_shut = || {
            fence::keep_own(&mut space.socket(), &own("br0"), None).unwrap();
            !allowed(&space, "own_allowed4")[0]
        };
        assert!(is_shut());
        fence::forget_own(&mut socket, &bridge, &own("br0").sources).unwrap();
        assert!(is_shut(), "{has_others}");
        let generation = nft::generation(&mut socket).unwrap();
        assert!(fence::forget_other_own(&mut socket, generation, (&[], &|_| false)).unwrap());
        fence::keep(&mut socket, &fenced("br0"), None).unwrap();
        fence::unfence(&mut socket, &bridge).unwrap();
        assert!(is_shut(), "{has_others}");
        fence::forget_own(&mut socket, &bridge, &own("br0").sources).unwrap();
        shut(&mut socket, &[]);
        let is_there = space.run("nft list tables").contains("spoke_fence");
        assert_eq!(is_there, has_others, "nothing is left where nothing else is in it");
    }
}

#[test]
fn what_an_older_version_made_goes_without_the_set() {
    let space = Space::new();
    let mut socket = space.socket();
    for bridge in ["br0", "br1"] {
        fence::keep(&mut socket, &fenced(bridge), None).unwrap();
        fence::keep_own(&mut socket, &own(bridge), None).unwrap();
    }
    space.run("nft delete set inet spoke_fence shut");
    for bridge in ["br0", "br1"] {
        let bridge = bridge.parse().unwrap();
        fence::forget_own(&mut socket, &bridge, &own("br0").sources).unwrap();
        fence::forget_bridge(&mut socket, &bridge).unwrap();
    }
    assert_eq!(space.run("nft list tables"), "");
}
