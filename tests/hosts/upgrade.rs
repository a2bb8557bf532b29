//! Hosts with the last release's program beside hosts with this one, and hosts that change from one to the other.

mod alone;
mod kept;
mod ruled;

use tests::{Plugins, skipped};

use crate::bed::{Host, SPOKE, Segment, address, init, join, until, until_equal, until_reached};
use crate::flow::Flow;
use crate::names::until_answered;

const LS: &str = "/opt/cni/bin/spoke host ls 2>&1";
/// One in VXLAN with names, one that is routed, and one for CNI.
const CREATE: [&str; 3] = [
    "--names --subnet 10.64.0.0/16 front",
    "--transport route --subnet 10.65.0.0/16 back",
    "--in cni --subnet 10.66.0.0/16 listed",
];
const NETWORKS: [&str; 2] = ["front", "back"];

/// Which etcd a cluster has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    /// The segment's.
    Given,
    /// The first host's.
    Own,
}

/// The last release, and this program.
fn programs() -> Option<[Plugins; 2]> {
    let last = Plugins::last();
    if last.is_none() {
        skipped(
            "the last release and this program in one cluster",
            "SPOKE_LAST names no program of the last release (make test-upgrade builds it)",
        );
    }
    Some([last?, Plugins::subject()])
}

/// Two hosts of one cluster, with these programs.
#[track_caller]
fn cluster(server: Server, programs: [&Plugins; 2]) -> (Segment, [Host; 2]) {
    let segment = match server {
        Server::Given => Segment::new(),
        Server::Own => Segment::bare(),
    };
    let [a, b] = [(programs[0], ("a", 1)), (programs[1], ("b", 2))]
        .map(|(plugins, which)| segment.host_of(plugins, "", which));
    match server {
        Server::Given => drop(init(&a.world, "a")),
        Server::Own => drop(a.spoke("host init --name a")),
    }
    join(&a.world, &b.world, "b");
    (segment, [a, b])
}

/// Declares a network from a host; the other one has it afterwards.
#[track_caller]
fn create(by: &Host, other: &Host, options: &str) {
    by.spoke(&format!("network create --hosts all {options}"));
    let name = options.rsplit(' ').next().expect("a name");
    for host in [by, other] {
        until(&host.world, &format!("{SPOKE} network inspect {name} >/dev/null 2>&1"));
    }
}

#[track_caller]
fn detach(host: &Host, network: &str, name: &str) {
    host.spoke(&format!("network disconnect {network} {name}"));
    host.sh(&format!("ip netns del {name}"));
}

/// The networks go, and the second host; nothing of either is left on it.
#[track_caller]
fn end([a, b]: [&Host; 2], networks: &[&str]) {
    for network in networks {
        until(&a.world, &format!("{SPOKE} network rm {network} 2>/dev/null"));
    }
    until(&b.world, "[ -z \"$(ip -o link show type vxlan; ip route show proto 83)\" ]");
    until(&b.world, &format!("{SPOKE} host remove b || {LS} | grep -q 'in no cluster'"));
    until(&b.world, &format!("{LS} | grep -q 'in no cluster'"));
    until(&a.world, &format!("! {LS} | grep -q '^b '"));
}

#[test]
fn a_host_of_this_program_joins_the_last_release() {
    let Some([last, this]) = programs() else { return };
    beside(Server::Given, [&last, &this]);
}

#[test]
fn a_host_of_the_last_release_joins_this_program() {
    let Some([last, this]) = programs() else { return };
    beside(Server::Given, [&this, &last]);
}

#[test]
fn a_host_of_this_program_joins_the_last_release_s_own_etcd() {
    let Some([last, this]) = programs() else { return };
    beside(Server::Own, [&last, &this]);
}

#[test]
fn a_host_of_the_last_release_joins_this_program_s_own_etcd() {
    let Some([last, this]) = programs() else { return };
    beside(Server::Own, [&this, &last]);
}

/// All that two hosts do together works between them.
#[track_caller]
fn beside(server: Server, programs: [&Plugins; 2]) {
    let (segment, [a, b]) = cluster(server, programs);
    for (at, options) in CREATE.iter().enumerate() {
        let (by, other) = if at % 2 == 0 { (&a, &b) } else { (&b, &a) };
        create(by, other, options);
    }
    for network in NETWORKS {
        let (one, two) = (format!("{network}1"), format!("{network}2"));
        let at = [a.attach(network, &one), b.attach(network, &two)];
        until_reached(&a.world, &one, &at[1]);
        until_reached(&b.world, &two, &at[0]);
    }
    let of = |host: &Host, name: &str| address(&host.world, name);
    until_answered(&a.world, "front1", "front2", &of(&b, "front2"));
    until_answered(&b.world, "front2", "front1", &of(&a, "front1"));
    for (by, other) in [(&a, &b), (&b, &a)] {
        addresses_move(by, other);
        labels_and_drains(by, other);
    }
    lists(&a, &b);
    if server == Server::Given {
        until_equal(&segment, &a.world, "front", "a", 2);
        until_equal(&segment, &b.world, "front", "b", 2);
    }
    for network in NETWORKS {
        detach(&a, network, &format!("{network}1"));
        detach(&b, network, &format!("{network}2"));
    }
    end([&a, &b], &["front", "back", "listed"]);
}

/// An address of a block of the other one's, and one of no block, which goes there and back.
#[track_caller]
fn addresses_move(by: &Host, other: &Host) {
    let theirs = other.attach("front", "guest");
    until_reached(&by.world, if by.name == "a" { "front1" } else { "front2" }, &theirs);
    by.world.netns("guest");
    let said = by.refused(&format!("network connect --ip {theirs} front guest"));
    assert!(said.contains(&format!("address {theirs} of network front is held by")), "{said}");
    by.sh("ip netns del guest");
    detach(other, "front", "guest");
    for (host, address) in
        [(by, theirs.as_str()), (by, "10.64.200.7"), (other, "10.64.200.7"), (other, &theirs)]
    {
        host.world.netns("guest");
        let connect = format!("{SPOKE} network connect --ip {address} front guest");
        until(&host.world, &format!("{connect} 2>/world/refused"));
        let (far, from) = if host.name == by.name { (other, by) } else { (by, other) };
        until_reached(&far.world, if far.name == "a" { "front1" } else { "front2" }, address);
        detach(from, "front", "guest");
    }
}

/// Each says of the other one what its labels are, and that it takes no containers.
#[track_caller]
fn labels_and_drains(by: &Host, other: &Host) {
    by.spoke(&format!("host label {} zone=of-{}", other.name, by.name));
    until(&other.world, &format!("{LS} | grep '^{} ' | grep -q 'zone=of-{}'", other.name, by.name));
    by.spoke(&format!("host drain {}", other.name));
    other.world.netns("late");
    let refused = format!("{SPOKE} network connect front late 2>&1 | grep -q 'being drained'");
    until(&other.world, &format!("{LS} | grep '^{} ' | grep -q draining", other.name));
    other.sh(&refused);
    other.spoke("host drain --undo");
    until(&by.world, &format!("! {LS} | grep '^{} ' | grep -q draining", other.name));
    other.spoke("network connect front late");
    detach(other, "front", "late");
}

/// Both have the list of a network for CNI.
#[track_caller]
fn lists(a: &Host, b: &Host) {
    let cni = |command: &str| {
        format!(
            "CNI_PATH=/opt/cni/bin {SPOKE} cni {command} --container boxed listed /run/netns/boxed"
        )
    };
    for host in [a, b] {
        until(&host.world, "[ -s /etc/cni/net.d/listed.conflist ]");
        host.world.netns("boxed");
        host.sh(&cni("add"));
    }
    for (host, other) in [(a, b), (b, a)] {
        until_reached(&host.world, "boxed", &address(&other.world, "boxed"));
        host.sh(&cni("check"));
    }
    for host in [a, b] {
        host.sh(&cni("del"));
        host.sh("ip netns del boxed");
    }
}

#[test]
fn hosts_change_while_containers_talk() {
    let Some([last, this]) = programs() else { return };
    change(Server::Given, &last, &this);
}

/// A server of etcd goes on as well.
#[test]
fn hosts_with_their_own_etcd_change_while_containers_talk() {
    let Some([last, this]) = programs() else { return };
    change(Server::Own, &last, &this);
}

/// Both hosts get this program, one after the other, and the second one the last release's again. Nothing that is sent
/// between containers is lost, and each program takes out what the other one has made.
#[track_caller]
fn change(server: Server, last: &Plugins, this: &Plugins) {
    let (segment, [mut a, mut b]) = cluster(server, [last, last]);
    for options in CREATE {
        create(&a, &b, options);
    }
    let names = [["front1", "front2"], ["back1", "back2"]];
    let mut flows = Vec::new();
    for (network, [one, two]) in NETWORKS.into_iter().zip(names) {
        a.attach(network, one);
        let two_at = b.attach(network, two);
        flows.push(Flow::begin((&a, one), (&b, two, &two_at)));
    }
    for (round, (is_a, program)) in
        [(true, this), (false, this), (false, last)].into_iter().enumerate()
    {
        let host = if is_a { &mut a } else { &mut b };
        host.change_to(program);
        for flow in &flows {
            flow.goes_on(&a);
        }
        for (host, far, sees) in [(&a, &b, "front2"), (&b, &a, "front1")] {
            until(&host.world, &format!("! {LS} | grep -q 'not heard of'"));
            let more = format!("{}{round}", host.name);
            let address = host.attach("front", &more);
            until_reached(&far.world, sees, &address);
            until_answered(&far.world, sees, &more, &address);
        }
        if server == Server::Given {
            until_equal(&segment, &a.world, "front", "a", 3 + round);
            until_equal(&segment, &b.world, "front", "b", 3 + round);
        }
    }
    for flow in flows {
        flow.end(&a);
    }
    for host in [&a, &b] {
        (0..3).for_each(|round| detach(host, "front", &format!("{}{round}", host.name)));
    }
    for (network, [one, two]) in NETWORKS.into_iter().zip(names) {
        detach(&a, network, one);
        detach(&b, network, two);
    }
    if server == Server::Given {
        until_equal(&segment, &a.world, "front", "a", 1);
        until_equal(&segment, &b.world, "front", "b", 1);
    }
    end([&a, &b], &["front", "back", "listed"]);
}

/// A cluster that has gone further is refused by both programs; containers talk on.
#[test]
fn both_refuse_a_later_layout() {
    let Some([last, this]) = programs() else { return };
    let (segment, [a, b]) = cluster(Server::Given, [&last, &this]);
    create(&a, &b, CREATE[0]);
    a.attach("front", "one");
    let two = b.attach("front", "two");
    until_reached(&a.world, "one", &two);
    segment.etcdctl("put /spoke/v1/layout 3");
    for host in [&a, &b] {
        let why = "have layout 3, and this Spoke knows 1 and 2";
        until(&host.world, &format!("{LS} | grep -q '{why}'"));
        let said = host.refused(&format!("network create --hosts all of-{}", host.name));
        assert!(said.contains(why), "{}: {said}", host.name);
    }
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
}
