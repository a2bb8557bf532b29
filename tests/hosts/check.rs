//! `spoke host check`: what is wrong between hosts is found, and said with what to do.

use serde_json::Value;

use crate::bed::{Host, Segment, until, until_reached};

/// What it prints, and says; whether something is wrong.
fn check(host: &Host) -> (Value, String, bool) {
    let said = host.world.try_sh("/opt/cni/bin/spoke host check -o json");
    let rows = serde_json::from_str(&said.stdout).expect("JSON");
    (rows, said.stderr, said.status == 1)
}

/// The MTU changes when the network is there: small packets still arrive, and `host ls` says that whole ones do not.
#[test]
fn a_way_that_becomes_too_narrow_is_reported() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    let says = |words: &str| format!("/opt/cni/bin/spoke host ls 2>&1 | grep -q '{words}'");
    // The host's own device: what is there stays.
    let fit = says("do not fit into the 1400 bytes of the device with 192.0.2.1");
    a.sh("ip link set eth0 mtu 1400");
    until(&a.world, &fit);
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    a.sh("ip link set eth0 mtu 1500");
    until(&a.world, &format!("! {fit}"));
    // One between the hosts.
    segment.sh("ip link set host2 mtu 1400");
    until(&a.world, &says("packets of 1450 bytes of network front do not come to host b"));
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
}

#[test]
fn what_is_wrong_between_hosts_is_found() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    until(
        &a.world,
        "/opt/cni/bin/spoke host check 2>&1 | grep -q 'host b: it has no network with'",
    );
    a.spoke("network create --hosts all front");
    until(&a.world, "/opt/cni/bin/spoke host check");
    let (rows, said, _) = check(&a);
    assert_eq!((&rows[0]["name"], &rows[0]["mtu"]), (&"b".into(), &1450.into()), "{rows} {said}");
    let ahead = rows[0]["clock_milliseconds"].as_i64().expect("a number");
    assert!(ahead.abs() < 2000, "{rows}");
    // A switch between them that lets less through than their devices say.
    segment.sh("ip link set host2 mtu 1400");
    let (rows, said, is_wrong) = check(&a);
    // A bridge lets a VLAN's four bytes more through.
    let fits = rows[0]["mtu"].as_u64().expect("a number");
    assert!(is_wrong && (1350..=1354).contains(&fits), "{rows} {said}");
    let advice =
        format!("the MTU between the hosts to 1500, or make the network again with --mtu {fits}");
    assert!(said.contains(&advice), "{said}");
    segment.sh("ip link set host2 mtu 1500");
    until(&a.world, "/opt/cni/bin/spoke host check");
    // A firewall.
    b.sh("nft add table ip closed; nft add chain ip closed input '{ type filter hook input priority 0; }'
        nft add rule ip closed input udp dport 4789 drop");
    let (rows, said, is_wrong) = check(&a);
    assert!(is_wrong && rows[0]["mtu"].is_null(), "{rows}");
    assert!(
        said.contains("UDP port 4789 must be open between 192.0.2.1 and 192.0.2.2, both ways"),
        "{said}"
    );
}

/// One network is cut, and another is not: each is asked over.
#[test]
fn each_network_is_asked_over() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    a.spoke("network create --hosts all --ipv6 --transport route --names plain");
    let (_one, two) = (a.attach("plain", "one"), b.attach("plain", "two"));
    until_reached(&a.world, "one", &two);
    until(&a.world, "/opt/cni/bin/spoke host check");
    let (rows, _, _) = check(&a);
    let networks: Vec<_> =
        rows.as_array().expect("rows").iter().map(|row| row["network"].clone()).collect();
    assert_eq!(networks, ["front", "plain"], "{rows}");
    // What a cloud does with addresses that it does not know.
    let block = segment.block("plain", "b");
    segment.sh(&format!(
        "nft add table bridge cloud; nft add chain bridge cloud forward '{{ type filter hook forward priority 0; }}'
        nft add rule bridge cloud forward ether type ip ip saddr {block} drop"
    ));
    let (rows, said, is_wrong) = check(&a);
    assert!(is_wrong && rows[0]["problems"] == serde_json::json!([]), "{rows}");
    assert!(said.contains("host b: it does not answer on network plain"), "{said}");
    segment.sh("nft delete table bridge cloud");
    // A container of another host has a name and an address here too, and is one container.
    until(
        &a.world,
        "ip netns exec one getent hosts two || /opt/cni/bin/spoke dns query --as one two | grep -q two",
    );
    for word in ["two", two.as_str()] {
        let said = a.world.try_sh(&format!("/opt/cni/bin/spoke explain one {word}"));
        assert_eq!(said.status, 5, "{} {}", said.stdout, said.stderr);
        assert!(said.stdout.contains("for host b, which has"), "{} {}", said.stdout, said.stderr);
    }
    // Of both families, and one container for each host.
    until(&b.world, "[ $(/opt/cni/bin/spoke host ls -o json | grep -c '\"containers\": 1') = 2 ]");
}
