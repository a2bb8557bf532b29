//! A host whose own server knows one name, and `spoke serve` on it.

use std::fs;
use std::process::{Command, Output, Stdio};

use tests::{Plugins, Serve, World};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";

/// The host's server: on its loopback device, and on every address besides, as many have it. It is this
/// host's program, because not every world has one, and ends with the world.
const SERVER: [&str; 7] = [
    "--conf-file=/dev/null",
    "--user=root",
    "--pid-file=",
    "--no-resolv",
    "--no-hosts",
    "--local=/example/",
    "--log-queries",
];

/// What the server knows.
const KNOWN: [&str; 2] = [
    "--host-record=outside.example,192.0.2.7,2001:db8::7",
    "--host-record=big.corp.example,192.0.2.8",
];

const ASK: &str = include_str!("ask.py");

pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) serve: Option<Serve>,
}

impl Bed {
    /// With networks `front`, `back` (which has IPv6 too) and `plain`, which has no names.
    #[track_caller]
    pub(crate) fn new(namespaces: &[&str]) -> Self {
        let bed = Self::of(World::new(&Plugins::subject()));
        bed.spoke("network create --names --subnet 10.71.1.0/24 front");
        bed.spoke("network create --names --subnet 10.71.2.0/24 --subnet fd71::/64 back");
        bed.spoke("network create --subnet 10.71.3.0/24 plain");
        for name in namespaces {
            bed.world.netns(name);
        }
        bed.until_answers("10.71.1.1");
        bed
    }

    /// Without networks.
    #[track_caller]
    pub(crate) fn of(world: World) -> Self {
        prepare(&world);
        let serve = Some(Serve::start(&world, &[]));
        Self { world, serve }
    }

    #[track_caller]
    pub(crate) fn spoke(&self, command: &str) -> String {
        self.world.sh(&format!("{SPOKE} {command}"))
    }

    /// Waits until queries at this gateway are led to Spoke.
    #[track_caller]
    pub(crate) fn until_answers(&self, gateway: &str) {
        until_answers(&self.world, gateway);
    }

    /// What a namespace is answered by the first server of its resolv.conf.
    #[track_caller]
    pub(crate) fn ask(&self, namespace: &str, name: &str) -> String {
        let read = format!("ip netns exec {namespace} sed -n 's/nameserver //p' /etc/resolv.conf");
        let servers = self.world.sh(&read);
        self.ask_at(namespace, servers.lines().next().expect("a server"), name)
    }

    /// What a namespace is answered by this server.
    #[track_caller]
    pub(crate) fn ask_at(&self, namespace: &str, server: &str, name: &str) -> String {
        ask(&self.world, &format!("/run/netns/{namespace}"), server, name)
    }

    /// Whether the host's own server has been asked for a name.
    pub(crate) fn was_asked(&self, name: &str) -> bool {
        self.world.sh("cat /world/asked").contains(&format!("] {name} from"))
    }
}

/// What is answered by a server in a network namespace of a world: the addresses and names, or the error.
#[track_caller]
pub(crate) fn ask(world: &World, netns: &str, server: &str, name: &str) -> String {
    asking(world, netns, server, name)(world)
}

/// As [`ask`], but what is answered is waited for later.
#[track_caller]
pub(crate) fn asking(
    world: &World,
    netns: &str,
    server: &str,
    name: &str,
) -> impl FnOnce(&World) -> String {
    let mut asks = Command::new("nsenter");
    asks.arg(format!("--net={}", world.path(netns).display()));
    asks.args(["python3", "-c", ASK, server]).args(name.split(' '));
    let asks = asks.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (asks, about) = (asks.expect("nsenter starts"), format!("{netns} asks {name}"));
    move |world| said(asks.wait_with_output().expect("ours"), &about, world)
}

#[track_caller]
fn said(done: Output, about: &str, world: &World) -> String {
    let (said, complaint) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{about}: {complaint}{}", world.logs());
    said.trim().to_owned()
}

/// Gives a host its server.
#[track_caller]
pub(crate) fn prepare(world: &World) {
    world.sh("ip link set lo up; printf 'search corp.example\\nnameserver 127.0.0.1\\n' >/etc/resolv.conf");
    fs::write(world.path("/world/ask.py"), ASK).expect("written");
    let asked = format!("--log-facility={}", world.path("/world/asked").display());
    let pid = world.pid().to_string();
    let mut server = Command::new("nsenter");
    server.args(["--target", &pid, "--net", "--pid", "--", "/usr/sbin/dnsmasq", &asked]);
    let done = server.args(SERVER).args(KNOWN).output().expect("nsenter starts");
    assert!(done.status.success(), "dnsmasq: {}", String::from_utf8_lossy(&done.stderr));
}

#[track_caller]
pub(crate) fn until_answers(world: &World, gateway: &str) {
    let is_there = format!("nft list table inet spoke_names 2>/dev/null | grep -q ' {gateway} '");
    world.sh(&format!("timeout 60 sh -c \"until {is_there}; do sleep 0.05; done\""));
}
