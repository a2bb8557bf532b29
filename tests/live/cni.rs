//! Containers of CNI runtimes: a chain of plugins, type `spoke`, and drivers whose ports are not
//! Spoke's.

use serde_json::json;
use tests::{Cni, Plugins, World};

use crate::bed::{Live, SPOKE};

struct Host {
    world: World,
}

impl Live for Host {
    fn world(&self) -> &World {
        &self.world
    }
}

#[test]
fn of_a_cni_runtime() {
    let host = Host { world: World::new(&Plugins::subject()) };
    host.set_up_lan();
    let subnet = json!({"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": "10.76.1.0/24"}]]});
    let ports =
        json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]});
    let chain = json!({"name": "chain", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "cbr", "isGateway": true, "ipMasq": true, "ipam": subnet},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]});
    let whole = json!({"name": "whole", "cniVersion": "1.1.0", "plugins": [{
        "type": "spoke", "capabilities": {"portMappings": true},
        "ipam": {"ranges": [[{"subnet": "10.76.2.0/24"}]]},
    }]});
    for list in [chain, whole] {
        for runtime in [json!({}), ports.clone()] {
            adds(&host, &list, &runtime);
        }
    }
    assert_eq!(host.spoke("port ls --quiet"), "");
}

#[track_caller]
fn adds(host: &Host, list: &serde_json::Value, runtime: &serde_json::Value) {
    let mut cni = Cni { runtime: runtime.clone(), ..Cni::container(&host.world, "box") };
    assert!(cni.add(list).iter().all(|answer| answer.ok()));
    host.world.sh("mkdir -p /srv; echo box >/srv/index.html
        ip netns exec box busybox httpd -p 80 -h /srv
        timeout 20 sh -c 'until ip netns exec box ss -Hltn sport = :80 | grep -q .; do sleep 0.05; done'");
    host.spoke("port add box 8443:80");
    assert_eq!(host.page(8443), "box", "{list}");
    assert!(cni.check(list).iter().all(|answer| answer.ok()), "CHECK knows of it");
    // The runtime makes the container again, under the same id.
    assert!(cni.del(list).iter().all(|answer| answer.ok()));
    host.no_page(8443);
    assert!(cni.add(list).iter().all(|answer| answer.ok()));
    assert_eq!(host.page(8443), "box", "{list} again");
    host.spoke("port rm box 8443");
    host.no_page(8443);
    assert!(cni.del(list).iter().all(|answer| answer.ok()));
    host.world.sh(&format!("ip netns pids box | xargs -r kill; ip netns del box; {SPOKE} gc"));
    assert_eq!(host.elements(), Vec::<String>::new());
}

/// Of a chain with a plugin that limits, the limits of the command hold, and the next pod starts.
#[test]
fn limits_beside_a_plugin_that_limits() {
    let host = Host { world: World::new(&Plugins::subject()) };
    let list = json!({"name": "chain", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "cbr", "isGateway": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.76.1.0/24"}]]}},
        {"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 1000000,
            "egressRate": 1000000, "egressBurst": 1000000},
    ]});
    let rates =
        || host.world.sh("tc qdisc show | grep -o 'rate [0-9A-Za-z]*' | sort | tr '\\n' ' '");
    let mut cni = Cni::container(&host.world, "box");
    for (command, expected) in [
        ("limit box 3mbit", "rate 3Mbit rate 3Mbit "),
        ("limit box 5mbit", "rate 5Mbit rate 5Mbit "),
    ] {
        assert!(cni.add(&list).iter().all(|answer| answer.ok()));
        host.spoke(command);
        assert_eq!(rates(), expected);
        assert!(cni.del(&list).iter().all(|answer| answer.ok()));
        // It comes back so, under the same name.
        let answers = cni.add(&list);
        assert!(answers.iter().all(|answer| answer.ok()), "{answers:?}");
        assert_eq!(rates(), expected);
        assert!(cni.del(&list).iter().all(|answer| answer.ok()));
    }
    host.spoke("limit box none");
    assert!(cni.add(&list).iter().all(|answer| answer.ok()));
    assert_eq!(rates(), "rate 1Mbit rate 1Mbit ");
    assert!(cni.del(&list).iter().all(|answer| answer.ok()));
}
