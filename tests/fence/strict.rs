//! A network whose fence holds while the host's packet filter is flushed.

use tests::{Serve, World};

use crate::bed::{Bed, RULES, until};

/// Sends datagrams to an address as fast as every tenth of a millisecond, for two minutes at most.
const STREAM: &str = "
import socket, sys, time
end = time.monotonic() + 120
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
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

fn stream(world: &World, namespace: &str, to: &str) {
    world.sh(&format!(
        "ip netns exec {namespace} python3 -c '{STREAM}' {to} >/dev/null 2>&1 & echo $! >/tmp/{namespace}.pid"
    ));
}

/// How many packets for the address have come to the world.
#[track_caller]
fn arrived(world: &World, address: &str) -> u64 {
    let name = address.replace('.', "_");
    let shown = world.sh(&format!("ip netns exec world nft list counter inet seen to_{name}"));
    let packets = shown.split("packets ").nth(1).and_then(|it| it.split(' ').next());
    packets.expect("a counter").parse().expect("a number")
}

const IS_SHUT: &str = "nft list set inet spoke_fence fenced 2>/dev/null | grep -q sp-tight";
const RULES_OF_ROUTING: &str = "{ ip rule; ip -6 rule; } | grep -c 'iif sp-tight' || true";

#[test]
fn a_flush_lets_nothing_out_of_a_strict_network() {
    let mut bed = Bed::new(&["loose", "tight"]);
    bed.spoke(&format!(
        "network create --egress '{RULES}' --egress-strict --subnet 10.81.3.0/24 tight"
    ));
    bed.spoke("network connect --ip 10.81.1.10 agents loose");
    bed.spoke("network connect --ip 10.81.3.10 tight tight");
    for address in [LOOSE, TIGHT] {
        let name = address.replace('.', "_");
        bed.world.sh(&format!(
            "ip netns exec world nft 'add counter inet seen to_{name};
             add rule inet seen in iifname out0 ip daddr {address} counter name to_{name}'"
        ));
    }
    assert_eq!(bed.world.sh(RULES_OF_ROUTING).trim(), "2");
    assert!(bed.spoke("egress show tight").contains("Strict"));
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "open");
    stream(&bed.world, "loose", LOOSE);
    stream(&bed.world, "tight", TIGHT);
    for address in [LOOSE, TIGHT] {
        until(&bed.world, &format!("/opt/cni/bin/spoke denied | grep -q {address}"));
        assert_eq!(arrived(&bed.world, address), 0);
    }

    // While somebody puts the fence back, and while nobody does.
    for _ in 0..10 {
        let before = arrived(&bed.world, LOOSE);
        bed.world.sh("nft flush ruleset");
        until(&bed.world, IS_SHUT);
        println!("without strict {} packets", arrived(&bed.world, LOOSE) - before);
        assert_eq!(arrived(&bed.world, TIGHT), 0);
    }
    bed.serve.take().expect("it runs").kill();
    let before = arrived(&bed.world, LOOSE);
    bed.world.sh("nft flush ruleset");
    let name = LOOSE.replace('.', "_");
    let shown = format!("ip netns exec world nft list counter inet seen to_{name}");
    until(&bed.world, &format!("! {shown} | grep -q 'packets {before} '"));
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "shut");
    assert_eq!(arrived(&bed.world, TIGHT), 0);

    // What is allowed goes on when the fence is back.
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, IS_SHUT);
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.20 5432"), "open");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443"), "shut");
    // A rule that another program removes is put back.
    bed.world.sh("ip rule del iif sp-tight; nft flush ruleset");
    until(&bed.world, IS_SHUT);
    until(&bed.world, &format!("[ \\$({RULES_OF_ROUTING}) = 2 ]"));

    bed.world.sh("kill $(cat /tmp/loose.pid /tmp/tight.pid)");
    // It leaves by another network that has no fence, and nothing of it stays.
    bed.spoke("network connect --ip 10.81.2.50 plain tight");
    bed.spoke("network disconnect tight tight");
    assert_eq!(bed.attempt("tight", "tcp 203.0.113.99 443"), "open");
    bed.spoke("network rm tight");
    until(&bed.world, &format!("[ \\$({RULES_OF_ROUTING}) = 0 ]"));
    until(&bed.world, "nft list set inet spoke_fence fenced | grep -q sp-agents");
    assert_eq!(bed.attempt("loose", "tcp 203.0.113.99 443"), "shut");
}
