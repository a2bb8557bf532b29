//! Podman's row: Podman 5, or where Debian has moved on, Podman 4 with CNI.

use serde_json::json;
use tests::{Cgroup, Plugins, Podman, Podman5, PodmanRelease, World};

use crate::back::{Back, Kind};
use crate::{NAMES, Runtime, speak};

enum Pods {
    Five(Podman5),
    Four(World, Cgroup),
}

impl Pods {
    fn new() -> Self {
        if let Some(five) = Podman5::new(PodmanRelease::V5_4) {
            return Self::Five(five);
        }
        let world = World::new(&Plugins::subject());
        Podman::set_up(&world);
        Self::Four(world, Cgroup::new())
    }

    /// Both containers on the network.
    #[track_caller]
    fn run(&self) {
        match self {
            Self::Five(podman) => {
                podman.podman("network create -d spoke -o network=net net");
                for name in NAMES {
                    podman.run(name, "--network net", "");
                }
            }
            Self::Four(world, cgroup) => {
                let list = json!({"cniVersion": "1.0.0", "name": "net", "plugins":
                    [{"type": "spoke", "network": "net"}]});
                world.sh(&format!("cat >/run/stage/net.d/net.conflist <<'CNI'\n{list}\nCNI"));
                for name in NAMES {
                    let (cgroup, image) = (cgroup.name(), Podman::IMAGE);
                    let options = format!("--cgroup-parent /{cgroup} --network net {image}");
                    Podman::run(world, &format!("run -d --name {name} {options}"));
                }
            }
        }
    }

    #[track_caller]
    fn podman(&self, arguments: &str) -> String {
        match self {
            Self::Five(podman) => podman.podman(arguments),
            Self::Four(world, _) => Podman::run(world, arguments),
        }
    }
}

impl Runtime for Pods {
    fn world(&self) -> &World {
        match self {
            Self::Five(podman) => &podman.world,
            Self::Four(world, _) => world,
        }
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        let script =
            format!("alias ip=\"busybox ip\" nc=\"busybox nc\" grep=\"busybox grep\"; {script}");
        let script = script.replace('\'', "'\\''");
        self.podman(&format!("exec {name} /bin/busybox sh -euc '{script}'"))
    }

    #[track_caller]
    fn leave(&self) {
        self.podman(&format!("rm -f -t 0 {}", NAMES.join(" ")));
        match self {
            Self::Five(podman) => drop(podman.podman("network rm net")),
            Self::Four(world, _) => drop(world.sh("rm /run/stage/net.d/net.conflist")),
        }
    }
}

#[track_caller]
fn on(kind: Kind) {
    let pods = Pods::new();
    let back = Back::new(kind, pods.world());
    back.create(pods.world());
    pods.run();
    speak(&pods, &back, "Podman");
}

#[test]
fn podman_on_the_kernel() {
    on(Kind::Kernel);
}

#[test]
fn podman_on_neutron() {
    on(Kind::Neutron);
}

#[test]
fn podman_on_a_foreign_cni_plugin() {
    on(Kind::CniPlugin);
}

#[test]
fn podman_on_a_foreign_docker_plugin() {
    on(Kind::DockerPlugin);
}

#[test]
fn podman_on_a_plugin_out_of_an_image() {
    on(Kind::Image);
}
