//! Flows of strict containers behind a network with a way of its own: begun by others, and by them.

use tests::Serve;

use crate::bed::{Bed, until};

/// The way, which others call by, and where 198.18.5.5 has a server. It counts what comes to port 8443.
const WAY: &str =
    "ip link add way0 type veth peer name far0 netns vpn; ip address add 10.99.0.1/24 dev way0
    ip link set way0 up; ip -n vpn address add 10.99.0.2/24 dev far0; ip -n vpn link set far0 up
    ip -n vpn link set lo up; ip -n vpn address add 198.18.5.5/32 dev lo
    ip -n vpn route add default via 10.99.0.1
    ip route add default via 10.99.0.2 dev way0 metric 9000
    for each in all way0; do echo 0 >/proc/sys/net/ipv4/conf/$each/rp_filter; done
    ip netns exec vpn nft 'table inet seen {
        counter left { }
        chain in { type filter hook prerouting priority -300; udp dport 8443 counter name left; }
    }'";

#[test]
fn a_strict_container_answers_by_its_way_and_by_nothing_else() {
    let mut bed = Bed::new(&["vpn", "near", "own"]);
    bed.world.sh(WAY);
    let rules = "--egress 198.18.5.5:5432 --egress-strict";
    bed.spoke(&format!("network create --via way0 {rules} --subnet 10.81.8.0/24 led"));
    bed.spoke("network create --via way0 --names --subnet 10.81.9.0/24 open");
    bed.spoke("network connect --ip 10.81.8.10 --publish 8082:8022 led near");
    bed.spoke(&format!("network connect --ip 10.81.9.10 --publish 8083:8022 {rules} open own"));
    bed.listens("vpn", 5432);
    for name in ["near", "own"] {
        bed.listens(name, 8022);
    }
    answer_and_begin(&bed);

    // While nothing keeps them, nothing comes by the way, nor by the uplink.
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush ruleset");
    for name in ["near", "own"] {
        for attempt in ["tcp 198.18.5.5 5432", "udp 198.18.5.5 8443", "udp 203.0.113.89 8443"] {
            assert_eq!(bed.attempt(name, attempt), "shut", "{name}: {attempt}");
        }
    }
    let left = bed.world.sh("ip netns exec vpn nft list counter inet seen left");
    assert!(left.contains("packets 0 "), "{left}");
    assert!(!bed.seen().contains("113.89"), "{}", bed.seen());

    bed.serve = Some(Serve::start(&bed.world, &[]));
    for bridge in ["sp-led", "sp-open"] {
        until(&bed.world, &format!("nft list set inet spoke_fence strict | grep -q {bridge}"));
    }
    for port in ["8082", "8083"] {
        until(&bed.world, &format!("nft list table inet spoke | grep -qF '. {port} '"));
    }
    answer_and_begin(&bed);
}

#[track_caller]
fn answer_and_begin(bed: &Bed) {
    for (name, port) in [("near", 8082), ("own", 8083)] {
        bed.all("vpn", &[(&format!("tcp 10.99.0.1 {port} from=198.18.5.5"), "open")]);
        bed.all("world", &[(&format!("tcp 203.0.113.254 {port}"), "open")]);
        bed.all(
            name,
            &[
                ("tcp 198.18.5.5 5432", "open"),
                ("tcp 198.18.5.5 443", "shut"),
                ("tcp 203.0.113.90 443", "shut"),
            ],
        );
    }
}
