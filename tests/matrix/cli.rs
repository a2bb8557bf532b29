//! The row of the command line: Spoke itself connects sandboxes.

use tests::{Plugins, World};

use crate::back::{Back, Kind};
use crate::cni::in_netns;
use crate::{NAMES, Runtime, speak};

struct Shell<'w>(&'w World);

impl Runtime for Shell<'_> {
    fn world(&self) -> &World {
        self.0
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        in_netns(self.0, name, script)
    }

    #[track_caller]
    fn leave(&self) {
        for name in NAMES {
            self.0.sh(&format!("/opt/cni/bin/spoke network disconnect net {name}"));
        }
    }
}

#[track_caller]
fn on(kind: Kind) {
    let world = World::new(&Plugins::subject());
    let back = Back::new(kind, &world);
    back.create(&world);
    for name in NAMES {
        world.netns(name);
        world.sh(&format!("/opt/cni/bin/spoke network connect net {name} --container {name}"));
        let lo = world.sh(&format!("ip -n {name} -o link show dev lo up"));
        assert!(!lo.is_empty(), "{name}: nobody else sets the loopback device up");
    }
    speak(&Shell(&world), &back, "command line");
}

#[test]
fn cli_on_the_kernel() {
    on(Kind::Kernel);
}

#[test]
fn cli_on_neutron() {
    on(Kind::Neutron);
}

#[test]
fn cli_on_a_foreign_cni_plugin() {
    on(Kind::CniPlugin);
}

#[test]
fn cli_on_a_foreign_docker_plugin() {
    on(Kind::DockerPlugin);
}

#[test]
fn cli_on_a_plugin_out_of_an_image() {
    on(Kind::Image);
}
