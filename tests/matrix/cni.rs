//! The row of runtimes that execute CNI plugins, as containerd and CRI-O do.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, World};

use crate::back::{Back, Kind};
use crate::{NAMES, Runtime, speak};

struct Pods<'w> {
    world: &'w World,
    list: Value,
    pods: Vec<Cni<'w>>,
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
    fn leave(&self) {
        for pod in &self.pods {
            assert!(pod.check(&self.list).iter().all(Answer::ok));
            let answers = pod.del(&self.list);
            assert!(answers.iter().all(Answer::ok), "{answers:?}");
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
    let list = json!({"cniVersion": "1.1.0", "name": "pods", "plugins":
        [{"type": "spoke", "network": "net"}]});
    let mut pods = Pods { world: &world, list, pods: Vec::new() };
    for name in NAMES {
        let mut pod = Cni::container(&world, name);
        let answers = pod.add(&pods.list);
        assert!(answers.iter().all(Answer::ok), "{answers:?}");
        pods.pods.push(pod);
    }
    speak(&pods, &back, "CNI");
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
