//! A network whose fence holds while the host's packet filter is flushed.

use serde_json::json;
use tests::{Answer, Cni, Serve, World};

use crate::bed::{Bed, RULES, until};

/// Sends datagrams to an address as fast as every tenth of a millisecond, for five minutes at most.
const STREAM: &str = "
import socket, sys, time
end = time.monotonic() + 300
family = socket.AF_INET6 if \":\" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as sock:
    sock.bind((sys.argv[2], 0))
    while time.monotonic() < end:
        try:
            sock.sendto(b\"x\", (sys.argv[1], 8443))
        except OSError:
            pass
        time.sleep(0.0001)
";
/// Where each container's stream goes to, which no rule allows.
const LOOSE: &str = "203.0.113.97";
const TIGHT: &str = "203.0.113.98";
/// Where a neighbour may go, in whose name another one sends.
const WIDE: &str = "203.0.113.96";
const TIGHT_SIX: &str = "2001:db8:113::98";

fn stream(world: &World, namespace: &str, to: &str, from: &str) {
    world.sh(&format!(
        "ip netns exec {namespace} python3 -c '{STREAM}' {to} {from} >/dev/null 2>&1 & echo $! >>/tmp/streams"
    ));
}

fn counter(address: &str) -> String {
    format!("to_{}", address.replace(['.', ':'], "_"))
}

/// Counts what comes to the world for these addresses.
fn count(world: &World, addresses: &[&str]) {
    for address in addresses {
        let (name, ip) = (counter(address), if address.contains(':') { "ip6" } else { "ip" });
        world.sh(&format!(
            "ip netns exec world nft 'add counter inet seen {name};
             add rule inet seen in iifname out0 {ip} daddr {address} counter name {name}'"
        ));
    }
}

/// How many packets for the address have come to the world.
#[track_caller]
fn arrived(world: &World, address: &str) -> u64 {
    let name = counter(address);
    let shown = world.sh(&format!("ip netns exec world nft list counter inet seen {name}"));
    let packets = shown.split("packets ").nth(1).and_then(|it| it.split(' ').next());
    packets.expect("a counter").parse().expect("a number")
}

/// The last octets of addresses of the link's own protocols: of bridges, slow protocols, LLDP, and the last.
const RESERVED: [&str; 4] = ["00", "02", "0e", "0f"];

const IS_SHUT: &str = "nft list set inet spoke_fence fenced 2>/dev/null | grep -q sp-tight";
const RULES_OF_ROUTING: &str = "{ ip rule; ip -6 rule; } | grep -c 'iif sp-tight' || true";

#[test]
fn a_flush_lets_nothing_out_of_a_strict_network() {
    let mut bed = Bed::new(&["loose", "tight", "wide"]);
    bed.spoke(&format!(
        "network create --egress '{RULES}' --egress-strict --subnet 10.81.3.0/24 tight"
    ));
    bed.spoke("network connect --ip 10.81.1.10 agents loose");
    bed.spoke("network connect --ip 10.81.3.10 tight tight");
    bed.spoke(&format!("network connect --ip 10.81.3.11 --egress {WIDE}:8443/udp tight wide"));
    bed.world.sh("ip -n tight address add 10.81.3.11/32 dev eth0");
    count(&bed.world, &[LOOSE, TIGHT, WIDE]);
    assert_eq!(bed.world.sh(RULES_OF_ROUTING).trim(), "2");
    assert!(bed.spoke("egress show tight").contains("Strict"));
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "open");
    stream(&bed.world, "loose", LOOSE, "0.0.0.0");
    stream(&bed.world, "tight", TIGHT, "0.0.0.0");
    stream(&bed.world, "tight", WIDE, "10.81.3.11");
    for address in [LOOSE, TIGHT, WIDE] {
        until(&bed.world, &format!("/opt/cni/bin/spoke denied | grep -q {address}"));
        assert_eq!(arrived(&bed.world, address), 0);
    }

    // While the daemon puts the fence back, and while it does not run.
    for _ in 0..10 {
        let before = arrived(&bed.world, LOOSE);
        bed.world.sh("nft flush ruleset");
        until(&bed.world, IS_SHUT);
        println!("without strict {} packets", arrived(&bed.world, LOOSE) - before);
        assert_eq!((arrived(&bed.world, TIGHT), arrived(&bed.world, WIDE)), (0, 0));
    }
    bed.serve.take().expect("it runs").kill();
    let before = arrived(&bed.world, LOOSE);
    bed.world.sh("nft flush ruleset");
    let shown = format!("ip netns exec world nft list counter inet seen {}", counter(LOOSE));
    until(&bed.world, &format!("! {shown} | grep -q 'packets {before} '"));
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "shut");
    // What the host answers goes to the source that the packet names, also where the frame is one of the link's own
    // protocols, which no port hands to the host past the filter of its bridge.
    for last in RESERVED {
        bed.attempt("tight", &format!("echo {TIGHT} 10.81.3.1 01-80-c2-00-00-{last}"));
    }
    // What a bridge hands to the host as its port's the kernel does not route: it is no frame to the host alone.
    let reserved = format!("by_frame 10.81.3.10 {TIGHT} 8443 01-80-c2-00-00-0e");
    assert_eq!(bed.attempt("tight", &reserved), "shut");
    assert_eq!((arrived(&bed.world, TIGHT), arrived(&bed.world, WIDE)), (0, 0));

    // What is allowed goes on when the fence is back.
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, IS_SHUT);
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "open");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443"), "shut");
    // A rule that another program removes is put back.
    bed.world.sh("ip rule del iif sp-tight; nft flush ruleset");
    until(&bed.world, IS_SHUT);
    until(&bed.world, &format!("[ \\$({RULES_OF_ROUTING}) = 2 ]"));

    bed.world.sh("kill $(cat /tmp/streams)");
    // It leaves by another network that has no fence, and nothing of it stays.
    bed.spoke("network connect --ip 10.81.2.50 plain tight");
    bed.spoke("network disconnect tight tight");
    bed.spoke("network disconnect tight wide");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443"), "open");
    bed.spoke("network rm tight");
    until(&bed.world, &format!("[ \\$({RULES_OF_ROUTING}) = 0 ]"));
    until(&bed.world, "nft list set inet spoke_fence fenced | grep -q sp-agents");
    assert_eq!(bed.attempt("loose", "tcp 203.0.113.99 443"), "shut");
}

const RULES_OF_OPEN: &str = "{ ip rule; ip -6 rule; } | grep -c 'iif sp-open' || true";
const MARKED: &str = "nft list set inet spoke_fence strict 2>/dev/null | grep -q sp-open";

/// How many packets the container's rules did not keep from leaving: from its own addresses, and from a neighbour's.
#[track_caller]
fn got_out(bed: &Bed) -> [u64; 3] {
    [TIGHT, LOOSE, TIGHT_SIX].map(|address| arrived(&bed.world, address))
}

/// In its own name and in that of its neighbour, who may go anywhere.
#[test]
fn a_flush_lets_nothing_out_of_a_strict_container() {
    let mut bed = Bed::new(&["tight", "free", "late"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 --subnet fd81:5::/64 open");
    bed.spoke("network connect --ip 10.81.5.11 open free");
    let strict = "--egress 203.0.113.20:5432 --egress-strict";
    bed.spoke(&format!("network connect --ip 10.81.5.10 {strict} open tight"));
    assert_eq!(bed.world.sh(RULES_OF_OPEN).trim(), "2");
    let shown = bed.spoke("egress show open");
    assert!(shown.contains("(strict)") && shown.contains("Strict because"), "{shown}");
    bed.world.sh("ip -n tight address add 10.81.5.11/32 dev eth0");
    count(&bed.world, &[LOOSE, TIGHT, TIGHT_SIX]);
    bed.all("tight", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    bed.all("free", &[("tcp 203.0.113.99 443", "open")]);
    stream(&bed.world, "tight", TIGHT, "10.81.5.10");
    stream(&bed.world, "tight", LOOSE, "10.81.5.11");
    stream(&bed.world, "tight", TIGHT_SIX, "::");
    for address in [TIGHT, TIGHT_SIX] {
        until(&bed.world, &format!("/opt/cni/bin/spoke denied | grep -q {address}"));
    }
    for lost in ["nft flush ruleset", "nft delete table inet spoke_fence 2>/dev/null"] {
        for _ in 0..5 {
            bed.world.sh(&format!("for lost in 1 2 3 4 5; do {lost} || true; done"));
            until(&bed.world, MARKED);
            assert_eq!(got_out(&bed), [0; 3], "{lost}");
        }
    }
    for _ in 0..5 {
        bed.world.sh("nft flush ruleset");
        bed.serve.take().expect("it runs").kill();
        bed.world.sh("nft flush ruleset");
        // Who comes to the network now knows nothing of the others' rules.
        bed.spoke(&format!("network connect --ip 10.81.5.12 {strict} open late"));
        bed.world.sh("nft delete table inet spoke_fence");
        bed.spoke("network disconnect open late");
        bed.serve = Some(Serve::start(&bed.world, &[]));
        until(&bed.world, MARKED);
        assert_eq!(got_out(&bed), [0; 3]);
    }
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush ruleset");
    bed.all("tight", &[("tcp 203.0.113.20 5432", "shut")]);
    bed.spoke(&format!("network connect --ip 10.81.5.12 {strict} open late"));
    bed.all("late", &[("tcp 203.0.113.20 5432", "shut")]);
    bed.spoke("network disconnect open late");
    bed.all("tight", &[("tcp 203.0.113.20 5432", "shut")]);
    assert_eq!(got_out(&bed), [0; 3]);

    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, MARKED);
    bed.all("tight", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    bed.all("free", &[("tcp 203.0.113.99 443", "open")]);
    // The first is heard by what another program takes from the packet filter.
    let heard = "nft 'delete element inet spoke_fence within { sp-open . sp-open };
        add element inet spoke_fence within { sp-open . sp-open }'";
    for lost in ["ip rule del iif sp-open", "nft flush set inet spoke_fence strict"] {
        bed.world.sh(&format!("{lost}; {heard}"));
        until(&bed.world, &format!("[ \\$({RULES_OF_OPEN}) = 2 ]"));
        until(&bed.world, MARKED);
        assert_eq!(got_out(&bed), [0; 3], "{lost}");
    }
    bed.world.sh("kill $(cat /tmp/streams)");
    strict_as_long_as_asked_for(&bed);
    strict_by_cni(&bed);
}

/// It stays while a container asks for it, and is over with the last.
#[track_caller]
fn strict_as_long_as_asked_for(bed: &Bed) {
    let has = |count: u8| until(&bed.world, &format!("[ \\$({RULES_OF_OPEN}) = {count} ]"));
    bed.spoke("egress set --container free --strict 203.0.113.22:5432");
    bed.spoke("network disconnect open tight");
    bed.all("free", &[("tcp 203.0.113.22 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    // Other rules are as strict, and so is the container when it comes back.
    bed.spoke("egress set --container free 203.0.113.20:5432");
    assert_eq!(bed.world.sh(RULES_OF_OPEN).trim(), "2");
    bed.spoke("network disconnect open free");
    has(0);
    bed.spoke("network connect --ip 10.81.5.11 open free");
    assert_eq!(bed.world.sh(RULES_OF_OPEN).trim(), "2");
    bed.all("free", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    bed.spoke("egress set --container free --inherit");
    has(0);
    bed.all("free", &[("tcp 203.0.113.99 443", "open")]);
}

#[track_caller]
fn strict_by_cni(bed: &Bed) {
    const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
    let list = |args: serde_json::Value| {
        json!({"cniVersion": "1.0.0", "name": "open", "plugins": [{
            "type": "spoke", "network": "open", "capabilities": {ANNOTATIONS: true}, "args": {"cni": args},
        }]})
    };
    let mut pod = Cni::container(&bed.world, "pod");
    let alone = pod.add(&list(json!({"egressStrict": true})));
    assert!(format!("{alone:?}").contains("egressStrict makes rules"), "{alone:?}");
    let own = list(json!({"egress": "203.0.113.20:5432", "egressStrict": true}));
    let by_pod = list(json!({"egress": "203.0.113.20:5432"}));
    for (list, annotations) in [(own, json!({})), (by_pod, json!({"spoke.egress-strict": "true"}))]
    {
        pod.runtime = json!({ANNOTATIONS: annotations});
        let answers = pod.add(&list);
        assert!(answers.iter().all(Answer::ok), "{answers:?}");
        assert_eq!(bed.world.sh(RULES_OF_OPEN).trim(), "2");
        bed.all("pod", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
        assert!(pod.del(&list).iter().all(Answer::ok));
        until(&bed.world, &format!("[ \\$({RULES_OF_OPEN}) = 0 ]"));
    }
}
