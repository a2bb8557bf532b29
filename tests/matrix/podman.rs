//! Podman's row: Podman 5, or where Debian has moved on, Podman 4 with CNI.

use serde_json::json;
use tests::{Cgroup, Plugins, Podman, Podman5, PodmanRelease, World};

use crate::back::{Back, Kind};
use crate::{NAMES, PORT, Runtime, speak};

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
        self.create("net");
        for (name, port) in NAMES.into_iter().zip([format!("-p {PORT}:80"), String::new()]) {
            let options = format!("--network net {port}");
            match self {
                Self::Five(podman) => podman.run(name, &options, ""),
                Self::Four(world, cgroup) => {
                    let (cgroup, image) = (cgroup.name(), Podman::IMAGE);
                    let options = format!("--cgroup-parent /{cgroup} {options} {image}");
                    Podman::run(world, &format!("run -d --name {name} {options}"));
                }
            }
        }
    }

    /// Makes a network Podman's.
    #[track_caller]
    fn create(&self, network: &str) {
        match self {
            Self::Five(podman) => {
                podman.podman(&format!("network create -d spoke -o network={network} {network}"));
            }
            Self::Four(world, _) => {
                let list = json!({"cniVersion": "1.0.0", "name": network, "plugins": [{"type":
                    "spoke", "network": network, "capabilities": {"portMappings": true}}]});
                let file = format!("/run/stage/net.d/{network}.conflist");
                world.sh(&format!("cat >{file} <<'CNI'\n{list}\nCNI"));
            }
        }
    }

    #[track_caller]
    fn forget(&self, network: &str) {
        match self {
            Self::Five(podman) => drop(podman.podman(&format!("network rm {network}"))),
            Self::Four(world, _) => {
                drop(world.sh(&format!("rm /run/stage/net.d/{network}.conflist")));
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
    fn restart(&mut self, name: &str) {
        self.podman(&format!("restart -t 0 {name}"));
    }

    #[track_caller]
    fn connect(&mut self, name: &str) {
        self.create("side");
        self.podman(&format!("network connect side {name}"));
    }

    #[track_caller]
    fn disconnect(&mut self, name: &str) {
        self.podman(&format!("network disconnect side {name}"));
        self.forget("side");
    }

    #[track_caller]
    fn leave(&mut self) {
        self.podman(&format!("rm -f -t 0 {}", NAMES.join(" ")));
        self.forget("net");
    }
}

#[track_caller]
fn on(kind: Kind) {
    let mut pods = Pods::new();
    let back = Back::new(kind, pods.world());
    back.create(pods.world());
    pods.run();
    speak(&mut pods, &back, "Podman");
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
