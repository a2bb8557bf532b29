//! Two hosts with engines on a segment, and an etcd of three members.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use netlink::Netns;
use serde_json::{Value, json};
use tests::{Engine, Plugins, Release, Serve, World};

/// Ours, in a world.
const SPOKE: &str = "/opt/cni/bin/spoke";
/// The members of etcd.
const MEMBERS: [u8; 3] = [100, 101, 102];
/// What is not so after this long never is.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at what cannot be waited for.
const GLANCE: Duration = Duration::from_millis(5);
/// After this a lost host's addresses may be taken over, in seconds.
pub(super) const TAKEOVER: u64 = 2;

/// The segment, etcd, and two hosts.
pub(super) struct Bed {
    /// The hosts end before what joins them.
    pub(super) a: Host,
    pub(super) b: Host,
    etcd: Vec<Option<Child>>,
    lab: World,
}

/// A host.
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) address: String,
    serve: Option<Serve>,
    pub(super) engine: Engine,
}

impl Bed {
    /// One cluster of two hosts.
    pub(super) fn new() -> Self {
        let lab = World::new(&Plugins::subject());
        lab.sh("ip link add seg0 address 02:00:00:00:00:64 type bridge; ip link set seg0 up
            for it in 100 101 102; do ip address add 192.0.2.$it/24 dev seg0; done");
        let mut bed = Self {
            a: Host::new(&lab, "a", 1),
            b: Host::new(&lab, "b", 2),
            etcd: MEMBERS.map(|_| None).into(),
            lab,
        };
        bed.start_etcd();
        let urls = MEMBERS.map(|at| format!("--etcd http://192.0.2.{at}:2379")).join(" ");
        for host in [&mut bed.a, &mut bed.b] {
            host.start();
            host.spoke(&format!("host init --name {} {urls}", host.name));
        }
        bed
    }

    /// A network on both hosts, and in both engines.
    pub(super) fn network(&self, name: &str) {
        self.a.spoke(&format!("network create --hosts all {name}"));
        for host in self.hosts() {
            host.until(&format!("{SPOKE} network inspect {name}"));
            let with = json!({
                "Driver": "spoke",
                "IPAM": {
                    "Driver": "spoke", "Options": { "network": name },
                    "Config": [{ "Subnet": "10.64.0.0/16" }],
                },
            });
            host.engine.create_network(name, with);
        }
    }

    /// A network on both hosts without encapsulation.
    pub(super) fn routed(&self, name: &str) {
        self.a.spoke(&format!("network create --hosts all --transport route {name}"));
        for host in self.hosts() {
            host.until(&format!("{SPOKE} network inspect {name}"));
        }
    }

    pub(super) fn hosts(&self) -> [&Host; 2] {
        [&self.a, &self.b]
    }

    /// Starts the members of etcd that do not run, and waits until a leader answers.
    pub(super) fn start_etcd(&mut self) {
        for (number, child) in self.etcd.iter_mut().enumerate().filter(|(_, it)| it.is_none()) {
            // One that does not start never answers.
            *child = member(&self.lab, number).spawn().ok();
        }
        until(|| self.etcdctl("get --prefix --limit 1 /").is_ok());
    }

    /// Kills the members that `which` says.
    pub(super) fn kill_etcd(&mut self, which: impl Fn(usize) -> bool) {
        for (number, slot) in self.etcd.iter_mut().enumerate().filter(|(at, _)| which(*at)) {
            self.lab.sh(&format!("kill -KILL $(cat /world/etcd{number}.pid)"));
            if let Some(mut child) = slot.take() {
                let _ = child.wait();
            }
        }
    }

    /// The member that leads.
    pub(super) fn leader(&self) -> Result<usize> {
        let said = self.etcdctl("endpoint status -w json")?;
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        let leads = |it: &Value| it["Status"]["leader"] == it["Status"]["header"]["member_id"];
        let leader = said.as_array().and_then(|all| all.iter().find(|it| leads(it)));
        let endpoint = leader.and_then(|it| it["Endpoint"].as_str()).unwrap_or_default();
        let at = MEMBERS.iter().position(|at| endpoint.contains(&format!("192.0.2.{at}:")));
        at.ok_or_else(|| Error::not_found("no member of etcd leads"))
    }

    pub(super) fn etcdctl(&self, arguments: &str) -> Result<String> {
        let all = MEMBERS.map(|at| format!("http://192.0.2.{at}:2379")).join(",");
        let done = self.lab.try_sh(&format!("ETCDCTL_API=3 etcdctl --endpoints {all} {arguments}"));
        match done.status {
            0 => Ok(done.stdout),
            _ => Err(Error::new(Kind::Kernel, done.stderr)),
        }
    }

    /// The writes that etcd has done.
    pub(super) fn revision(&self) -> Result<u64> {
        let said = self.etcdctl("get --limit 1 --prefix / -w json")?;
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        said["header"]["revision"].as_u64().ok_or_else(|| Error::bug("etcd says no revision"))
    }

    /// Cuts a host off, or joins it again.
    pub(super) fn cut(&self, host: &Host, is_cut: bool) {
        let state = if is_cut { "down" } else { "up" };
        self.lab.sh(&format!("ip link set to-{} {state}", host.name));
    }

    /// The addresses that etcd says the host has, and their hardware addresses.
    pub(super) fn book(&self, host: &Host) -> Result<Vec<(String, String)>> {
        let begin = format!("/spoke/v1/endpoint/{}/front/", host.name);
        let said = self.etcdctl(&format!("get --prefix {begin}"))?;
        let lines: Vec<&str> = said.lines().collect();
        let pairs = lines.chunks_exact(2).map(|pair| {
            let value: Value = serde_json::from_str(pair[1]).unwrap_or_default();
            let mac = value["mac"].as_str().unwrap_or_default().to_owned();
            (pair[0].trim_start_matches(&begin).to_owned(), mac)
        });
        Ok(pairs.collect())
    }
}

fn member(lab: &World, number: usize) -> Command {
    let url = |at: u8, port: u16| format!("http://192.0.2.{at}:{port}");
    let all: Vec<String> = (0..)
        .zip(MEMBERS)
        .map(|(number, at): (u8, u8)| format!("m{number}={}", url(at, 2380)))
        .collect();
    let (client, peer) = (url(MEMBERS[number], 2379), url(MEMBERS[number], 2380));
    let mut command = lab.command("/bin/sh");
    command.arg("-c").arg(format!(
        "echo $$ >/world/etcd{number}.pid; exec etcd --name m{number} --data-dir /world/etcd{number} \
         --listen-client-urls {client} --advertise-client-urls {client} --listen-peer-urls {peer} \
         --initial-advertise-peer-urls {peer} --initial-cluster {} >>/world/etcd{number}.log 2>&1",
        all.join(",")
    ));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Host {
    fn new(lab: &World, name: &'static str, number: u8) -> Self {
        let mut engine = Engine::prepared(Release::V20_10, &Plugins::subject());
        let (here, there) = (lab.pid().to_string(), engine.world().pid().to_string());
        let port = format!("to-{name}");
        let words = ["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &there];
        let wire = Command::new("nsenter").args(["-t", &here, "-n", "ip"]).args(words).status();
        assert!(wire.is_ok_and(|status| status.success()), "a wire to {name}");
        lab.sh(&format!("ip link set {port} master seg0 up"));
        let address = format!("192.0.2.{number}");
        engine.world().sh(&format!(
            "ip address add {address}/24 dev eth0; ip link set eth0 up; mkdir -p /etc/spoke
             printf '[hosts]\\ntakeover_seconds = {TAKEOVER}\\n' >/etc/spoke/config.toml"
        ));
        engine.start(&[]);
        engine.import();
        Self { name, address, serve: None, engine }
    }

    /// Starts the daemon, and waits until it answers.
    pub(super) fn start(&mut self) {
        self.serve = Some(Serve::start(self.engine.world(), &[]));
        self.until(&format!("! {SPOKE} host ls 2>&1 | grep -q 'the daemon is not running'"));
    }

    pub(super) fn kill(&mut self) {
        if let Some(serve) = self.serve.take() {
            serve.kill();
        }
    }

    pub(super) fn spoke(&self, command: &str) -> String {
        self.engine.world().sh(&format!("{SPOKE} {command}"))
    }

    /// Whether our command succeeds.
    pub(super) fn try_spoke(&self, words: &[&str]) -> Result<()> {
        let done = self.engine.world().command(SPOKE).args(words).output();
        let done = done.map_err(|cause| Error::os("running spoke", cause))?;
        match done.status.success() {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Kernel,
                format!("{words:?}: {}", String::from_utf8_lossy(&done.stderr).trim()),
            )),
        }
    }

    pub(super) fn until(&self, script: &str) {
        until(|| self.engine.world().try_sh(script).status == 0);
    }

    /// A namespace of this host, from here.
    pub(super) fn netns(&self, name: &str) -> Result<Netns> {
        self.open(&format!("/run/netns/{name}"))
    }

    pub(super) fn make_netns(&self, name: &str) -> Result<Netns> {
        self.engine.world().netns(name);
        self.netns(name)
    }

    /// The namespace of a container of the engine.
    pub(super) fn sandbox(&self, container: &str) -> Result<Netns> {
        let said = self.engine.get(&format!("/containers/{container}/json"));
        let path = said["NetworkSettings"]["SandboxKey"].as_str().unwrap_or_default().to_owned();
        self.open(path.trim_start_matches("/var"))
    }

    fn open(&self, path: &str) -> Result<Netns> {
        let path: PathBuf = self.engine.world().path(path);
        Netns::open(&path)
    }

    /// The IPv4 address of an interface in a namespace of this host.
    pub(super) fn address_in(&self, netns: &str) -> String {
        let said = self
            .engine
            .world()
            .sh(&format!("ip -n {netns} -4 -o address show scope global | awk '{{print $4}}'"));
        said.trim().split('/').next().unwrap_or_default().to_owned()
    }

    /// What the kernel has of this network's addresses on others: address and hardware address.
    pub(super) fn neighbours(&self, network: &str) -> Vec<(String, String)> {
        let pid = self.engine.world().pid().to_string();
        let words = ["-t", &pid, "-n", "ip", "-4", "neigh", "show", "dev"];
        let bridge = format!("sp-{network}");
        let said = Command::new("nsenter").args(words).args([&bridge, "nud", "permanent"]).output();
        let said = said.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
        let said = said.unwrap_or_default();
        let pairs = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some(((*words.first()?).to_owned(), (*words.get(2)?).to_owned()))
        });
        pairs.collect()
    }
}

/// Waits until it is so.
pub(super) fn until(mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < TIMEOUT, "it never comes to be so");
        std::thread::sleep(GLANCE);
    }
    begin.elapsed()
}
