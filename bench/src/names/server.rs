//! The servers that are asked: Spoke, Podman's and one that everybody has, each on a host of its own.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};
use netlink::Netns;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde_json::json;

use super::client::{Client, serve_outside};
use crate::chain::{Attachment, Net, Runtime};
use crate::execute::{processor, program, succeed};
use crate::flow::uplink;
use crate::peers::Peers;
use crate::world::{DIR, Host, make, namespace, write};

pub(super) const OURS: &str = "spoke";
pub(super) const AARDVARK: &str = "aardvark-dns";
pub(super) const DNSMASQ: &str = "dnsmasq";
/// The server outside.
pub(super) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// The gateway of each host's network.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 98, 1, 1);
/// A container that is asked for.
const WEB: Ipv4Addr = Ipv4Addr::new(10, 98, 1, 3);
/// What does not answer after this long never does.
const TIMEOUT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(5);

/// A host with a container, and who answers it.
pub(super) struct Server {
    pub(super) label: &'static str,
    /// The network namespace of the one that asks.
    pub(super) container: PathBuf,
    /// That of its host.
    pub(super) host: PathBuf,
    pub(super) gateway: Ipv4Addr,
    pid: Pid,
}

impl Server {
    /// `spoke serve`, for a network with names.
    pub(super) fn spoke(peers: &Peers) -> Result<Self> {
        let bed = Bed::new(OURS)?;
        let config = bed.host.dir.join("config.toml");
        let quiet = "[docker]\nenabled = false\napi = []\n[dhcp]\nenabled = false\n\
                     [metrics]\nenabled = false\n[web]\nenabled = false\n[events]\npath = \"DIR/events\"\n";
        let quiet = quiet.replace("DIR", &bed.host.dir.display().to_string());
        let text = fs::read_to_string(&config).unwrap_or_default() + &quiet;
        write(&config, &text)?;
        let net = Net { host: &bed.host, name: "front", octet: 98 };
        let entry = json!({
            "type": "spoke", "bridge": net.bridge(), "names": true,
            "ipam": { "ranges": [[{ "subnet": "10.98.1.0/24" }]] },
        });
        let chain = net.list("1.0.0", &[entry]);
        let runtime = Runtime { host: &bed.host, plugins: peers.ours.as_path() };
        for (name, netns) in [("asker", bed.container.clone()), ("web", namespace("web")?)] {
            let attachment = Attachment::new(name, &netns);
            bed.host.within(|| chain.add(runtime, &attachment, 0..chain.len(), String::new()))?;
        }
        let mut command = program(peers.ours.join("spoke"));
        command.arg("serve").env("SPOKE_CONFIG", &config);
        bed.start(OURS, &mut command)
    }

    /// The server of Podman's own networks.
    pub(super) fn aardvark(peers: &Peers) -> Result<Self> {
        let bed = Bed::new(AARDVARK)?;
        bed.bridge()?;
        let dir = bed.host.dir.join("aardvark");
        make(&dir)?;
        write(&dir.join("front"), &format!("{GATEWAY}\nabc {WEB}  web,abc\n"))?;
        let mut command = program(peers.aardvark()?);
        command.arg("--config").arg(&dir).args(["--port", "53", "run"]);
        bed.host.within(|| succeed(&mut command, ""))?;
        let pid = fs::read_to_string(dir.join("aardvark.pid")).unwrap_or_default();
        let pid = pid.trim().parse().map(Pid::from_raw);
        bed.ready(AARDVARK, pid.map_err(|_| Error::bug("aardvark-dns says no process"))?)
    }

    /// A server of the distribution, as libvirt and LXC use it. It remembers nothing, as the others do.
    pub(super) fn dnsmasq() -> Result<Self> {
        let bed = Bed::new(DNSMASQ)?;
        bed.bridge()?;
        let hosts = bed.host.dir.join("hosts");
        write(&hosts, &format!("{WEB} web\n"))?;
        let mut command = program("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-hosts",
            "--user=root",
        ]);
        command.args(["--cache-size=0", "--local-ttl=0", "--bind-interfaces", "--no-resolv"]);
        command.arg("--pid-file=").arg(format!("--addn-hosts={}", hosts.display()));
        command.arg(format!("--listen-address={GATEWAY}")).arg(format!("--server={OUTSIDE}"));
        bed.start(DNSMASQ, &mut command)
    }

    /// The processor time that it has had.
    pub(super) fn processor(&self) -> Result<Duration> {
        processor(self.pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// A host, a container and a server outside.
struct Bed {
    host: Host,
    container: PathBuf,
    netns: PathBuf,
}

impl Bed {
    fn new(who: &str) -> Result<Self> {
        let host = Host::new(&format!("names-{who}"))?;
        let [container, outside] =
            ["asker", "outside"].map(|what| namespace(&format!("names-{who}-{what}")));
        let (container, outside) = (container?, outside?);
        uplink(&host, &outside)?;
        let socket = Netns::open(&outside)?.enter(|| UdpSocket::bind((OUTSIDE, 53)))?;
        let socket = socket.map_err(|error| Error::os("a server outside", error))?;
        thread::spawn(move || serve_outside(&socket));
        ask_outside()?;
        let netns = Path::new("/run/netns").join(format!("host-names-{who}"));
        Ok(Self { host, container, netns })
    }

    /// A bridge with a container, for who makes none.
    fn bridge(&self) -> Result<()> {
        self.host.run_all(
            &self.container,
            &[
                "ip link add br0 type bridge",
                "ip address add 10.98.1.1/24 dev br0",
                "ip link set br0 up",
                "ip link add one0 type veth peer name eth0 netns NAME",
                "ip link set one0 master br0 up",
                "ip -n NAME address add 10.98.1.2/24 dev eth0",
                "ip -n NAME link set eth0 up",
            ],
        )
    }

    /// Starts a server that stays in the foreground.
    fn start(self, label: &'static str, command: &mut Command) -> Result<Server> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = self.host.within(|| Ok(command.spawn()))?;
        let child: Child =
            started.map_err(|error| Error::os(format!("starting {label}"), error))?;
        self.ready(label, Pid::from_raw(child.id() as i32))
    }

    /// Waits until it answers.
    fn ready(self, label: &'static str, pid: Pid) -> Result<Server> {
        let Self { container, netns: host, .. } = self;
        let server = Server { label, container, host, gateway: GATEWAY, pid };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let asked = Client::in_netns(&server.container, GATEWAY)?;
            match asked.one_by_one(1, |_| "web".to_owned()) {
                Ok(_) => return Ok(server),
                Err(error) if Instant::now() > deadline => return Err(error.context(label)),
                Err(_) => thread::sleep(GLANCE),
            }
        }
    }
}

/// Has this world's programs ask the server outside.
fn ask_outside() -> Result<()> {
    let path = Path::new(DIR).join("resolv.conf");
    if path.exists() {
        return Ok(());
    }
    write(&path, &format!("nameserver {OUTSIDE}\n"))?;
    let none = None::<&str>;
    mount(Some(&path), "/etc/resolv.conf", none, MsFlags::MS_BIND, none)
        .map_err(|errno| Error::os("a resolv.conf of this world", errno.into()))
}
