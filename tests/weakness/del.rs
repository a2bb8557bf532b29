//! DEL with less than it would like to have.

use serde_json::json;
use tests::{Cni, Feature};

use crate::bed::{bridge, compare, left, list, many, ok, refused, used};

/// The runtime has no namespace any more; its end takes the interface away.
const GONE: &str = "ip netns del c1";
const DEVICE: &str = "ip link add dev9 type veth peer name wire9; ip link set wire9 up";

#[test]
fn an_empty_netns_leaves_masquerading() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({"ipMasq": true, "ipMasqBackend": "iptables"}))]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        cni.netns = String::new();
        let mut wrong = refused("DEL", &cni.del(&list));
        world.sh(GONE);
        wrong.extend(left(&cni, &base));
        wrong
    });
}

#[test]
fn an_empty_netns_leaves_the_address_of_a_host_device() {
    compare(|world| {
        world.sh(DEVICE);
        let list = list(&json!([{"type": "host-device", "device": "dev9", "ipam": many()}]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        cni.netns = String::new();
        let mut wrong = refused("DEL", &cni.del(&list));
        wrong.extend(left(&cni, &base).into_iter().filter(|line| line.contains("/var/lib/cni")));
        wrong
    });
}

#[test]
fn a_vanished_netns_fails_host_device() {
    compare(|world| {
        world.sh(DEVICE);
        let list = list(&json!([{"type": "host-device", "device": "dev9", "ipam": many()}]));
        let mut cni = Cni::new(world);
        ok(&cni.add(&list));
        world.sh(GONE);
        refused("DEL", &cni.del(&list))
    });
}

#[test]
fn a_vanished_master_fails_vlan() {
    if Feature::Vlan.is_missing() {
        return;
    }
    compare(|world| {
        world.sh(DEVICE);
        let list = list(&json!([{"type": "vlan", "master": "dev9", "vlanId": 7, "ipam": many()}]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        world.sh("ip link del dev9");
        let mut wrong = refused("DEL", &cni.del(&list));
        wrong.extend(left(&cni, &base));
        wrong
    });
}

#[test]
fn no_netns_fails_sbr_and_a_vanished_one_becomes_a_file() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({})), {"type": "sbr"}]));
        let mut cni = Cni::new(world);
        ok(&cni.add(&list));
        let path = std::mem::take(&mut cni.netns);
        let mut wrong = refused("DEL without netns", &cni.del(&list));
        world.sh(GONE);
        cni.netns = path.clone();
        wrong.extend(refused("DEL with a vanished netns", &cni.del(&list)));
        if world.path(&path).exists() {
            wrong.push(format!("{path} is a file now"));
        }
        wrong
    });
}
