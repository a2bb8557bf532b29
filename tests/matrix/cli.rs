//! The row of the command line: Spoke itself connects sandboxes.

use tests::{Plugins, World};

use crate::back::{Back, Kind};
use crate::cni::in_netns;
use crate::{NAMES, PORT, Runtime, speak};

struct Shell<'w>(&'w World);

impl Shell<'_> {
    /// A sandbox of its own, connected.
    #[track_caller]
    fn start(&self, name: &str) {
        self.0.netns(name);
        let port = if name == NAMES[0] { format!("--publish {PORT}:80") } else { String::new() };
        self.spoke(&format!("connect net {name} --container {name} {port}"));
        let lo = self.0.sh(&format!("ip -n {name} -o link show dev lo up"));
        assert!(!lo.is_empty(), "{name}: no other program sets the loopback device up");
    }

    #[track_caller]
    fn spoke(&self, arguments: &str) {
        self.0.sh(&format!("/opt/cni/bin/spoke network {arguments}"));
    }
}

impl Runtime for Shell<'_> {
    fn world(&self) -> &World {
        self.0
    }

    #[track_caller]
    fn inside(&self, name: &str, script: &str) -> String {
        in_netns(self.0, name, script)
    }

    #[track_caller]
    fn restart(&mut self, name: &str) {
        self.spoke(&format!("disconnect net {name}"));
        self.0.sh(&format!("ip netns del {name}"));
        self.start(name);
    }

    #[track_caller]
    fn connect(&mut self, name: &str) {
        self.spoke(&format!("connect side {name} --container {name}"));
    }

    #[track_caller]
    fn disconnect(&mut self, name: &str) {
        self.spoke(&format!("disconnect side {name}"));
    }

    #[track_caller]
    fn leave(&mut self) {
        for name in NAMES {
            self.spoke(&format!("disconnect net {name}"));
        }
    }
}

#[track_caller]
fn on(kind: Kind) {
    let world = World::new(&Plugins::subject());
    let back = Back::new(kind, &world);
    back.create(&world);
    let mut shell = Shell(&world);
    for name in NAMES {
        shell.start(name);
    }
    speak(&mut shell, &back, "command line");
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
