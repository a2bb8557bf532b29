//! A segment with etcd at `192.0.2.100`, and hosts at `192.0.2.1` and on; or the same with `2001:db8::` instead of
//! `192.0.2.`, and no address of IPv4.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{Etcd, Output, Plugins, Serve, World, glance, output};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";
const SERVER: &str = "192.0.2.100";
const SERVER6: &str = "[2001:db8::100]";
/// Only a hanging test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The segment: a bridge, with etcd beside it.
pub(crate) struct Segment {
    etcd: Option<Etcd>,
    world: World,
    /// Its hosts have addresses of IPv6 alone.
    is_v6: bool,
}

/// A host that has a daemon.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    serve: Option<Serve>,
    pub(crate) world: World,
}

impl Segment {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let mut segment = Self::bare();
        segment.start_etcd();
        segment
    }

    /// The same without etcd.
    #[track_caller]
    pub(crate) fn bare() -> Self {
        let world = World::new(&Plugins::subject());
        world.sh(&format!(
            // A bridge without an address of its own takes another one with each port.
            "ip link add seg0 address 02:00:00:00:00:64 type bridge
             ip address add {SERVER}/24 dev seg0; ip link set seg0 up"
        ));
        Self { etcd: None, world, is_v6: false }
    }

    /// One without etcd and without IPv4.
    #[track_caller]
    pub(crate) fn bare_v6() -> Self {
        let segment = Self { is_v6: true, ..Self::bare() };
        segment.world.sh(&format!(
            "ip address flush dev seg0; ip address add {}/64 dev seg0 nodad",
            SERVER6.trim_matches(['[', ']'])
        ));
        segment
    }

    fn server(&self) -> &'static str {
        if self.is_v6 { SERVER6 } else { SERVER }
    }

    /// Gives a world an interface on the segment.
    #[track_caller]
    pub(crate) fn plug(&self, world: &World, number: u8) -> String {
        let (lab, host) = (self.world.pid().to_string(), world.pid().to_string());
        let port = format!("host{number}");
        let wire = ["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &host];
        run(Command::new("nsenter").args(["-t", &lab, "-n", "ip"]).args(wire));
        self.world.sh(&format!("ip link set {port} master seg0 up"));
        let (address, net) = match self.is_v6 {
            false => (format!("192.0.2.{number}"), "24 dev eth0"),
            true => (format!("2001:db8::{number}"), "64 dev eth0 nodad"),
        };
        in_network(world, &format!("ip address add {address}/{net}; ip link set eth0 up"));
        address
    }

    /// A host without a container runtime.
    #[track_caller]
    pub(crate) fn host(&self, name: &'static str, number: u8) -> Host {
        self.host_with("", name, number)
    }

    #[track_caller]
    pub(crate) fn host_with(&self, config: &str, name: &'static str, number: u8) -> Host {
        self.host_of(&Plugins::subject(), config, (name, number))
    }

    /// The same with this program.
    #[track_caller]
    pub(crate) fn host_of(
        &self,
        plugins: &Plugins,
        config: &str,
        (name, number): (&'static str, u8),
    ) -> Host {
        let world = World::new(plugins);
        let address = self.plug(&world, number);
        world.sh(&format!("mkdir -p /etc/spoke; printf '%s' '{config}' >/etc/spoke/config.toml"));
        let serve = Some(serve(&world));
        Host { name, address, serve, world }
    }

    /// Hosts of one cluster.
    #[track_caller]
    pub(crate) fn cluster<const N: usize>(&self, names: [&'static str; N]) -> [Host; N] {
        self.cluster_with("", names)
    }

    /// The same, each with this configuration.
    #[track_caller]
    pub(crate) fn cluster_with<const N: usize>(
        &self,
        config: &str,
        names: [&'static str; N],
    ) -> [Host; N] {
        let mut number = 0;
        let hosts = names.map(|name| {
            number += 1;
            self.host_with(config, name, number)
        });
        let first = &hosts[0];
        first.spoke(&format!(
            "host init --etcd http://{}:2379 --name {}",
            self.server(),
            first.name
        ));
        for host in &hosts[1..] {
            join(&hosts[0].world, &host.world, host.name);
        }
        hosts
    }

    #[track_caller]
    pub(crate) fn stop_etcd(&mut self) {
        self.etcd.take().expect("etcd runs").kill();
    }

    #[track_caller]
    pub(crate) fn start_etcd(&mut self) {
        self.etcd = Some(Etcd::start(&self.world, self.server()));
    }

    /// The same with further arguments.
    #[track_caller]
    pub(crate) fn start_etcd_with(&mut self, arguments: &[&str]) {
        self.etcd = Some(Etcd::start_as(&self.world, ("http", SERVER), arguments));
    }

    /// The same, for clients with a certificate of `/world/ca.pem` only.
    #[track_caller]
    pub(crate) fn start_etcd_with_tls(&mut self) {
        let arguments = [
            "--client-cert-auth",
            "--trusted-ca-file=/world/ca.pem",
            "--cert-file=/world/server.pem",
            "--key-file=/world/server.key",
        ];
        self.etcd = Some(Etcd::start_as(&self.world, ("https", SERVER), &arguments));
    }

    /// etcd ends, and its data go to `kept`; it starts again with what `from` has, with nothing where that
    /// is not there.
    #[track_caller]
    pub(crate) fn exchange_etcd(&mut self, kept: &str, from: &str) {
        self.stop_etcd();
        self.world.sh(&format!(
            "mv /world/etcd /world/{kept}; [ ! -e /world/{from} ] || mv /world/{from} /world/etcd"
        ));
        self.start_etcd();
    }

    /// etcd's data are those of a snapshot.
    #[track_caller]
    pub(crate) fn restore_etcd(&self, snapshot: &str) {
        let peer = format!("http://{}:2380", self.server());
        self.world.sh(&format!(
            "rm -r /world/etcd
             ETCDCTL_API=3 etcdctl snapshot restore {snapshot} --data-dir /world/etcd --name one \
                 --initial-cluster one={peer} --initial-advertise-peer-urls {peer}"
        ));
    }

    /// Its network namespace.
    pub(crate) fn netns(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.world.pid()).into()
    }

    /// What `etcdctl ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn etcdctl(&self, arguments: &str) -> String {
        let endpoint = format!("ETCDCTL_API=3 etcdctl --endpoints http://{}:2379", self.server());
        self.world.sh(&format!("{endpoint} {arguments}"))
    }

    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.world.sh(script)
    }

    /// Waits until a script beside etcd succeeds.
    #[track_caller]
    pub(crate) fn until(&self, script: &str) {
        until(&self.world, script);
    }

    /// Waits until no key of etcd below `/spoke/v1/` contains this.
    #[track_caller]
    pub(crate) fn until_gone(&self, words: &str) {
        let endpoint = format!("ETCDCTL_API=3 etcdctl --endpoints http://{}:2379", self.server());
        let keys = format!("{endpoint} get --prefix --keys-only /spoke/v1/");
        until(&self.world, &format!("keys=$({keys}); ! grep -qF '{words}' <<<\"$keys\""));
    }

    /// Waits until a record has these words.
    #[track_caller]
    pub(crate) fn until_has(&self, record: &str, words: &[&str]) {
        let endpoint = format!("ETCDCTL_API=3 etcdctl --endpoints http://{}:2379", self.server());
        let get = format!("{endpoint} get --print-value-only /spoke/v1/{record}");
        let has = words.iter().map(|words| format!("grep -qF '{words}' <<<\"$record\""));
        let has = has.collect::<Vec<_>>().join(" && ");
        until(&self.world, &format!("record=$({get}); {has}"));
    }

    /// The block of a network that a host has. Which one that is, is decided by who was first.
    #[track_caller]
    pub(crate) fn block(&self, network: &str, host: &str) -> String {
        let (deadline, mine) = (Instant::now() + TIMEOUT, format!("\"{host}\""));
        loop {
            let said = self.etcdctl(&format!("get --prefix /spoke/v1/block/{network}/"));
            let lines: Vec<&str> = said.lines().collect();
            if let Some(at) = lines.iter().position(|line| *line == mine) {
                let begin = format!("/spoke/v1/block/{network}/");
                return lines[at - 1].trim_start_matches(&begin).to_owned();
            }
            assert!(Instant::now() < deadline, "{host} has no block of {network}: {said}");
            glance();
        }
    }

    /// Waits until a host has so many blocks of a network.
    #[track_caller]
    pub(crate) fn until_blocks(&self, network: &str, host: &str, count: usize) {
        let (deadline, mine) = (Instant::now() + TIMEOUT, format!("\"{host}\""));
        loop {
            let said = self.etcdctl(&format!("get --prefix /spoke/v1/block/{network}/"));
            if said.lines().filter(|line| *line == mine).count() == count {
                return;
            }
            assert!(Instant::now() < deadline, "{host} does not come to {count} blocks: {said}");
            glance();
        }
    }

    /// What the addresses of a block of 256 begin with.
    #[track_caller]
    pub(crate) fn prefix(&self, network: &str, host: &str) -> String {
        self.block(network, host).trim_end_matches("0/24").to_owned()
    }

    /// Every endpoint of a network on other hosts than `me`: IP address, hardware address, host's address.
    #[track_caller]
    pub(crate) fn book(&self, network: &str, me: &str) -> BTreeSet<[String; 3]> {
        let said = self.etcdctl("get --prefix /spoke/v1/ -w simple");
        let lines: Vec<&str> = said.lines().collect();
        let value = |key: &str| {
            let at = lines.iter().position(|line| *line == key).expect("a key");
            serde_json::from_str::<Value>(lines[at + 1]).expect("JSON")
        };
        let endpoints = lines.iter().filter_map(|line| {
            let rest = line.strip_prefix("/spoke/v1/endpoint/")?;
            let parts: Vec<&str> = rest.split('/').collect();
            (parts[0] != me && parts[1] == network).then(|| {
                let host = value(&format!("/spoke/v1/host/{}", parts[0]));
                let mac = value(line)["mac"].as_str().expect("a text").to_owned();
                let at = host["address"].as_str().expect("a text").to_owned();
                [parts[2].to_owned(), mac, at]
            })
        });
        endpoints.collect()
    }
}

impl Host {
    #[track_caller]
    pub(crate) fn spoke(&self, command: &str) -> String {
        spoke(&self.world, command)
    }

    /// What a refused command says.
    #[track_caller]
    pub(crate) fn refused(&self, command: &str) -> String {
        let answer = self.world.try_sh(&format!("{SPOKE} {command}"));
        assert_ne!(answer.status, 0, "{command}: {answer:?}");
        answer.stderr
    }

    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.world.sh(script)
    }

    /// A namespace on the network; its address.
    #[track_caller]
    pub(crate) fn attach(&self, network: &str, name: &str) -> String {
        self.world.netns(name);
        self.spoke(&format!("network connect {network} {name}"));
        address(&self.world, name)
    }

    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.serve.take().expect("the daemon runs").kill();
    }

    #[track_caller]
    pub(crate) fn start(&mut self) {
        self.serve = Some(serve(&self.world));
    }

    /// The same, without a wait until it has heard of the cluster.
    #[track_caller]
    pub(crate) fn begin(&mut self) {
        self.serve = Some(Serve::start(&self.world, &[]));
    }

    /// The same by a program of the world that runs it.
    #[track_caller]
    pub(crate) fn begin_by(&mut self, by: &[&str]) {
        self.serve = Some(Serve::start_by(&self.world, by, &[]));
    }

    /// The daemon is killed, and starts again with another program.
    #[track_caller]
    pub(crate) fn change_to(&mut self, plugins: &Plugins) {
        self.kill();
        self.world.exchange(plugins);
        self.start();
    }
}

/// A daemon that answers the command line: Docker's socket is there before it does.
#[track_caller]
pub(crate) fn serve(world: &World) -> Serve {
    let serve = Serve::start(world, &[]);
    until(world, &format!("! {SPOKE} host ls 2>&1 | grep -q 'the daemon is not running'"));
    serve
}

#[track_caller]
pub(crate) fn spoke(world: &World, command: &str) -> String {
    world.sh(&format!("{SPOKE} {command}"))
}

/// The first host of a cluster.
#[track_caller]
pub(crate) fn init(world: &World, name: &str) -> String {
    spoke(world, &format!("host init --etcd http://{SERVER}:2379 --name {name}"))
}

/// Another one, by a token of the first.
#[track_caller]
pub(crate) fn join(first: &World, world: &World, name: &str) {
    let token = token(first);
    spoke(world, &format!("host join --name {name} {token}"));
}

#[track_caller]
pub(crate) fn token(world: &World) -> String {
    let said: Value =
        serde_json::from_str(&spoke(world, "host token create -o json")).expect("JSON");
    said["token"].as_str().expect("a text").to_owned()
}

/// The IPv6 address of a namespace of the world.
#[track_caller]
pub(crate) fn address6(world: &World, name: &str) -> String {
    let said = world.sh(&format!("ip -n {name} -6 -o address show scope global"));
    let net = said.split_whitespace().nth(3).expect("an address");
    net.split('/').next().expect("an address").to_owned()
}

/// The IPv4 address of a namespace of the world.
#[track_caller]
pub(crate) fn address(world: &World, name: &str) -> String {
    let said = world.sh(&format!("ip -n {name} -4 -o address show scope global"));
    let net = said.split_whitespace().nth(3).expect("an address");
    net.split('/').next().expect("an address").to_owned()
}

/// What the kernel has for a network on this host: IP address, hardware address, where that leads to.
/// An address whose hardware address leads nowhere, or to no port of the bridge, has `-` there.
#[track_caller]
pub(crate) fn entries(world: &World, network: &str) -> BTreeSet<[String; 3]> {
    let ports = format!("ip -o link show master sp-{network} type vxlan 2>/dev/null || true");
    let ports = in_network(world, &ports);
    let Some(device) = ports.split(": ").nth(1) else { return BTreeSet::new() };
    let forwarding = in_network(world, &format!("bridge fdb show dev {device}"));
    let lines: Vec<Vec<&str>> = forwarding.lines().map(|line| line.split(' ').collect()).collect();
    let tunnel = |mac: &str| {
        let entry = lines.iter().find(|line| line[0] == mac && line.contains(&"dst"))?;
        let at = entry.iter().position(|word| *word == "dst")?;
        lines
            .iter()
            .any(|line| line[0] == mac && line.contains(&"master") && line.contains(&"static"))
            .then(|| entry[at + 1].to_owned())
    };
    let neighbours = |family| format!("ip -{family} neigh show dev sp-{network} nud permanent");
    let neighbours = in_network(world, &format!("{}; {}", neighbours(4), neighbours(6)));
    let mut all: BTreeSet<[String; 3]> = neighbours
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mac = words[2].to_owned();
            let at = tunnel(&mac).unwrap_or_else(|| "-".to_owned());
            [words[0].to_owned(), mac, at]
        })
        .collect();
    let known: BTreeSet<String> = all.iter().map(|[_, mac, _]| mac.clone()).collect();
    let stray = lines.iter().filter(|line| line.contains(&"dst") && !known.contains(line[0]));
    all.extend(stray.map(|line| ["-".to_owned(), line[0].to_owned(), line.join(" ")]));
    all
}

/// Waits until the kernel has on this host what etcd says.
#[track_caller]
pub(crate) fn until_equal(segment: &Segment, world: &World, network: &str, me: &str, count: usize) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (book, kernel) = (segment.book(network, me), entries(world, network));
        if book == kernel && book.len() == count {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{me}: the book has {book:#?}\nthe kernel has {kernel:#?}\n{}",
            world.logs()
        );
        glance();
    }
}

/// Waits until a program in a namespace of the world reaches an address.
#[track_caller]
pub(crate) fn until_reached(world: &World, name: &str, to: &str) {
    let ping = format!("ip netns exec {name} ping -q -c 1 -W 1 {to} >/dev/null");
    world.sh(&format!("timeout 60 sh -c 'until {ping}; do sleep 0.05; done'"));
}

/// Waits until a script of the world succeeds.
#[track_caller]
pub(crate) fn until(world: &World, script: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let done: Output = world.try_sh(script);
        if done.status == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{script}: {done:?}\n{}", world.logs());
        glance();
    }
}

/// What a script prints in the network of a world, which may lack its programs.
#[track_caller]
fn in_network(world: &World, script: &str) -> String {
    let pid = world.pid().to_string();
    run(Command::new("nsenter").args(["-t", &pid, "-n", "bash", "-euc", script]))
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let done = output(command, "");
    assert_eq!(done.status, 0, "{command:?}: {done:?}");
    done.stdout
}
