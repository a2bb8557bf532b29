//! The commands over a real engine and the memory store; only the kernel is a double.

mod amended;
mod backup;
mod book;
mod called;
mod daemon;
mod described;
mod host;
mod mapped;
mod meant;
mod network;
mod neutron;
mod removed;
mod walked;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::host::dataplane::Foreign;
use ::host::engines::Networks;
use ::host::facts::{DroppingChain, Forward, HostFacts, HostLink, HostRoute};
use config::{Config, KurmaConfig, RemoteConfig, StoreConfig};
use docker::api::Container;
use doubles::BookOnly;
use doubles::Memory;
use engine::port::{Described, Driver, Host, HostDataplane, Metered, Offer, Presence, Stray};
use engine::{Engine, Request};
use linux::RuleTable;
use model::{
    Attached, Attachment, Backend, Binding, Dns, Error, Interface, InterfaceNamespace, Layer,
    LinkKind, Network, Ownership, PortMap, PortUser, Process, Publish, Result, Sandbox, Timestamp,
    Vif,
};
use tempfile::TempDir;

use super::run;
use crate::context::CommandContext;

/// 2026-11-18T12:00:00Z
const NOW: u64 = 1_795_003_200;

/// A host: its book, what its kernel would say, and a file system of its own.
struct Fixture {
    store: Memory,
    kernel: Kernel,
    facts: HostFacts,
    root: TempDir,
    /// Docker plugins, none of which is there.
    foreign: Arc<Foreign>,
    machine: Machine,
    /// The calls to systemd.
    asked: RefCell<Vec<String>>,
    /// What Docker Engines answer next.
    running: RefCell<Vec<Result<Vec<Container>>>>,
    /// The ids of the networks that Docker Engines list; none where they do not answer.
    listed: RefCell<Option<BTreeSet<String>>>,
    /// How often they were asked for these.
    engines_asked: Cell<u32>,
    /// The networks that Docker Engines list.
    docker_networks: RefCell<Vec<docker::api::Network>>,
    /// The containers of a Docker Engine, and whether they run.
    runs: Vec<(String, bool)>,
}

/// What the driver was asked to do, and what it says of containers.
#[derive(Default)]
struct Kernel {
    gone: RefCell<BTreeSet<String>>,
    strays: RefCell<Vec<(Stray, Presence)>>,
    removed: RefCell<Vec<String>>,
    /// Containers and devices that cannot be removed.
    stuck: RefCell<BTreeSet<String>>,
    /// What containers with a quota have used; none where nothing is counted.
    counted: Cell<Option<u64>>,
}

impl Kernel {
    fn remove_unless_stuck(&self, name: &str) -> Result<()> {
        match self.stuck.borrow().contains(name) {
            true => Err(Error::new(model::Kind::Kernel, format!("cannot delete {name}: busy"))),
            false => Ok(()),
        }
    }
}

/// Kurma's networks below `root`.
fn kurma_below(root: &Path) -> Config {
    let kurma =
        KurmaConfig { networks: root.join("etc/kurma/kurma.json"), ..KurmaConfig::default() };
    let (runtime, state) = (root.join("run/spoke"), root.join("var/lib/spoke"));
    Config { kurma, store: StoreConfig { runtime, state }, ..Config::default() }
}

fn no_plugins(root: &Path) -> Foreign {
    let config = Config {
        store: StoreConfig { runtime: root.join("run/spoke"), state: root.join("var/lib/spoke") },
        remote: RemoteConfig {
            sockets: vec![root.join("run/docker/plugins")],
            descriptions: Vec::new(),
            ..RemoteConfig::default()
        },
        ..Config::default()
    };
    ::host::dataplane::plugins_of(&config, linux::Life::Short).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let link = |name: &str, mtu| HostLink { name: name.to_owned(), mtu, is_bridge: false };
        let route = |dst: &str, device: &str| HostRoute {
            dst: dst.parse().unwrap(),
            device: device.to_owned(),
        };
        let facts = HostFacts {
            links: vec![link("lo", 65_536), link("eth0", 1500)],
            routes: vec![route("0.0.0.0/0", "eth0"), route("192.168.1.0/24", "eth0")],
            forward: Forward::Accepted,
            exposed: None,
            tables: Some(RuleTable::ALL.into()),
        };
        let root = TempDir::new().unwrap();
        std::fs::create_dir_all(root.path().join("sys/module")).unwrap();
        for module in ["veth", "bridge", "nf_tables"] {
            std::fs::create_dir(root.path().join("sys/module").join(module)).unwrap();
        }
        let (store, kernel) = (Memory::new(), Kernel::default());
        let fixture = Self {
            store,
            kernel,
            facts,
            foreign: Arc::new(no_plugins(root.path())),
            machine: Machine(root.path().to_owned()),
            root,
            asked: RefCell::default(),
            running: RefCell::default(),
            listed: RefCell::default(),
            engines_asked: Cell::default(),
            docker_networks: RefCell::default(),
            runs: Vec::new(),
        };
        fixture.write("proc/sys/kernel/osrelease", "6.18.0\n");
        fixture.write("proc/sys/net/ipv4/ip_forward", "1\n");
        fixture.write("proc/stat", &format!("cpu 1 2\nbtime {}\n", NOW - 86_400));
        fixture.write("spoke-binary", "the program");
        fixture
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        crate::test_file::put(self.root.path(), path, text);
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.kernel, &BookOnly, &self.machine)
    }

    /// Exit code, standard output, standard error.
    fn try_spoke(&self, line: &[&str]) -> (u8, String, String) {
        let systemctl = |arguments: &[&str]| {
            self.asked.borrow_mut().push(arguments.join(" "));
            Ok(())
        };
        let config = kurma_below(self.root.path());
        let context = CommandContext {
            engine: &|| Ok(self.engine()),
            facts: &|| Ok(self.facts.clone()),
            taken: &|_| linux::Taken::Kept,
            root: self.root.path().to_owned(),
            executable: self.path("spoke-binary"),
            runtime: self.path("run/spoke"),
            store: vec![self.path("run/spoke")],
            backend: Backend::Nftables,
            now: Timestamp(NOW),
            socket: self.path("run/docker/plugins/spoke.sock"),
            neutron: &|| Ok(None),
            listed: &|| {
                self.engines_asked.set(self.engines_asked.get() + 1);
                self.listed.borrow().clone()
            },
            docker_networks: &|| {
                self.engines_asked.set(self.engines_asked.get() + 1);
                let (there, ids) =
                    (self.docker_networks.borrow().clone(), self.listed.borrow().clone());
                Networks { there, ids }
            },
            docker_driver: Some("spoke".to_owned()),
            foreign: &|| Ok(Arc::clone(&self.foreign)),
            kurma: ::host::kurma::Host::new(&config, &|_| None),
            names_host: false,
            kuryr: Some(self.path("run/docker/plugins/kuryr.sock")),
            running: &|| self.running.take(),
            runs: &|name| self.runs.iter().find(|(it, _)| it == name).map(|(_, runs)| *runs),
            watch: &|| Err(Error::bug("nothing is followed here")),
            events: self.path("run/spoke/events"),
            serve: &|| Ok(()),
            systemctl: self.has("run/systemd/system").then_some(&systemctl),
        };
        let args = std::iter::once(&"spoke").chain(line).map(OsString::from).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(args, &context, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    /// Standard output of a command that succeeds silently otherwise.
    fn spoke(&self, line: &str) -> String {
        let (code, out, err) = self.try_spoke(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((code, err.as_str()), (0, ""), "spoke {line}");
        out
    }

    /// Exit code and standard error of a command that fails.
    fn refused(&self, line: &str) -> (u8, String) {
        let (code, _, err) = self.try_spoke(&line.split(' ').collect::<Vec<_>>());
        assert_ne!(code, 0, "spoke {line}");
        (code, err.trim_end().to_owned())
    }

    fn attach(&self, network: &str, container: &str, owner: Option<&str>) -> Attachment {
        let network = self.engine().records.network(&network.parse().unwrap()).unwrap();
        self.engine().attachments.attach(&request(&network, container, owner)).unwrap()
    }

    fn address_file(&self, network: &str, address: &str, container: &str, age: u64) {
        let path = format!("var/lib/cni/networks/{network}/{address}");
        self.write(&path, &format!("{container}\r\neth0"));
        let modified = std::time::UNIX_EPOCH + Duration::from_secs(NOW - age);
        let file = std::fs::File::options().write(true).open(self.path(&path)).unwrap();
        file.set_modified(modified).unwrap();
    }

    fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }
}

fn request(network: &Network, container: &str, owner: Option<&str>) -> Request {
    let mut wiring = network.wiring.clone();
    if owner == Some("web") {
        let port = |port: u16| port.try_into().unwrap();
        wiring.publish = Some(Publish {
            ports: vec![PortMap {
                host: Some([0, 0, 0, 0].into()),
                host_port: port(8080),
                container_port: port(80),
                protocol: model::Protocol::Tcp,
            }],
            ..Publish::new(Backend::Nftables)
        });
    }
    Request {
        owner: owner.map(|owner| owner.parse().unwrap()),
        sandbox: Some(Sandbox { path: "/run/netns/x".into(), inode: 7 }),
        wiring,
        ..doubles::request(network, container)
    }
}

impl Driver for Kernel {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        let interface = Interface {
            name: attachment.id.ifname.clone(),
            mac: Some(model::Mac::local([2, 0, 0, 0, 0, 1])),
            mtu: None,
            place: InterfaceNamespace::Sandbox,
        };
        Ok(Attached {
            interfaces: vec![interface],
            addresses: attachment.addresses.clone(),
            ..Attached::default()
        })
    }

    /// What a cloud would choose.
    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let mut link = attachment.wiring.link.clone();
        if let Some(LinkKind::Neutron(neutron)) = link.as_mut().map(|link| &mut link.kind) {
            neutron.binding = Some(Binding {
                port: "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f".parse()?,
                ownership: Ownership::Own,
                vif: Vif::Tap,
                user: PortUser::Container,
            });
        }
        let address = doubles::address("10.5.0.9/24");
        Ok(Offer { addresses: vec![address], routes: Vec::new(), dns: Dns::default(), link })
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        self.remove_unless_stuck(attachment.id.container.as_str())?;
        self.removed.borrow_mut().push(attachment.id.container.to_string());
        Ok(())
    }

    fn limit(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn meter(&self, _: &Attachment, _: Metered) -> Result<()> {
        Ok(())
    }

    fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        self.remove_unless_stuck(attachment.id.container.as_str())?;
        let quota = attachment.quota().zip(self.counted.get());
        Ok(quota.map(|(quota, used)| Metered { bytes: quota.bytes, used }))
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        match self.gone.borrow().contains(attachment.id.container.as_str()) {
            true => Presence::Gone,
            false => Presence::Alive,
        }
    }

    fn restore(&self, _: &Attachment) -> model::Result<bool> {
        Ok(false)
    }

    fn hardware_address(&self, _: &Attachment) -> Option<model::Mac> {
        None
    }

    fn up(&self, _: &Network) -> model::Result<()> {
        Ok(())
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.removed.borrow_mut().push(network.name.to_string());
        Ok(())
    }
}

impl HostDataplane for Kernel {
    fn strays(&self, _: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<(Stray, Presence)>> {
        Ok(self.strays.borrow().clone())
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        if let Stray::Link(name) = stray {
            self.remove_unless_stuck(name.as_str())?;
        }
        self.strays.borrow_mut().retain(|(other, _)| other != stray);
        Ok(())
    }
}

/// The machine, with the files of runtimes below its root.
struct Machine(PathBuf);

impl Host for Machine {
    fn described(&self) -> Vec<Described> {
        let site = (Backend::Nftables, Timestamp(NOW));
        ::host::described::described(&self.0, |_| None, site)
    }

    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }
    fn now(&self) -> Timestamp {
        Timestamp(NOW - 3 * 86_400)
    }
    fn is_running(&self, _: &Process) -> bool {
        true
    }
    fn occupied(&self) -> model::Result<Vec<engine::port::Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, _: &Process, _: Duration) -> bool {
        true
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_kind_has_its_exit_code() {
    use model::Kind;
    let codes = [
        (Kind::Invalid, 2),
        (Kind::Unsupported, 2),
        (Kind::NotFound, 3),
        (Kind::Conflict, 4),
        (Kind::Exhausted, 4),
        (Kind::TryAgain, 75),
        (Kind::Denied, 77),
        (Kind::Kernel, 1),
        (Kind::Bug, 70),
    ];
    for (kind, code) in codes {
        assert_eq!(::host::exit::exit_code(Error::new(kind, "x").kind()), code);
    }
}

#[test]
fn help_and_usage() {
    use clap::CommandFactory;
    crate::args::Cli::command().debug_assert();
    let host = Fixture::new();
    assert!(host.spoke("--help").contains("Examples:"));
    assert!(host.spoke("network create --help").contains("--subnet fd00:70::/64"));
    let (code, error) = host.refused("network create a/b");
    assert_eq!(code, 2);
    assert!(error.starts_with("spoke: invalid value 'a/b'"), "{error}");
    assert_eq!(host.refused("nonsense").0, 2);
}

#[test]
fn version_completion_and_manual() {
    let host = Fixture::new();
    assert!(host.spoke("version").starts_with("spoke 0."));
    assert!(host.spoke("version -o json").contains("\"version\": \"0."));
    assert!(host.spoke("completion bash").contains("_spoke()"));
    let manual = host.path("man");
    host.spoke(&format!("man {}", manual.display()));
    let pages = names(&manual);
    assert!(pages.contains(&"spoke.1".to_owned()), "{pages:?}");
    assert!(pages.contains(&"spoke-network-create.1".to_owned()), "{pages:?}");
    let version = format!("\"spoke {}\"", env!("CARGO_PKG_VERSION"));
    for name in &pages {
        let page = fs::read_to_string(manual.join(name)).unwrap();
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(title.contains(&version), "{name}: {title}");
        assert!(!page.contains(".SH EXTRA") && !page.contains("\nExamples:"), "{name}");
    }
    let page = fs::read_to_string(manual.join("spoke-explain.1")).unwrap();
    let (before, examples) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap();
    assert!(before.contains(".SH NOTES\n"), "{page}");
    assert!(examples.contains("\n  spoke explain web db 53/udp"), "{page}");
    let page = fs::read_to_string(manual.join("spoke.1")).unwrap();
    let (before, examples) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap();
    assert!(before.contains(".SH NOTES\nExit codes: 0 done"), "{page}");
    let is_example = |line: &str| line.starts_with("  spoke ") || [".fi", ""].contains(&line);
    assert!(examples.lines().all(is_example), "{page}");
}
