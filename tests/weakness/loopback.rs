//! The host's loopback is the host's (CVE-2020-8558), also where ports are published to it. At ::1, where a container
//! cannot answer, a published port refuses, so that clients of `localhost` do not wait.

use serde_json::json;
use tests::Cni;

use crate::bed::{bridge, compare, list, ok};

/// What a container that may change its own network does to send to the host's 127.0.0.1.
const REACH_OUT: &str =
    "ip netns exec c1 sh -c 'echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
    ip address flush dev lo; ip route add 127.0.0.1 via 10.9.0.1 dev eth0 src 10.9.0.2'";

#[track_caller]
fn keeps_its_loopback(backend: &str) {
    compare(|world| {
        let ipam = json!({"type": "host-local", "subnet": "10.9.0.0/24"});
        let portmap = json!({
            "type": "portmap", "backend": backend, "capabilities": {"portMappings": true},
        });
        let list = list(&json!([bridge(&json!({"bridge": "br9", "ipam": ipam})), portmap]));
        let port = json!({
            "hostPort": 8099, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1",
        });
        let mut one = Cni::container(world, "c1");
        one.runtime = json!({"portMappings": [port]});
        ok(&one.add(&list));
        world.sh(
            "busybox httpd -p 127.0.0.1:9 -h /etc; ip netns exec c1 busybox httpd -p 80 -h /etc",
        );
        let own = "curl -sS --max-time 5 http://127.0.0.1";
        world.sh(&format!("{own}:9/hostname; {own}:8099/hostname"));
        world.sh(REACH_OUT);
        let asked = "ip netns exec c1 curl -sS --max-time 2 http://127.0.0.1";
        let reached = world.try_sh(&format!("{asked}:9/hostname || {asked}:8099/hostname"));
        ok(&one.del(&list));
        match reached.status {
            0 => vec![format!("a container was answered: {}", reached.stdout)],
            _ => Vec::new(),
        }
    });
}

#[test]
fn with_nftables() {
    keeps_its_loopback("nftables");
}

#[test]
fn with_iptables() {
    keeps_its_loopback("iptables");
}

#[track_caller]
fn refuses_at_its_own(backend: &str) {
    compare(|world| {
        let ipam = json!({
            "type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
        });
        let portmap = json!({
            "type": "portmap", "backend": backend, "capabilities": {"portMappings": true},
        });
        let list = list(&json!([bridge(&json!({"bridge": "br9", "ipam": ipam})), portmap]));
        let port = json!({"hostPort": 8099, "containerPort": 80, "protocol": "tcp"});
        let mut one = Cni::container(world, "c1");
        one.runtime = json!({"portMappings": [port]});
        ok(&one.add(&list));
        world.sh("ip netns exec c1 busybox httpd -p 80 -h /etc");
        for host in ["127.0.0.1", "[fd09::1]"] {
            let answers = format!("curl -s --max-time 2 http://{host}:8099/hostname");
            world.sh(&format!("timeout 20 sh -c 'until {answers}; do sleep 0.05; done'"));
        }
        let answered = world.try_sh("curl -sS --max-time 5 http://[::1]:8099/hostname").status;
        ok(&one.check(&list));
        ok(&one.del(&list));
        match answered {
            7 => Vec::new(),
            other => vec![format!("not refused at once: {other}")],
        }
    });
}

#[test]
fn its_ports_refuse_with_nftables() {
    refuses_at_its_own("nftables");
}

#[test]
fn its_ports_refuse_with_iptables() {
    refuses_at_its_own("iptables");
}
