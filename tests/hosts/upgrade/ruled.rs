//! Networks with rules, where a host has the last release's program, which does not know of them.

use tests::Plugins;

use super::{LS, Server, cluster, create, programs};
use crate::bed::{Host, SPOKE, address, until, until_reached};

const RULED: [(&str, &str); 3] = [
    ("closed", "--ingress same-bridge --subnet 10.81.0.0/16"),
    ("inner", "--internal --subnet 10.82.0.0/16"),
    ("agents", "--names --egress none --subnet 10.83.0.0/16"),
];

/// It does not use them; its other networks go on. With this program it uses them by their rules. With the last
/// release's again it goes on with what its book has, and the rules hold, also for new containers.
#[test]
fn the_last_release_uses_no_network_with_rules_by_itself() {
    let Some([last, this]) = programs() else { return };
    let (_segment, [mut a, b]) = cluster(Server::Given, [&last, &this]);
    create(&b, &a, "--subnet 10.80.0.0/16 front");
    let front = [a.attach("front", "front1"), b.attach("front", "front2")];
    for (name, options) in RULED {
        b.spoke(&format!("network create --hosts all {options} {name}"));
        b.attach(name, &format!("{name}2"));
    }
    unused(&a, "other");
    until_reached(&a.world, "front1", &front[1]);
    change(&mut a, &this);
    for (name, _) in RULED {
        let two = address(&b.world, &format!("{name}2"));
        until(&a.world, &format!("{SPOKE} network inspect {name} >/dev/null 2>&1"));
        let one = a.attach(name, &format!("{name}1"));
        until_reached(&b.world, &format!("{name}2"), &one);
        until_reached(&a.world, &format!("{name}1"), &two);
    }
    hold(&a, &b, &front, "1");
    change(&mut a, &last);
    hold(&a, &b, &front, "1");
    for (name, _) in RULED {
        a.attach(name, &format!("{name}3"));
    }
    hold(&a, &b, &front, "3");
    until_reached(&a.world, "front1", &front[1]);
}

/// The cluster is heard by another program.
#[track_caller]
fn change(host: &mut Host, program: &Plugins) {
    host.change_to(program);
    until(&host.world, &format!("! {LS} | grep -q 'not heard of'"));
}

/// A host does not connect a container to a network with rules.
#[track_caller]
fn unused(host: &Host, name: &str) {
    host.world.netns(name);
    for (network, _) in RULED {
        let said = host.refused(&format!("network connect {network} {name}"));
        assert!(said.contains(network), "{said}");
        assert_eq!(host.sh(&format!("ip -n {name} -o link show type veth")), "", "{network}");
    }
}

/// The rules of the networks hold for the containers of the first host.
#[track_caller]
fn hold(a: &Host, b: &Host, front: &[String; 2], which: &str) {
    for name in ["closed", "inner"] {
        let one = address(&a.world, &format!("{name}{which}"));
        refused(a, "front1", &one);
        refused(b, "front2", &one);
    }
    for name in ["inner", "agents"] {
        front.iter().for_each(|to| refused(a, &format!("{name}{which}"), to));
    }
}

#[track_caller]
fn refused(host: &Host, from: &str, to: &str) {
    let said = host.world.try_sh(&format!("ip netns exec {from} ping -q -c 1 -W 1 {to}"));
    assert_ne!(said.status, 0, "{to} from {from} of {}: {said:?}", host.name);
}
