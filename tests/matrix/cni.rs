//! The row of runtimes that execute CNI plugins, as containerd and CRI-O do.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, World};

use crate::back::{Back, Kind};
use crate::{NAMES, PORT, Runtime, speak};

struct Pods<'w> {
    world: &'w World,
    pods: Vec<Cni<'w>>,
}

/// The configuration by which pods join a network.
fn list(network: &str) -> Value {
    json!({"cniVersion": "1.1.0", "name": format!("pods-{network}"), "plugins":
        [{"type": "spoke", "network": network, "capabilities": {"portMappings": true}}]})
}

#[track_caller]
fn succeeds(answers: &[Answer]) {
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}

impl<'w> Pods<'w> {
    #[track_caller]
    fn start(&mut self, name: &str) {
        let mut pod = Cni::container(self.world, name);
        if name == NAMES[0] {
            let port = json!({"hostPort": PORT, "containerPort": 80, "protocol": "tcp"});
            pod.runtime = json!({"portMappings": [port]});
        }
        succeeds(&pod.add(&list("net")));
        self.pods.push(pod);
    }

    fn pod(&self, name: &str) -> &Cni<'w> {
        self.pods.iter().find(|pod| pod.container == name).unwrap()
    }

    /// The container's second interface.
    fn second(&self, name: &str) -> Cni<'w> {
        Cni { ifname: "net1".into(), runtime: json!({}), result: None, ..self.pod(name).clone() }
    }
}

impl Runtime for Pods<'_> {
    fn world(&self) -> &World {
        self.world
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        in_netns(self.world, name, script)
    }

    #[track_caller]
    fn restart(&mut self, name: &str) {
        succeeds(&self.pod(name).del(&list("net")));
        self.world.sh(&format!("ip netns del {name}"));
        self.pods.retain(|pod| pod.container != name);
        self.start(name);
    }

    #[track_caller]
    fn connect(&mut self, name: &str) {
        succeeds(&self.second(name).add(&list("side")));
    }

    #[track_caller]
    fn disconnect(&mut self, name: &str) {
        succeeds(&self.second(name).del(&list("side")));
    }

    #[track_caller]
    fn leave(&mut self) {
        for pod in &self.pods {
            succeeds(&pod.check(&list("net")));
            succeeds(&pod.del(&list("net")));
        }
    }
}

/// Busybox in a network namespace.
#[track_caller]
pub(crate) fn in_netns(world: &World, name: &str, script: &str) -> String {
    let script = script.replace('\'', "'\\''");
    world.sh(&format!("ip netns exec {name} busybox sh -euc '{script}'"))
}

#[track_caller]
fn on(kind: Kind) {
    let world = World::new(&Plugins::subject());
    let back = Back::new(kind, &world);
    back.create(&world);
    let mut pods = Pods { world: &world, pods: Vec::new() };
    for name in NAMES {
        pods.start(name);
    }
    speak(&mut pods, &back, "CNI");
}

#[test]
fn cni_on_the_kernel() {
    on(Kind::Kernel);
}

#[test]
fn cni_on_neutron() {
    on(Kind::Neutron);
}

#[test]
fn cni_on_a_foreign_cni_plugin() {
    on(Kind::CniPlugin);
}

#[test]
fn cni_on_a_foreign_docker_plugin() {
    on(Kind::DockerPlugin);
}

#[test]
fn cni_on_a_plugin_out_of_an_image() {
    on(Kind::Image);
}
