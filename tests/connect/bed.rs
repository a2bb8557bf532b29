//! A host with networks `front` and `back` and named namespaces.

use serde_json::Value;
use tests::{Plugins, World};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";

pub(crate) struct Bed {
    pub(crate) world: World,
}

impl Bed {
    #[track_caller]
    pub(crate) fn new(namespaces: &[&str]) -> Self {
        let world = World::new(&Plugins::subject());
        world.sh("printf 'search corp.example\\nnameserver 127.0.0.1\\nnameserver 192.0.2.53\\n' >/etc/resolv.conf");
        let bed = Self { world };
        bed.spoke("network create --subnet 10.71.1.0/24 front");
        bed.spoke("network create --subnet 10.71.2.0/24 --subnet fd71::/64 back");
        for name in namespaces {
            bed.world.netns(name);
        }
        bed
    }

    #[track_caller]
    pub(crate) fn spoke(&self, command: &str) -> String {
        self.world.sh(&format!("{SPOKE} {command}"))
    }

    /// What a refused command says.
    #[track_caller]
    pub(crate) fn refused(&self, command: &str) -> String {
        let answer = self.world.try_sh(&format!("{SPOKE} {command}"));
        assert_eq!(answer.status, 2, "{command}: {answer:?}");
        answer.stderr
    }

    /// What a program in the namespace reads.
    #[track_caller]
    pub(crate) fn reads(&self, name: &str, file: &str) -> String {
        let text = self.world.sh(&format!("ip netns exec {name} cat {file}"));
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    }

    /// The lines of its hosts file that are not the same everywhere.
    #[track_caller]
    pub(crate) fn hosts(&self, name: &str) -> Vec<String> {
        let text = self.reads(name, "/etc/hosts");
        let own = |line: &&str| !line.contains("localhost") && !line.contains("ip6-");
        text.lines().filter(own).map(|line| line.replace('\t', " ")).collect()
    }

    #[track_caller]
    pub(crate) fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.spoke(command)).expect("JSON")
    }

    /// Whether anything is where `ip netns exec` looks for files.
    #[track_caller]
    pub(crate) fn files(&self) -> String {
        self.world.sh("if [ -e /etc/netns ]; then find /etc/netns | sort; fi")
    }
}
