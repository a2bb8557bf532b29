//! One container that learns the rules of its own.

use crate::bed::{Bed, until};
use crate::flow::Flow;

/// Nothing is refused to it for a while, and everything to its neighbours.
#[test]
fn one_container_learns_its_own_rules() {
    let bed = Bed::new(&["agent", "mate"]);
    bed.spoke("network connect --ip 10.81.1.10 --egress exact.example:443 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 --egress none agents mate");
    let shut = [("tcp 203.0.113.99 443", "shut"), ("ask 10.81.1.1 evil.example", "NXDOMAIN")];
    bed.all("agent", &shut);
    bed.spoke("egress learn --container agent --for 1h");
    assert!(bed.spoke("egress show agents").contains("exact.example:443 (learns until "));
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 learned.evil.example"), "203.0.113.19");
    let mut learned = Flow::open(&bed.world, "agent", "203.0.113.19", 443);
    assert_eq!(bed.attempt("agent", "udp 203.0.113.99 8443"), "open");
    bed.all("mate", &shut);
    let suggests = |container: &str, rule: &str| {
        format!("/opt/cni/bin/spoke egress suggest --container {container} | grep -q '{rule}'")
    };
    until(&bed.world, &suggests("agent", "^learned.evil.example:443$"));
    until(&bed.world, &suggests("agent", "^203.0.113.99:8443/udp$"));
    bed.world.sh(&format!("! {}", suggests("mate", "learned.evil.example")));
    assert!(bed.spoke("denied").contains("not in egress of agent on agents, which learns"));

    // It learns on after a flush, and after other rules are set.
    bed.world.sh("nft flush ruleset");
    until(
        &bed.world,
        "nft list set inet spoke_fence own_learning4 2>/dev/null | grep -q 10.81.1.10",
    );
    bed.spoke("egress set --container agent learned.evil.example:443");
    assert_eq!(bed.attempt("agent", "udp 203.0.113.99 8443"), "open");
    // What it is called does not keep that.
    let kept = bed.world.sh("grep -r learned.evil /var/lib/spoke/ | grep -v attachments || true");
    assert!(kept.contains("learned.evil.example:443") && !kept.contains("learning"), "{kept}");

    bed.spoke("egress learn --container agent --stop");
    assert_eq!(learned.state(), "shut");
    bed.all("agent", &[("udp 203.0.113.99 8443", "shut"), ("tcp 203.0.113.99 443", "shut")]);
    bed.spoke("egress learn --container agent --for 2s");
    let ended = "/opt/cni/bin/spoke events | grep 'refuses again what its own rules'";
    until(&bed.world, &format!("{ended} | sed -n 2p | grep -q ."));
    bed.all("agent", &[("udp 203.0.113.99 8443", "shut"), shut[1]]);
    refuses(&bed);
}

fn refuses(bed: &Bed) {
    bed.spoke("egress set --container mate --inherit");
    for (command, why) in [
        ("learn --container mate --for 1h", "no egress rules of its own"),
        ("suggest --container mate", "no egress rules of its own"),
        ("learn --for 1h", "NETWORK"),
        ("suggest", "NETWORK"),
    ] {
        let refused = bed.world.try_sh(&format!("/opt/cni/bin/spoke egress {command}"));
        assert!(refused.status != 0 && refused.stderr.contains(why), "{command}: {refused:?}");
    }
    bed.spoke("network disconnect agents agent");
    bed.spoke("network disconnect agents mate");
    assert!(!bed.world.sh("nft list table inet spoke_fence").contains("10.81.1.10"));
}

/// What `suggest` prints is set as it is: what was used, what was allowed before, and nothing that had been refused
/// before. What is refused afterwards is suggested then.
#[test]
fn what_was_learned_is_set_as_it_is_suggested() {
    let bed = Bed::new(&["agent"]);
    bed.spoke("network connect --ip 10.81.1.10 agents agent");
    let denied = |what: &str| {
        until(&bed.world, &format!("/opt/cni/bin/spoke denied agents | grep -q {what}"));
    };
    bed.all(
        "agent",
        &[("tcp 203.0.113.98 443", "shut"), ("ask 10.81.1.1 evil.example", "NXDOMAIN")],
    );
    denied("203.0.113.98");
    denied("evil.example");
    bed.spoke("egress learn agents --for 1h");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 learned.evil.example"), "203.0.113.19");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.19 443"), "open");
    until(
        &bed.world,
        "/opt/cni/bin/spoke egress suggest agents | grep -q '^learned.evil.example:443$'",
    );
    assert_eq!(bed.spoke("egress suggest agents"), "learned.evil.example:443\n");
    bed.world.sh("spoke=/opt/cni/bin/spoke; $spoke egress set agents \"$($spoke egress suggest --all agents)\"");
    bed.spoke("egress learn agents --stop");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 learned.evil.example"), "203.0.113.19");
    let table = [
        ("tcp 203.0.113.19 443", "open"),
        ("tcp 203.0.113.20 5432", "open"),
        ("tcp 203.0.113.98 443", "shut"),
        ("ask 10.81.1.1 other.evil.example", "NXDOMAIN"),
    ];
    bed.all("agent", &table);
    denied("other.evil.example");
    until(
        &bed.world,
        "/opt/cni/bin/spoke egress suggest agents | grep -q '^other.evil.example:443$'",
    );
    assert!(!bed.spoke("egress suggest agents").contains("learned.evil"));
}
