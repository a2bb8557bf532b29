//! One container on several networks with the same ports, as Podman 4, `podman network connect` and
//! nerdctl call plugins: the ports are named to each network.

use serde_json::{Value, json};
use tests::{Cni, Remains, World};

use crate::bed::{accepted, bridge, left, list, ok, ours, refused};

/// A network of its own with published ports.
fn network(name: &str, number: u8) -> Value {
    let ipam = json!({"type": "host-local", "subnet": format!("10.{number}.0.0/24")});
    let bridge = bridge(&json!({"bridge": format!("br{number}"), "ipam": ipam, "ipMasq": true}));
    let portmap = json!({
        "type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true},
    });
    let mut list = list(&json!([bridge, portmap]));
    list["name"] = name.into();
    list
}

/// A container of this name with `ports` as its runtime tells them.
fn publishing<'a>(world: &'a World, id: &str, ports: &Value) -> Cni<'a> {
    Cni { runtime: json!({"portMappings": ports}), ..Cni::container(world, id) }
}

fn port(host_ip: &str, container: u16) -> Value {
    json!({"hostPort": 8099, "containerPort": container, "protocol": "tcp", "hostIP": host_ip})
}

/// Whether a server in the container answers at the port of the host.
fn answers(world: &World, number: u8) -> bool {
    let asked =
        world.try_sh(&format!("curl -sS --max-time 5 http://10.{number}.0.1:8099/hostname"));
    asked.status == 0
}

fn serve(world: &World, port: u16) {
    world.sh(&format!("ip netns exec c1 busybox httpd -p {port} -h /etc"));
}

#[test]
fn the_first_network_serves_and_the_next_takes_over() {
    ours(|world| {
        let (front, back) = (network("front", 9), network("back", 10));
        let ports = json!([port("", 80)]);
        let mut one = publishing(world, "c1", &ports);
        let mut two = Cni { ifname: "eth1".into(), ..one.clone() };
        let mut other = publishing(world, "c2", &ports);
        let mut wrong = Vec::new();
        // What a network leaves that has been used is no leftover.
        for (cni, list) in [(&mut one, &front), (&mut two, &back)] {
            ok(&cni.add(list));
            ok(&cni.del(list));
        }
        let base = Remains::of(world);
        ok(&one.add(&front));
        serve(world, 80);
        wrong.extend(refused("the second network", &two.add(&back)));
        wrong.extend(refused("CHECK of the first", &one.check(&front)));
        wrong.extend(refused("CHECK of the second", &two.check(&back)));
        wrong.extend(accepted("another container", &other.add(&back)));
        wrong.extend((!answers(world, 9)).then(|| "the first does not serve".to_owned()));
        ok(&one.del(&front));
        wrong.extend((!answers(world, 10)).then(|| "the second does not take over".to_owned()));
        wrong.extend(refused("CHECK of the heir", &two.check(&back)));
        // Back again it is the second.
        wrong.extend(refused("the first again", &one.add(&front)));
        ok(&two.del(&back));
        wrong.extend((!answers(world, 9)).then(|| "it does not take over again".to_owned()));
        ok(&one.del(&front));
        ok(&other.del(&back));
        wrong.extend(left(&one, &base));
        wrong
    });
}

/// As with the reference plugin, whose first rule leads.
#[test]
fn a_port_that_is_named_twice_is_one_containers() {
    ours(|world| {
        let front = network("front", 9);
        let ports = json!([port("", 80), port("127.0.0.1", 80), port("", 81)]);
        let mut cni = publishing(world, "c1", &ports);
        let mut wrong = refused("ADD", &cni.add(&front));
        serve(world, 80);
        let local = world.try_sh("curl -sS --max-time 5 http://127.0.0.1:8099/hostname");
        wrong.extend((local.status != 0).then(|| format!("127.0.0.1: {local:?}")));
        wrong
            .extend((!answers(world, 9)).then(|| "the bridge's address does not serve".to_owned()));
        wrong.extend(refused("CHECK", &cni.check(&front)));
        ok(&cni.del(&front));
        wrong
    });
}

/// A repeated ADD replaces what the container has published; one that fails leaves it.
#[test]
fn a_refused_add_leaves_what_was_published() {
    ours(|world| {
        let (front, back) = (network("front", 9), network("back", 10));
        let mut cni = publishing(world, "c1", &json!([port("", 80)]));
        ok(&cni.add(&front));
        serve(world, 80);
        let theirs = json!({"hostPort": 8098, "containerPort": 80, "protocol": "tcp"});
        let mut other = publishing(world, "c2", &json!([theirs]));
        ok(&other.add(&back));
        let both = json!([port("", 80), theirs]);
        let again = Cni { runtime: json!({"portMappings": both}), ..cni.clone() };
        let config = again.config(&front, &front["plugins"][1], "ADD", cni.result.as_ref());
        let answer = again.execute("portmap", "ADD", &config.to_string());
        let mut wrong = accepted("the port of another", &[answer]);
        wrong.extend((!answers(world, 9)).then(|| "what worked is torn down".to_owned()));
        ok(&other.del(&back));
        ok(&cni.del(&front));
        wrong
    });
}
