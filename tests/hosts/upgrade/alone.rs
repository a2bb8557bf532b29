//! A host in no cluster that gets this program in the place of the last release's.

use tests::Plugins;

use super::{detach, programs};
use crate::bed::{Host, Segment, address, until};
use crate::flow::Flow;
use crate::names::until_answered;

/// Where `kept` may go, and what else listens there.
const OPEN: &str = "192.0.2.9";
const SHUT: &str = "192.0.2.77";
/// Takes connections, of which no record exists.
const LISTEN: &str = "import socket, signal; s = socket.create_server((str(), 7001), backlog=99); \
                      print(1, flush=True); signal.pause()";

#[test]
fn this_program_ends_what_the_last_release_began() {
    let Some([last, this]) = programs() else { return };
    changes(&last, &[&this]);
}

/// A published port, what a container may send, its name and egress rules hold on, also where they were given by the
/// other program, and connections last. This program leaves nothing of it in the kernel.
#[track_caller]
fn changes(first: &Plugins, then: &[&Plugins]) {
    let segment = Segment::bare();
    let mut a = segment.host_of(first, "", ("a", 1));
    let x = segment.host_of(first, "", ("x", 9));
    x.sh(&format!(
        "ip address add {SHUT}/32 dev eth0; python3 -c '{LISTEN}' >/world/listens 2>&1 </dev/null &"
    ));
    until(&x.world, "grep -q 1 /world/listens");
    a.sh(&format!("ip route add {SHUT} dev eth0"));
    let before = a.sh("nft list ruleset; ip -br link");
    a.spoke(&format!("network create --egress {OPEN}:7001 --subnet 10.9.1.0/24 tight"));
    a.attach("tight", "kept");
    a.spoke("network create --names --subnet 10.9.0.0/24 front");
    a.world.netns("web");
    a.spoke("network connect --publish 7000:7000 front web");
    a.attach("front", "one");
    let flows =
        [Flow::begin((&x, ""), (&a, "web", &a.address)), Flow::begin((&a, "one"), (&x, "", OPEN))];
    let goes_on = |a: &Host| {
        flows[0].goes_on(&x);
        flows[1].goes_on(a);
    };
    for (round, program) in then.iter().enumerate() {
        a.change_to(program);
        goes_on(&a);
        holds(&a, round);
        goes_on(&a);
    }
    let [inwards, outwards] = flows;
    inwards.end(&x);
    outwards.end(&a);
    for name in ["web", "one"] {
        detach(&a, "front", name);
    }
    for round in 0..then.len() {
        detach(&a, "front", &format!("more{round}"));
    }
    detach(&a, "tight", "kept");
    a.spoke("network rm front");
    a.spoke("network rm tight");
    a.sh(&format!("cat >/world/before <<'END'\n{before}END"));
    until(
        &a.world,
        "{ nft list ruleset; ip -br link; } >/world/after; cmp -s /world/before /world/after",
    );
}

/// What the network and its containers have, of which each round adds some.
#[track_caller]
fn holds(a: &Host, round: usize) {
    until_answered(&a.world, "one", "web", &address(&a.world, "web"));
    let connect =
        |to| format!("ip netns exec kept timeout 3 bash -c '</dev/tcp/{to}/7001' 2>/dev/null");
    until(&a.world, &connect(OPEN));
    assert_ne!(a.world.try_sh(&connect(SHUT)).status, 0, "round {round}: it goes anywhere");
    let (more, port) = (format!("more{round}"), 8080 + round);
    a.world.netns(&more);
    a.spoke(&format!("network connect --publish {port}:80 front {more}"));
    until_answered(&a.world, "one", &more, &address(&a.world, &more));
    a.spoke(&format!("port add web {}:7001", 9000 + round));
    a.spoke(&format!("limit one {}mbit", 50 + round));
    let listed = a.spoke("port ls");
    for port in (0..=round).flat_map(|round| [8080 + round, 9000 + round]).chain([7000]) {
        assert!(listed.contains(&port.to_string()), "round {round}: {port}: {listed}");
    }
    let said = a.world.try_sh("/opt/cni/bin/spoke doctor").stdout;
    assert!(!said.lines().any(|line| line.contains("FAIL") && line.contains("front")), "{said}");
}
