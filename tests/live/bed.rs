//! A host with a machine outside of it, and what is asked from there.

use serde_json::Value;
use tests::{Output, Plugins, World};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";

/// The host's address towards the machine `lan`.
pub(crate) const HOST: &str = "192.0.2.1";

const LAN: &str = "
ip netns add lan; ip -n lan link set lo up
ip link add up0 type veth peer name eth0 netns lan
ip address add 192.0.2.1/24 dev up0; ip -n lan address add 192.0.2.2/24 dev eth0
ip link set up0 up; ip -n lan link set eth0 up
";

/// What tests of live changes ask of a world.
pub(crate) trait Live {
    fn world(&self) -> &World;

    /// Puts the machine there.
    #[track_caller]
    fn set_up_lan(&self) {
        self.world().sh(LAN);
    }

    #[track_caller]
    fn spoke(&self, command: &str) -> String {
        self.world().sh(&format!("{SPOKE} {command}"))
    }

    fn try_spoke(&self, command: &str) -> Output {
        self.world().try_sh(&format!("{SPOKE} {command}"))
    }

    /// That a command fails with this code, and says all of `words`.
    #[track_caller]
    fn refuses(&self, command: &str, code: i32, words: &[&str]) {
        let answer = self.try_spoke(command);
        assert_eq!(answer.status, code, "{command}: {answer:?}");
        for word in words {
            assert!(answer.stderr.contains(word), "{command}: {word} is not in {}", answer.stderr);
        }
    }

    #[track_caller]
    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.spoke(&format!("{command} -o json"))).expect("JSON")
    }

    /// What the machine outside gets from a port of the host, which is published.
    #[track_caller]
    fn page(&self, port: u16) -> String {
        let ask = format!("curl -sS --max-time 5 http://{HOST}:{port}/");
        outside(self.world(), &ask).expect("an answer")
    }

    /// That nothing answers there.
    #[track_caller]
    fn no_page(&self, port: u16) {
        let ask = format!("curl -sS --max-time 2 http://{HOST}:{port}/");
        let answer = outside(self.world(), &ask);
        assert!(answer.is_none(), "port {port} still answers: {answer:?}");
    }

    /// Waits until the daemon keeps a port of UDP from others, or no longer.
    #[track_caller]
    fn until_held(&self, port: u16, count: u16) {
        self.until(&format!("[ $(ss -Huan | grep -c :{port}) = {count} ]"));
    }

    /// The lines of our table that lead a port to a container.
    fn elements(&self) -> Vec<String> {
        let table = self.world().try_sh("nft -s list table inet spoke").stdout;
        let is_element = |line: &&str| line.contains("comment") && line.contains("/");
        let clean = |line: &str| line.trim().trim_end_matches([',', ' ', '}']).to_owned();
        let mut lines: Vec<String> = table.lines().filter(is_element).map(clean).collect();
        lines.sort();
        lines
    }

    /// Waits until a script succeeds: for what a daemon does by itself.
    #[track_caller]
    fn until(&self, script: &str) {
        let wait = format!("timeout 40 bash -c 'until {script}; do sleep 0.05; done'");
        let done = self.world().try_sh(&wait);
        assert_eq!(done.status, 0, "never: {script}\n{}", self.world().logs());
    }
}

/// What a program of the test's host prints on the machine outside; `None` where it fails. Not every
/// world has such programs.
#[track_caller]
pub(crate) fn outside(world: &World, script: &str) -> Option<String> {
    let netns = world.path("/run/netns/lan");
    let mut command = std::process::Command::new("nsenter");
    command.arg(format!("--net={}", netns.display())).args(["sh", "-c", script]);
    let done = command.output().expect("nsenter");
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A host with the network `front` and named namespaces on none yet.
pub(crate) struct Bed {
    pub(crate) world: World,
}

impl Live for Bed {
    fn world(&self) -> &World {
        &self.world
    }
}

impl Bed {
    #[track_caller]
    pub(crate) fn new(namespaces: &[&str]) -> Self {
        Self::with("", namespaces)
    }

    /// With this configuration.
    #[track_caller]
    pub(crate) fn with(config: &str, namespaces: &[&str]) -> Self {
        let world = World::new(&Plugins::subject());
        world.sh(&format!("mkdir -p /etc/spoke; echo '{config}' >/etc/spoke/config.toml"));
        let bed = Self { world };
        bed.set_up_lan();
        bed.spoke("network create --subnet 10.74.1.0/24 front");
        for name in namespaces {
            bed.world.netns(name);
        }
        bed
    }

    /// Serves a page that says the namespace's name, on port 80.
    #[track_caller]
    pub(crate) fn serve(&self, name: &str) {
        self.world.sh(&format!(
            "mkdir -p /srv/{name}; echo {name} >/srv/{name}/index.html
            ip netns exec {name} busybox httpd -p 80 -h /srv/{name}
            timeout 20 sh -c 'until ip netns exec {name} ss -Hltn sport = :80 | grep -q .; do sleep 0.05; done'"
        ));
    }
}
