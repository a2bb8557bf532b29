use model::Family;
use netlink::Socket;

use super::space::Space;
use super::table::listed;
use crate::filter::via;
use crate::identity::GROUP;
use crate::way::{self, Hop, Hops, WayOut};

const TRUTH: &str = include_str!("../via.nft");
const LIST: &str = "nft list table inet spoke_via";

fn way(bridge: &str, via: &str) -> WayOut {
    let (network, bridge) = ("n".parse().unwrap(), bridge.parse().unwrap());
    let translated = vec![Family::V4, Family::V6];
    WayOut { network, bridge, via: via.parse().unwrap(), translated }
}

fn keep(socket: &mut Socket, way: &WayOut, hops: &Hops) -> model::Result<bool> {
    let inside = ["10.7.0.0/24".parse().unwrap(), "fd07::/64".parse().unwrap()];
    via::keep(socket, way, &via::Lead { hops, inside: &inside, relays: Some(true) }, &way::always)
}

fn nowhere() -> Hops {
    Hops { v4: Err("gone".into()), v6: Err("gone".into()) }
}

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    keep(&mut socket, &way("br0", "wg0"), &nowhere()).unwrap();
    for set in ["led", "inside4", "inside6", "relays"] {
        space.run(&format!("nft flush set inet spoke_via {set}"));
    }
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn the_table_of_bridges_is_what_the_file_says_and_goes_with_the_other_one() {
    const LIST: &str = "nft list table bridge spoke_via";
    let truth = listed(include_str!("../switched.nft"), LIST);
    let space = Space::new();
    let (mut socket, way) = (space.socket(), way("br0", "wg0"));
    for lost in
        ["true", "nft delete table bridge spoke_via", "nft flush chain bridge spoke_via after"]
    {
        space.run(lost);
        assert!(keep(&mut socket, &way, &nowhere()).unwrap(), "{lost}");
        assert_eq!(space.run(LIST), truth);
        assert!(!keep(&mut socket, &way, &nowhere()).unwrap());
    }
    space.run("nft delete table inet spoke_via");
    via::forget_bridge(&mut socket, &way.bridge, &way::always).unwrap();
    assert_eq!(space.run("nft list tables"), "");
}

/// The table of the version before goes on, and goes as its network loses its way.
#[test]
fn the_table_of_an_older_version_is_made_anew_and_removed() {
    const OLDER: &str = "nft 'table inet spoke_via {
        set led { type ifname; elements = { \"br0\" comment \"n 1\" }; }
        set links { type ifname . ifname; elements = { \"br0\" . \"wg0\" }; }
        chain via_1 { }
        chain forward { type filter hook forward priority -15; iifname @led drop; }
    }'";
    let space = Space::new();
    let (mut socket, way) = (space.socket(), way("br0", "wg0"));
    space.run(OLDER);
    assert!(keep(&mut socket, &way, &nowhere()).unwrap());
    let text = space.run(LIST);
    assert!(text.contains("chain senders") && !text.contains("via_1"), "{text}");
    // What forwards for another network is known to the daemon alone.
    let lead = |socket: &mut Socket, relays| {
        let lead = via::Lead { hops: &nowhere(), inside: &[], relays };
        via::keep(socket, &way, &lead, &way::always).unwrap()
    };
    let relays = || space.run("nft list set inet spoke_via relays");
    space.run("nft flush ruleset");
    space.run(OLDER);
    assert!(lead(&mut socket, None));
    assert!(relays().contains("\"br0\""), "{}", relays());
    assert!(lead(&mut socket, Some(false)));
    assert!(!relays().contains("\"br0\""), "{}", relays());
    space.run("nft flush ruleset");
    space.run(OLDER);
    via::forget_bridge(&mut socket, &way.bridge, &way::always).unwrap();
    assert_eq!(space.run("nft list tables"), "");
}

#[test]
fn ways_come_and_go_and_the_table_goes_with_the_last_network() {
    let space = Space::new();
    let mut socket = space.socket();
    let (one, other) = (way("br0", "wg0"), way("br1", "192.0.2.2"));
    let hop = |device: &str| Hop {
        device: device.parse().unwrap(),
        link: 1,
        gateway: None,
        mac: None,
        source: None,
        segment: None,
        mtu: 1400,
    };
    let router = Hop {
        gateway: Some("192.0.2.2".parse().unwrap()),
        segment: Some("192.0.2.0/24".parse().unwrap()),
        ..hop("eth0")
    };
    let container = Hop {
        gateway: Some("192.0.2.2".parse().unwrap()),
        mac: Some("02:00:00:00:00:01".parse().unwrap()),
        source: Some("192.0.2.1".parse().unwrap()),
        ..hop("veth0")
    };
    let with = |hop: &Hop| Hops { v4: Ok(hop.clone()), v6: Err("none".into()) };
    assert!(keep(&mut socket, &one, &with(&hop("wg0"))).unwrap());
    assert!(!keep(&mut socket, &one, &with(&hop("wg0"))).unwrap());
    assert!(keep(&mut socket, &other, &with(&router)).unwrap());
    let text = space.run(LIST);
    for part in [
        "\"br0\" . \"wg0\"",
        "\"br1\" . \"eth0\" . 192.0.2.2",
        "192.0.2.0/24",
        "\"br0\" . 10.7.0.0/24",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for lost in
        ["flush ruleset", "flush chain inet spoke_via leaving", "flush set inet spoke_via led"]
    {
        space.run(&format!("nft {lost}"));
        assert!(!via::is_held(&mut socket, &one).unwrap(), "{lost}");
        keep(&mut socket, &one, &with(&hop("wg0"))).unwrap();
        keep(&mut socket, &other, &with(&router)).unwrap();
        assert!(via::is_held(&mut socket, &one).unwrap(), "{lost}");
    }
    keep(&mut socket, &other, &with(&container)).unwrap();
    let text = space.run(LIST);
    assert!(
        text.contains("\"br1\" . \"veth0\" : 192.0.2.1") && !text.contains("eth0\" . 192"),
        "{text}"
    );
    keep(&mut socket, &other, &nowhere()).unwrap();
    assert!(!space.run(LIST).contains("veth0"));
    via::forget_bridge(&mut socket, &other.bridge, &way::always).unwrap();
    assert!(!space.run(LIST).contains("br1"));
    via::forget_bridge(&mut socket, &one.bridge, &way::always).unwrap();
    via::forget_bridge(&mut socket, &one.bridge, &way::always).unwrap();
    assert_eq!(space.run("nft list tables"), "");
}

/// Rules and routes follow the tunnel, and nothing is left.
#[test]
fn rules_and_routes_follow_the_way() {
    let space = Space::new();
    let rules = "ip rule; ip -6 rule";
    let before = space.run(rules);
    let way = way("br0", "t0");
    space
        .run("ip link add br0 type bridge; ip address add 10.1.0.1/24 dev br0; ip link set br0 up");
    let keep =
        || space.netns.enter(|| way::keep(&mut space.socket(), &way, None)).unwrap().unwrap();
    assert!(keep().1);
    assert!(!keep().1, "once");
    let table = way.table();
    let routes = format!("ip route show table {table} | cat");
    assert_eq!(space.run(&routes), "");
    space.run("ip tuntap add t0 mode tun; ip link set t0 up");
    assert!(keep().0.v4.unwrap_err().contains("no IPv4 address"));
    space.run("ip address add 10.9.0.2/32 dev t0");
    assert!(keep().1);
    assert!(space.run(&routes).contains("default dev t0"), "{}", space.run(&routes));
    assert!(!keep().1, "once");
    space.run(&format!("ip route flush table {table}"));
    assert!(keep().1);
    space.run("ip rule flush; ip rule add priority 32766 lookup main; ip rule add priority 32767 lookup default");
    assert!(keep().1);
    let led = space.netns.enter(way::led).unwrap().unwrap();
    assert_eq!(led, ["br0".parse().unwrap()]);
    space.run("ip link delete t0");
    assert_eq!(space.run(&routes), "");
    // Two networks with one subnet: the table has it once.
    for bridge in ["br1", "br2"] {
        space.run(&format!(
            "ip link add {bridge} group {GROUP} type bridge; ip link set {bridge} up
            ip address add 10.7.0.1/24 dev {bridge}"
        ));
    }
    assert!(keep().1);
    assert!(space.run(&routes).contains("10.7.0.0/24 dev br1"), "{}", space.run(&routes));
    assert!(!keep().1, "once");
    assert!(!keep().1, "once");
    space.netns.enter(|| way::forget_bridge(&mut space.socket(), &way.bridge)).unwrap().unwrap();
    assert_eq!(space.run(rules), before);
    assert_eq!(space.run("nft list tables"), "");
}

/// Two bridges whose names have one number: the second is refused, and the first stays whole.
#[test]
fn what_has_the_number_of_another_bridge_takes_nothing_from_it() {
    let space = Space::new();
    let mut seen = std::collections::BTreeMap::new();
    let (one, other) = (0..)
        .find_map(|number| {
            let other = way(&format!("sp-{number}"), "lo0");
            let one = seen.insert(other.table(), other.clone())?;
            Some((one, other))
        })
        .unwrap();
    let keep =
        |way: &WayOut| space.netns.enter(|| way::keep(&mut space.socket(), way, None)).unwrap();
    keep(&one).unwrap();
    let route = format!("ip route add blackhole 198.51.100.0/24 table {}", one.table());
    space.run(&route);
    let state = format!("ip rule; ip -6 rule; ip route show table {}; {LIST}", one.table());
    let before = space.run(&state);
    assert!(before.contains("198.51.100.0/24"), "{before}");
    let refused = keep(&other).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::Conflict);
    assert_eq!(space.run(&state), before);
    space.netns.enter(|| way::forget_bridge(&mut space.socket(), &other.bridge)).unwrap().unwrap();
    assert_eq!(space.run(&state), before);
}
