//! An address goes from one container to another whose hardware address a user chose.

use serde_json::json;
use tests::{Cni, World};

use crate::bed::{bridge, list, ok, ours};

/// The neighbour and the host both, at once: what they remember would be used for seconds.
fn is_reached(world: &World) {
    for space in ["", "ip netns exec peer "] {
        for address in ["10.9.0.5", "fd00:9::5"] {
            world.sh(&format!("{space}ping -q -c 1 -W 1 {address}"));
        }
    }
}

#[test]
fn to_its_holder_now() {
    ours(|world| {
        world.sh("for which in all default; do sysctl -qw net.ipv6.conf.$which.accept_dad=0; done");
        let ipam = json!({"type": "host-local", "ranges":
            [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]});
        let list = list(&json!([bridge(&json!({
            "ipam": ipam, "capabilities": {"ips": true, "mac": true},
        }))]));
        let mut peer = Cni::container(world, "peer");
        peer.runtime = json!({"ips": ["10.9.0.9/24", "fd00:9::9/64"]});
        ok(&peer.add(&list));
        let ips = json!(["10.9.0.5/24", "fd00:9::5/64"]);
        let chosen = |mac: &str| json!({"ips": ips, "mac": mac});
        let derived = json!({"ips": ips});
        for (number, runtime) in
            [derived.clone(), chosen("c2:11:22:33:44:55"), chosen("c2:11:22:33:44:66"), derived]
                .into_iter()
                .enumerate()
        {
            let mut cni = Cni::container(world, &format!("c{number}"));
            cni.runtime = runtime;
            ok(&cni.add(&list));
            is_reached(world);
            ok(&cni.del(&list));
        }
        Vec::new()
    });
}

/// Its hardware address follows from the address of the other family, which is another one each time.
#[test]
fn with_another_address_of_the_other_family() {
    ours(|world| {
        world.sh("for which in all default; do sysctl -qw net.ipv6.conf.$which.accept_dad=0; done");
        let ipam = json!({"type": "host-local", "ranges":
            [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]});
        let list = list(&json!([bridge(&json!({"ipam": ipam, "capabilities": {"ips": true}}))]));
        let mut peer = Cni::container(world, "peer");
        peer.runtime = json!({"ips": ["10.9.0.9/24", "fd00:9::9/64"]});
        ok(&peer.add(&list));
        for number in 5..8 {
            let mut cni = Cni::container(world, &format!("c{number}"));
            cni.runtime = json!({"ips": [format!("10.9.0.{number}/24"), "fd00:9::5/64"]});
            ok(&cni.add(&list));
            for space in ["", "ip netns exec peer "] {
                world.sh(&format!("{space}ping -q -c 1 -W 1 fd00:9::5"));
            }
            ok(&cni.del(&list));
        }
        Vec::new()
    });
}
