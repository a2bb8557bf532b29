//! What becomes of a fence while it is used: other rules, other containers, and what others do to it.

use std::time::{Duration, Instant};

use tests::Serve;

use crate::bed::{Bed, listen, until};
use crate::flow::Flow;

fn connected(namespaces: &[&str]) -> Bed {
    let bed = Bed::new(namespaces);
    for (place, name) in namespaces.iter().enumerate() {
        bed.spoke(&format!("network connect --ip 10.81.1.{} agents {name}", place + 10));
    }
    bed
}

/// What stays allowed goes on; what does not ends at once, and with it what names have opened.
#[test]
fn rules_change_while_containers_run() {
    let bed = connected(&["agent", "mate"]);
    for name in ["cut", "stays"] {
        bed.attempt("agent", &format!("ask 10.81.1.1 {name}.allowed.example"));
    }
    let mut cut = Flow::open(&bed.world, "agent", "203.0.113.33", 443);
    let mut stays = Flow::open(&bed.world, "agent", "203.0.113.34", 443);
    let mut by_rule = Flow::open(&bed.world, "agent", "203.0.113.20", 5432);
    // The time of this one is over, and it goes on all the same. The other one is older than a day.
    bed.world.sh("nft flush set inet spoke_fence openings4");
    bed.world.sh("nft 'delete element inet spoke_fence recent4 \
         { \"sp-agents\" . 10.81.1.10 . 203.0.113.33 . tcp . 443 }'");
    assert_eq!(stays.state(), "goes on");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.34 443"), "shut");

    bed.spoke("egress set agents stays.allowed.example:443,203.0.113.8:853");
    let states = (stays.state(), cut.state(), by_rule.state());
    assert_eq!(states, said(["goes on", "shut", "shut"]));
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 stays.allowed.example"), "203.0.113.34");
    let table = [
        ("ask 10.81.1.1 cut.allowed.example", "NXDOMAIN"),
        ("tcp 203.0.113.33 443", "shut"),
        ("tcp 203.0.113.34 443", "open"),
        ("tcp 203.0.113.20 5432", "shut"),
        ("tcp 203.0.113.8 853", "open"),
    ];
    bed.all("agent", &table);
    let test =
        |target: &str| bed.world.try_sh(&format!("/opt/cni/bin/spoke egress test agents {target}"));
    assert_eq!(test("stays.allowed.example:443").status, 0);
    assert_eq!(test("cut.allowed.example:443").status, 1);

    // Nothing is refused while it learns, and everything again when that is over.
    bed.spoke("egress learn agents --for 1h");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 learned.evil.example"), "203.0.113.19");
    let mut learned = Flow::open(&bed.world, "agent", "203.0.113.19", 443);
    assert_eq!(bed.attempt("agent", "udp 203.0.113.99 8443"), "open");
    let suggested = "/opt/cni/bin/spoke egress suggest agents";
    until(&bed.world, &format!("{suggested} | grep -q learned.evil.example:443"));
    until(&bed.world, &format!("{suggested} | grep -q 203.0.113.99:8443/udp"));
    bed.spoke("egress learn agents --stop");
    assert_eq!((learned.state(), stays.state()), ("shut".into(), "goes on".into()));
    let table =
        [("ask 10.81.1.1 learned.evil.example", "NXDOMAIN"), ("udp 203.0.113.99 8443", "shut")];
    bed.all("agent", &table);
    // What never stops to send, and is not answered, ends with the time, too: an answer would open it.
    bed.world.sh(&format!("ip netns exec agent timeout 20 python3 -c '{SENDS}' >/dev/null 2>&1 &"));
    bed.spoke("egress learn agents --for 2s");
    let flows = "/opt/cni/bin/spoke flows -o json | grep -q 203.0.113.97";
    until(&bed.world, flows);
    until(&bed.world, "/opt/cni/bin/spoke events | grep -q 'agents refuses again'");
    until(&bed.world, &format!("! {flows}"));
    let refused = bed.world.try_sh("/opt/cni/bin/spoke egress set plain none");
    assert!(refused.stderr.contains("made without --egress"), "{refused:?}");
}

const SENDS: &str = "
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.connect((\"203.0.113.97\", 7777))
    while True:
        try:
            sock.send(b\"x\")
        except OSError:
            pass
        time.sleep(0.05)
";

fn said([one, two, three]: [&str; 3]) -> (String, String, String) {
    (one.to_owned(), two.to_owned(), three.to_owned())
}

/// What one container opened is not the next one's, by its address or by its name.
#[test]
fn a_container_leaves_nothing_open() {
    let bed = connected(&["agent", "mate"]);
    bed.world.netns("next");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 reused.allowed.example"), "203.0.113.32");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.32 443"), "open");
    assert_eq!(bed.attempt("mate", "tcp 203.0.113.32 443"), "shut", "only who asked");
    bed.spoke("network disconnect agents agent");
    bed.spoke("network connect --ip 10.81.1.10 agents next");
    assert_eq!(bed.attempt("next", "tcp 203.0.113.32 443"), "shut", "another one of the address");
    bed.spoke("network connect --ip 10.81.1.99 agents agent");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.32 443"), "shut", "another address");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 reused.allowed.example"), "203.0.113.32");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.32 443"), "open");
    assert_eq!(bed.attempt("next", "tcp 203.0.113.32 443"), "shut");

    // An answer that comes when its asker has ended is not the next one's; one that comes when the rules have
    // changed opens nothing.
    let held = bed.ask_held("agent");
    bed.spoke("network disconnect agents agent");
    bed.world.netns("third");
    bed.spoke("network connect --ip 10.81.1.99 agents third");
    bed.answer_held("third");
    let table = [("tcp 203.0.113.36 443", "shut"), ("tcp 203.0.113.17 443", "open")];
    bed.all("third", &table);
    drop(held);
    let held = bed.ask_held("third");
    bed.spoke("egress set agents fresh.allowed.example:443");
    bed.answer_held("third");
    bed.all("third", &table);
    drop(held);
    bed.spoke(&format!("egress set agents '{}'", crate::bed::RULES));

    // Ports that it publishes answer, and it reaches its network's other containers.
    bed.world.netns("server");
    bed.spoke("network connect --ip 10.81.1.50 --publish 8080:8022 agents server");
    listen(&bed.world, "/run/netns/server", "server 8022");
    until(&bed.world, "ip netns exec server ss -Hltn | grep -q ':8022 '");
    assert_eq!(bed.attempt("world", "tcp 203.0.113.254 8080"), "open");
    assert_eq!(bed.attempt("mate", "tcp 10.81.1.50 8022"), "open");

    // The fence of a network is for what leaves by that network.
    bed.spoke("network connect --ip 10.81.2.50 plain server");
    bed.world.sh("ip -n server route add 203.0.113.0/24 via 10.81.2.1");
    assert_eq!(bed.attempt("server", "tcp 203.0.113.99 443"), "open", "by the other network");
    bed.world.sh("ip -n server route change 203.0.113.0/24 via 10.81.1.1");
    assert_eq!(bed.attempt("server", "tcp 203.0.113.99 443"), "shut");
    assert_eq!(bed.attempt("server", "tcp 203.0.113.99 443 from=10.81.2.50"), "shut");

    for name in ["mate", "next", "third", "server"] {
        bed.spoke(&format!("network disconnect agents {name}"));
    }
    bed.spoke("network rm agents");
    until(&bed.world, "! nft list table inet spoke_fence >/dev/null 2>&1");
    assert_eq!(bed.spoke("events | grep -c healed || true").trim(), "0");
}

/// A dead daemon opens nothing, and a flushed packet filter is put back with what was open.
#[test]
fn it_stays_shut_whatever_happens() {
    let mut bed = connected(&["agent"]);
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 good.allowed.example"), "203.0.113.10");
    let mut flow = Flow::open(&bed.world, "agent", "203.0.113.10", 443);
    bed.serve.take().expect("it runs").kill();
    assert_eq!(flow.state(), "goes on");
    bed.world.netns("late");
    bed.spoke("network connect --ip 10.81.1.60 agents late");
    let table = [
        ("tcp 203.0.113.10 443", "open"),
        ("tcp 203.0.113.20 5432", "open"),
        ("tcp 203.0.113.99 443", "shut"),
        ("udp 203.0.113.8 8443", "shut"),
        ("udp 203.0.113.8 53", "shut"),
        ("tcp 203.0.113.8 53", "shut"),
    ];
    bed.all("agent", &table);
    bed.all("late", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.10 443", "shut")]);
    bed.spoke("egress set agents *.allowed.example:443,203.0.113.8:853");
    assert_eq!(bed.attempt("late", "tcp 203.0.113.20 5432"), "shut");
    assert!(!bed.was_asked("evil.example"));

    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, "ss -Hlun sport = :299 | grep -q 10.81.1.1");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 fresh.allowed.example"), "203.0.113.17");
    assert_eq!(bed.attempt("agent", "ask 10.81.1.1 evil.example"), "NXDOMAIN");
    for lost in [
        "flush ruleset",
        "delete table inet spoke_fence",
        "flush chain inet spoke_fence leaving",
        "flush set inet spoke_fence fenced",
        "insert rule inet spoke_fence leaving accept",
    ] {
        bed.world.sh(&format!("nft {lost}"));
        let is_whole = "nft list table inet spoke_fence 2>/dev/null | tr -d '\\n\\t' | \
                        grep -q 'chain leaving {iifname . oifname @within icmpv6.*jump refused'";
        until(&bed.world, is_whole);
        until(&bed.world, "nft list set inet spoke_fence fenced | grep -q sp-agents");
        until(&bed.world, "nft list set inet spoke_fence openings4 | grep -q 203.0.113.17");
        let table = [
            ("tcp 203.0.113.99 443", "shut"),
            ("tcp 203.0.113.17 443", "open"),
            ("tcp 203.0.113.8 853", "open"),
        ];
        bed.all("agent", &table);
        assert_eq!(flow.state(), "goes on", "{lost}");
    }
    // What others add in any form is removed, too.
    for added in [
        "allowed4 { \"sp-agents\" . 203.0.113.99 . tcp . 443 }",
        "openings4 { \"sp-agents\" . 10.81.1.10 . 203.0.113.99 . tcp . 443 }",
        "openings4 { \"sp-agents\" . 10.81.1.10 . 203.0.113.99 . tcp . 443 timeout 1h }",
        "within { \"sp-agents\" . \"up0\" }",
        "learning { \"sp-agents\" }",
    ] {
        bed.world.sh(&format!("nft 'add element inet spoke_fence {added}'"));
        let listed = "nft list table inet spoke_fence";
        let set = added.split(' ').next().expect("a set");
        let sought = if set.ends_with('4') { "203.0.113.99" } else { "up0\\|learning.*elements" };
        until(
            &bed.world,
            &format!("! {listed} | tr -d '\\n' | sed 's/set /\\n/g' | grep -q '{sought}'"),
        );
        bed.all("agent", &[("tcp 203.0.113.99 443", "shut"), ("tcp 203.0.113.8 853", "open")]);
    }
    until(&bed.world, "/opt/cni/bin/spoke events | grep -q 'fences of networks'");
    ports_are_checked_again(&bed);
    // Stopped for good, it leaves the fence shut.
    bed.serve.take().expect("it runs").stop();
    bed.all("agent", &[("tcp 203.0.113.99 443", "shut"), ("udp 203.0.113.8 53", "shut")]);
    assert!(!bed.was_asked("evil.example"));
}

/// What keeps containers from their neighbours' names is put back, too.
#[track_caller]
fn ports_are_checked_again(bed: &Bed) {
    for lost in ["delete table bridge spoke", "flush chain bridge spoke genuine"] {
        bed.world.sh(&format!("nft {lost}"));
        until(&bed.world, "nft list set bridge spoke bound 2>/dev/null | grep -q veth");
        until(&bed.world, "nft list chain bridge spoke genuine 2>/dev/null | grep -q spoofed");
    }
}

/// The processor time of the daemon, in hundredths of a second.
fn ticks(bed: &Bed) -> u64 {
    let pid = bed.serve.as_ref().and_then(Serve::pid).expect("it runs").as_raw_nonzero();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// A table that another program owns (`flags owner`) cannot be changed. The daemon goes on to try, without
/// doing nothing else, and ends when it is stopped; when the owner is gone, so is its table, and the fence is
/// back.
#[test]
fn a_repair_that_fails_is_done_again() {
    let mut bed = connected(&["agent"]);
    bed.world.sh(
        "mkfifo /tmp/owner && exec 3<>/tmp/owner
         nft -i <&3 >/dev/null 2>&1 & echo $! >/tmp/owner.pid
         printf 'delete table inet spoke_fence; add table inet spoke_fence { flags owner; }\n' >&3",
    );
    let owned = "nft list table inet spoke_fence | grep -q owner";
    let failed = "/opt/cni/bin/spoke events | grep -q 'putting the fences of networks back'";
    for _ in 0..2 {
        until(&bed.world, owned);
        until(&bed.world, failed);
        let before = ticks(&bed);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(2) {
            bed.spoke("version");
        }
        let spent = ticks(&bed) - before;
        assert!(spent < 60, "it is busy all the time: {spent}");
        bed.serve.take().expect("it runs").stop();
        bed.serve = Some(Serve::start(&bed.world, &[]));
    }
    bed.world.sh("kill $(cat /tmp/owner.pid); rm /tmp/owner /tmp/owner.pid");
    until(&bed.world, "nft list set inet spoke_fence fenced | grep -q sp-agents");
    until(&bed.world, "ss -Hlun sport = :299 | grep -q 10.81.1.1");
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.99 443"), "shut");
    is_shut_without_a_record(&bed);
}

/// A network without a record is not over while a container of it is there. What was put back of another one shows
/// that the daemon has learned of that.
fn is_shut_without_a_record(bed: &Bed) {
    let lists = |bridge: &str| format!("nft list set inet spoke_fence fenced | grep -q {bridge}");
    bed.world.sh("rm /var/lib/spoke/networks/agents");
    bed.spoke("network create --egress none --subnet 10.81.3.0/24 more");
    until(&bed.world, &lists("sp-more"));
    bed.world.sh("nft 'delete element inet spoke_fence fenced { \"sp-more\" }'");
    until(&bed.world, &lists("sp-more"));
    bed.world.sh(&lists("sp-agents"));
    assert_eq!(bed.attempt("agent", "tcp 203.0.113.99 443"), "shut");
    bed.spoke("network disconnect agents agent");
    bed.spoke("network rm agents");
    until(&bed.world, &format!("! {}", lists("sp-agents")));
}
