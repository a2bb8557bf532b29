//! Whatever plugin, and however its container ends: nothing is left.

use serde_json::{Value, json};
use tests::{Cni, Feature, Plugins, World};

use crate::bed::{bridge, left, list, many, ok, refused, used};

/// How a container ends.
const ENDS: [End; 8] = [
    End::Plainly,
    End::WithoutNetns,
    End::NetnsFirst,
    End::ParentFirst,
    End::Renamed,
    End::Twice,
    End::Gc,
    End::HalfMade,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Plainly,
    WithoutNetns,
    NetnsFirst,
    ParentFirst,
    Renamed,
    Twice,
    Gc,
    HalfMade,
}

const PARENT: &str = "ip link add dev9 type veth peer name wire9
                      ip link set dev9 up; ip link set wire9 up";

/// A plugin, chained where it has to be; `parent` if it is made on one.
fn each(plugins: &Value, parent: bool) {
    for end in ENDS.into_iter().filter(|end| parent || *end != End::ParentFirst) {
        let world = World::new(&Plugins::subject());
        if parent {
            world.sh(PARENT);
        }
        let wrong = ended(&world, plugins, end);
        assert!(wrong.is_empty(), "{end:?}: {wrong:#?}");
    }
}

fn ended(world: &World, plugins: &Value, end: End) -> Vec<String> {
    let mut list = list(plugins);
    let mut cni = Cni::new(world);
    cni.runtime = json!({"portMappings":
        [{"hostPort": 8099, "containerPort": 80, "protocol": "udp"}]});
    let base = used(&mut cni, &list);
    let mut made = list.clone();
    if end == End::HalfMade {
        made["plugins"].as_array_mut().expect("plugins").truncate(1);
    }
    ok(&cni.add(&made));
    match end {
        End::Plainly | End::Twice | End::Gc | End::HalfMade => {}
        End::WithoutNetns => cni.netns = String::new(),
        End::NetnsFirst => drop(world.sh("ip netns del c1")),
        End::ParentFirst => drop(world.try_sh("ip link del wire9; ip -n c1 link del eth0")),
        End::Renamed => {
            list["name"] = "renamed".into();
            cni.result = None;
        }
    }
    let mut wrong = Vec::new();
    if end == End::Gc {
        list["cni.dev/valid-attachments"] = json!([]);
        wrong.extend(refused("GC", &cni.ask(&list, "GC")));
    } else {
        wrong.extend(refused("DEL", &cni.del(&list)));
    }
    if end == End::Twice {
        wrong.extend(refused("DEL again", &cni.del(&list)));
    }
    // What is in the namespace goes with it.
    world.try_sh("ip netns del c1");
    wrong.extend(left(&cni, &base));
    wrong
}

#[test]
fn bridge_alone() {
    each(&json!([bridge(&json!({"ipMasq": true, "macspoofchk": true}))]), false);
}

#[test]
fn a_podman_chain() {
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let tuning = json!({"type": "tuning", "mtu": 1300, "promisc": true});
    let firewall = json!({"type": "firewall"});
    each(&json!([bridge(&json!({"ipMasq": true})), portmap, firewall, tuning]), false);
}

#[test]
fn ptp() {
    each(&json!([{"type": "ptp", "ipam": many(), "ipMasq": true}]), false);
}

#[test]
fn macvlan() {
    each(&json!([{"type": "macvlan", "master": "dev9", "ipam": many()}]), true);
}

#[test]
fn tap() {
    each(&json!([{"type": "tap", "ipam": many()}]), false);
}

#[test]
fn bandwidth() {
    let limits = json!({"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 80_000,
        "egressRate": 8_000_000, "egressBurst": 80_000});
    each(&json!([bridge(&json!({})), limits]), false);
}

#[test]
fn sbr() {
    each(&json!([bridge(&json!({})), {"type": "sbr"}]), false);
}

#[test]
fn spoke_with_everything() {
    let limits = json!({"ingressRate": 8_000_000, "ingressBurst": 80_000,
        "egressRate": 8_000_000, "egressBurst": 80_000});
    let all = json!({"type": "spoke", "ipam": many(), "bandwidth": limits, "sourceRouting": true,
        "promisc": true, "txQLen": 77, "macspoofchk": true, "ingressPolicy": "same-bridge",
        "capabilities": {"portMappings": true}, "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}});
    each(&json!([all]), false);
}

#[test]
fn spoke_macvlan() {
    let lan = json!({"type": "spoke", "driver": "macvlan", "parent": "dev9", "ipam": many()});
    each(&json!([lan]), true);
}

#[test]
fn ipvlan() {
    if Feature::Ipvlan.is_missing() {
        return;
    }
    each(&json!([{"type": "ipvlan", "master": "dev9", "ipam": many()}]), true);
}

#[test]
fn vlan() {
    if Feature::Vlan.is_missing() {
        return;
    }
    each(&json!([{"type": "vlan", "master": "dev9", "vlanId": 7, "ipam": many()}]), true);
}

#[test]
fn dummy() {
    if Feature::Dummy.is_missing() {
        return;
    }
    each(&json!([{"type": "dummy", "ipam": many()}]), false);
}

#[test]
fn vrf() {
    if Feature::Vrf.is_missing() {
        return;
    }
    each(&json!([bridge(&json!({})), {"type": "vrf", "vrfname": "blue"}]), false);
}

#[test]
fn host_device() {
    each(&json!([{"type": "host-device", "device": "dev9", "ipam": many()}]), true);
}
