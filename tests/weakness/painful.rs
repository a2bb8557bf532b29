//! What people ask for most.

use serde_json::json;
use tests::Cni;

use crate::bed::{bridge, compare, left, list, ok, ours, refused, single, used};

/// plugins#252, #697.
#[test]
fn a_missed_del_keeps_the_address() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({"ipam": single()}))]));
        ok(&Cni::new(world).add(&list));
        // The kernel takes the link away a moment later: that is what proves the death.
        world.sh("ip netns del c1; timeout 20 sh -c 'while ip -o link show type veth | grep -q .; do sleep 0.05; done'");
        refused("ADD of another", &Cni::container(world, "c2").add(&list))
    });
}

/// plugins#752: the rules are called after the network.
#[test]
fn a_renamed_network_leaves_ports() {
    compare(|world| {
        let mut list = list(&json!([
            bridge(&json!({})),
            {"type": "portmap", "capabilities": {"portMappings": true}, "backend": "iptables"},
        ]));
        let mut cni = Cni::new(world);
        cni.runtime = json!({"portMappings":
            [{"hostPort": 8099, "containerPort": 80, "protocol": "tcp"}]});
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        list["name"] = "renamed".into();
        cni.result = None;
        ok(&cni.del(&list));
        left(&cni, &base)
    });
}

/// cni#46: the last writer wins.
#[test]
fn a_port_is_published_twice() {
    compare(|world| {
        let list = list(&json!([
            bridge(&json!({})), {"type": "portmap", "capabilities": {"portMappings": true}},
        ]));
        let port = json!({"portMappings":
            [{"hostPort": 8099, "containerPort": 80, "protocol": "tcp"}]});
        let (mut first, mut second) = (Cni::new(world), Cni::container(world, "c2"));
        (first.runtime, second.runtime) = (port.clone(), port);
        ok(&first.add(&list));
        match second.add(&list).iter().all(tests::Answer::ok) {
            true => vec!["the second container takes the port".into()],
            false => Vec::new(),
        }
    });
}

/// plugins#688: the address is ours, so no host can have it already.
#[test]
fn duplicate_detection_keeps_everybody_waiting() {
    ours(|world| {
        let ipam = json!({"type": "host-local", "subnet": "fd09::/64"});
        ok(&Cni::new(world).add(&list(&json!([bridge(&json!({"ipam": ipam}))]))));
        let shown = world.sh("ip -n c1 -6 address show dev eth0 scope global");
        match shown.contains("tentative") || shown.contains("dadfailed") {
            true => vec![shown],
            false => Vec::new(),
        }
    });
}

/// plugins#282: no plugin removes an unused bridge. Ours goes with its network.
#[test]
fn an_unused_bridge_stays() {
    ours(|world| {
        let list = list(&json!([bridge(&json!({}))]));
        let mut cni = Cni::new(world);
        let _ = used(&mut cni, &list);
        world.sh("/opt/cni/bin/spoke network rm net");
        let shown = world.try_sh("ip link show br9");
        if shown.status == 0 { vec![shown.stdout] } else { Vec::new() }
    });
}

/// plugins PR #1282, containerd#5768: one plugin that fails keeps the rest from being undone.
#[test]
fn del_of_a_chain_is_not_idempotent() {
    compare(|world| {
        let list = list(&json!([
            bridge(&json!({"ipMasq": true})), {"type": "tuning", "mtu": 1300}, {"type": "sbr"},
        ]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        world.sh("ip netns del c1");
        let mut wrong = refused("DEL", &cni.del(&list));
        wrong.extend(refused("DEL again", &cni.del(&list)));
        cni.netns = String::new();
        wrong.extend(refused("DEL without netns", &cni.del(&list)));
        wrong.extend(left(&cni, &base));
        wrong
    });
}

/// plugins#1190: a datagram's flow goes on to where the port led before.
#[test]
fn flows_of_a_port_outlive_it() {
    compare(|world| {
        world.sh("ip netns add client; ip link add up9 type veth peer name eth0 netns client
                  ip address add 192.0.2.1/24 dev up9; ip link set up9 up
                  ip -n client address add 192.0.2.2/24 dev eth0; ip -n client link set eth0 up");
        let list = list(&json!([
            bridge(&json!({})), {"type": "portmap", "capabilities": {"portMappings": true}},
        ]));
        let mut cni = Cni::new(world);
        cni.runtime = json!({"portMappings":
            [{"hostPort": 8099, "containerPort": 53, "protocol": "udp"}]});
        ok(&cni.add(&list));
        world.sh("ip netns exec client bash -c 'echo >/dev/udp/192.0.2.1/8099'");
        let flows = || world.sh("grep dport=8099 /proc/net/nf_conntrack || true");
        assert!(flows().contains("dport=8099"), "there is a flow");
        ok(&cni.del(&list));
        flows().lines().map(str::to_owned).collect()
    });
}
