//! Kurma's row: pods whose network's plugin is our own image.

use std::fs;

use serde_json::{Value, json};
use tests::{Plugins, World};

use crate::back::{self, Back, Kind};
use crate::{Lack, NAMES, Runtime, speak};

struct Pods<'w>(&'w World);

/// What Kurma calls the container of this name.
fn uuid(name: &str) -> String {
    let number = NAMES.iter().position(|known| *known == name).unwrap();
    format!("0000000{number}-fbf6-41da-a2f8-eba218597f9c")
}

impl Pods<'_> {
    #[track_caller]
    fn kurma(&self, arguments: &str) -> String {
        self.0.sh(&format!("/opt/cni/bin/spoke kurma {arguments}"))
    }
}

impl Runtime for Pods<'_> {
    fn world(&self) -> &World {
        self.0
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        let script = script.replace('\'', "'\\''");
        let netns = format!("/var/lib/kurma/netns/{}", uuid(name));
        self.0.sh(&format!("nsenter --net={netns} busybox sh -euc '{script}'"))
    }

    /// What third-party plugins gave a pod is in no book.
    fn listed(&self) -> String {
        self.0.sh("/opt/cni/bin/spoke ps; /opt/cni/bin/spoke kurma pods -o json")
    }

    /// Its protocol knows neither.
    fn lacks(&self) -> &'static [Lack] {
        &[Lack::Ports, Lack::SecondNetwork]
    }

    /// A pod that ends and comes again.
    #[track_caller]
    fn restart(&mut self, name: &str) {
        self.kurma(&format!("deprovision {}", uuid(name)));
        self.kurma(&format!("provision {}", uuid(name)));
    }

    fn connect(&mut self, _name: &str) {
        unreachable!("Kurma connects pods when they are made");
    }

    fn disconnect(&mut self, _name: &str) {
        unreachable!("Kurma connects pods when they are made");
    }

    #[track_caller]
    fn leave(&mut self) {
        for name in NAMES {
            self.kurma(&format!("deprovision {}", uuid(name)));
        }
        assert_eq!(self.kurma("pods -o json").trim(), "[]");
    }
}

#[track_caller]
fn on(kind: Kind) {
    let world = World::new(&Plugins::subject());
    let back = Back::new(kind, &world);
    back.create(&world);
    let mount = |folder: &&str| {
        fs::create_dir_all(world.path(folder)).unwrap();
        json!({"host": folder, "container": folder})
    };
    let mounts: Vec<Value> = back.folders().iter().map(mount).collect();
    let mut network = match kind {
        Kind::Image => back::image_config(),
        _ => json!({"aci": "file:///images/spoke.aci", "type": "spoke", "network": "net"}),
    };
    network["name"] = "net".into();
    network["default"] = true.into();
    network["privileged"] = true.into();
    network["containerInterface"] = "eth{{num}}".into();
    network["mounts"] = mounts.into();
    fs::create_dir_all(world.path("/etc/kurma")).unwrap();
    let networks = json!({"pod_networks": [network]}).to_string();
    fs::write(world.path("/etc/kurma/kurma.json"), networks).unwrap();
    let mut pods = Pods(&world);
    world.sh("mkdir -p /images");
    pods.kurma("build-image --aci /images/spoke.aci");
    for name in NAMES {
        pods.kurma(&format!("provision {}", uuid(name)));
    }
    speak(&mut pods, &back, "Kurma");
}

#[test]
fn kurma_on_the_kernel() {
    on(Kind::Kernel);
}

#[test]
fn kurma_on_neutron() {
    on(Kind::Neutron);
}

#[test]
fn kurma_on_a_foreign_cni_plugin() {
    on(Kind::CniPlugin);
}

#[test]
fn kurma_on_a_foreign_docker_plugin() {
    on(Kind::DockerPlugin);
}

#[test]
fn kurma_on_a_plugin_out_of_an_image() {
    on(Kind::Image);
}
