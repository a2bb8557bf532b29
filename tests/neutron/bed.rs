//! A host whose Docker makes its containers ports of a Neutron network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::fault_proxy::{Call, FaultProxy, Upstream};
use tests::neutron::{Everything, Project};
use tests::neutron_lab::{Account, ApiLab, FullLab};
use tests::neutron_switch::{Chassis, Switch};
use tests::{Engine, Output, Plugins, Release, Serve, World};

/// Where a world finds Neutron.
const PORT: u16 = 9696;

/// Longer than anything takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// What a host has besides what its Neutron knows.
const LEFT: &str = r#"
ip -o link show | while read -r _ name _; do echo "link ${name%%[@:]*}"; done
nft list ruleset | grep -c spoke || true
for top in /run/spoke /var/lib/spoke; do [ -d $top ] || continue
    find $top -type f ! -path '*/configured/*' ! -path '*/calls*/*' ! -path '*/namespaces/*' ! -name lock ! -name '.*.new' \
        ! -path '*/neutron/*' ! -path /run/spoke/events
done
"#;

/// Which Neutron a host belongs to, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenancy<'a> {
    /// In which project.
    pub(crate) project: &'a Project,
    /// What Neutron calls the host.
    pub(crate) name: &'a str,
    /// Further keys of `[neutron]`, and further tables.
    pub(crate) extra: &'a str,
    /// The lab with OVN; the API alone where there is none.
    pub(crate) ovn: Option<(&'a FullLab, &'a Account)>,
}

/// What the host's ports are plugged into.
#[derive(Debug)]
pub(crate) enum Bridge {
    /// A switch of its own.
    Own(Switch),
    /// OVN's.
    Ovn(Chassis),
}

impl Bridge {
    /// Its ports that are containers'.
    #[track_caller]
    pub(crate) fn ports(&self) -> Vec<String> {
        match self {
            Bridge::Own(switch) => switch.ports(),
            Bridge::Ovn(chassis) => chassis.ports(),
        }
    }

    /// Makes an interface a port, with what kuryr-libnetwork writes beside it.
    #[track_caller]
    pub(crate) fn plug_as_kuryr(&self, end: &str, port: &str, mac: &str, device: &str) {
        let ids = format!(
            "external_ids:iface-id={port} external_ids:attached-mac={mac} \
             external_ids:iface-status=active external_ids:vm-uuid={device} external_ids:owner=kuryr"
        );
        let ids = ids.replace(&mac.to_owned(), &mac.replace(':', "\\:"));
        let add = format!("add-port br-int {end} -- set interface {end} {ids}");
        match self {
            Bridge::Own(switch) => switch.vsctl(&add),
            Bridge::Ovn(chassis) => chassis.vsctl(&add),
        };
    }

    /// A key of a port's `external_ids`.
    #[track_caller]
    pub(crate) fn external_id(&self, port: &str, key: &str) -> String {
        let get = format!("--if-exists get interface {port} external_ids:{key}");
        let said = match self {
            Bridge::Own(switch) => switch.vsctl(&get),
            Bridge::Ovn(chassis) => chassis.vsctl(&get),
        };
        said.trim().trim_matches('"').to_owned()
    }
}

/// `spoke serve` with the plugin kuryr, a switch, and Neutron behind a proxy; without Docker.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) serve: Option<Serve>,
    pub(crate) switch: Bridge,
    pub(crate) proxy: FaultProxy,
    _keystone: Option<FaultProxy>,
    pub(crate) project: Project,
    /// What Neutron calls this host.
    pub(crate) name: String,
    before: Everything,
    left: String,
}

impl Host {
    /// Makes a host of `world`.
    #[track_caller]
    pub(crate) fn on(world: &World, place: Tenancy<'_>) -> Self {
        let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
        let Tenancy { project, name, extra, ovn } = place;
        let (proxy, keystone, access) = match ovn {
            None => {
                let proxy = FaultProxy::inside(&netns, PORT, ApiLab::shared().upstream(project));
                let endpoint = format!("endpoint = \"http://127.0.0.1:{PORT}\"");
                (proxy, None, format!("auth_type = \"none\"\n{endpoint}"))
            }
            Some((lab, account)) => {
                // The catalogue names them as they are outside.
                let relay = |address: SocketAddr| {
                    let upstream = Upstream { address, headers: Vec::new() };
                    FaultProxy::inside(&netns, address.port(), upstream)
                };
                (relay(lab.neutron()), Some(relay(lab.keystone())), access(account))
            }
        };
        let config = format!(
            "[neutron]\n{access}\nhost = \"{name}\"\novsdb = \"{}\"\n[kuryr]\nenabled = true\n\
             {extra}\n",
            Switch::DATABASE
        );
        world.sh(&format!(
            "mkdir -p /etc/spoke; cat >/etc/spoke/config.toml <<'CONF'\n{config}\nCONF"
        ));
        let switch = match ovn {
            None => Bridge::Own(Switch::start(world)),
            Some((lab, _)) => Bridge::Ovn(Chassis::join(lab, world, name)),
        };
        let serve = Some(Serve::start(world, &[]));
        let left = world.sh(LEFT);
        let before = project.everything();
        let (project, name) = (project.clone(), name.to_owned());
        Self { serve, switch, proxy, _keystone: keystone, project, name, before, left }
    }

    /// What the daemon has said.
    pub(crate) fn log(&self) -> String {
        self.serve.as_ref().map(Serve::log).unwrap_or_default()
    }

    /// Waits until Neutron has the name of every port: containers run before that.
    #[track_caller]
    pub(crate) fn named(&self, world: &World) {
        let pending = "cd /run/spoke/neutron/naming 2>/dev/null && find owed begun -type f || true";
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = world.sh(&format!("({pending}) 2>/dev/null"));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "Neutron has no names for {left}{}", self.log());
            tests::glance();
        }
    }

    /// Counts as there before what is there now.
    #[track_caller]
    pub(crate) fn start_from_here(&mut self) {
        self.before = self.project.everything();
    }

    /// What came to and went from the project since the beginning.
    #[track_caller]
    pub(crate) fn changes(&self) -> Vec<String> {
        self.project.everything().changes(&self.before)
    }

    /// That nothing is left, in Neutron and in `world`.
    #[track_caller]
    pub(crate) fn is_clean(&self, world: &World) {
        let changes = self.changes();
        let log = || self.log();
        assert!(changes.is_empty(), "in Neutron:\n{}\n{}", changes.join("\n"), log());
        assert_eq!(self.switch.ports(), Vec::<String>::new(), "{}", log());
        assert_eq!(world.sh(LEFT), self.left, "on the host; {}", log());
        let gc = world.sh(&format!("{}/spoke gc --dry-run -o json", Plugins::MOUNT));
        assert_eq!(gc.trim(), "[]", "there is nothing to mend");
    }

    /// The Neutron network of a Docker network, found by its tags as kuryr-libnetwork finds it.
    #[track_caller]
    pub(crate) fn network(&self, docker: &str) -> Value {
        self.project.only("networks", &format!("tags={}", id_tags(docker)))
    }

    /// Whether there is a network with a Docker network's tags.
    #[track_caller]
    pub(crate) fn has_network(&self, docker: &str) -> bool {
        !self.project.list("networks", &format!("tags={}", id_tags(docker))).is_empty()
    }

    /// The ports of containers on a network.
    #[track_caller]
    pub(crate) fn ports(&self, network: &Value) -> Vec<Value> {
        let id = tests::neutron::id(network);
        self.project.list("ports", &format!("network_id={id}&device_owner=compute:kuryr"))
    }
}

fn access(account: &Account) -> String {
    let Account { auth_url, name, password, .. } = account;
    format!(
        "auth_type = \"password\"\nauth_url = \"{auth_url}\"\nusername = \"{name}\"\n\
         password = \"{password}\"\nproject_name = \"{name}\"\nuser_domain_id = \"default\"\n\
         project_domain_id = \"default\"\nregion_name = \"RegionOne\""
    )
}

/// The tags of a Docker id, as a query has them.
pub(crate) fn id_tags(id: &str) -> String {
    let (lower, upper) = id.split_at(32);
    format!("kuryr.net.uuid.lh:{lower},kuryr.net.uuid.uh:{upper}")
}

/// A resource's tags.
pub(crate) fn tags(resource: &Value) -> Vec<String> {
    let tags = resource["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    tags.map(str::to_owned).collect()
}

/// A text of a resource.
#[track_caller]
pub(crate) fn text(resource: &Value, key: &str) -> String {
    resource[key].as_str().unwrap_or_else(|| panic!("no {key}: {resource}")).to_owned()
}

/// `METHOD kind`, of each call: `POST ports`.
pub(crate) fn verbs(calls: &[Call]) -> Vec<String> {
    let kind = |call: &Call| {
        let mut parts = call.path().trim_start_matches("/v2.0/").split('/');
        let kind = parts.next().unwrap_or_default().to_owned();
        match parts.nth(1) {
            Some(part) => format!("{kind} {part}"),
            None => kind,
        }
    };
    calls.iter().map(|call| format!("{} {}", call.method, kind(call))).collect()
}

/// A name that Neutron here binds ports of Open vSwitch for, and that is this project's alone.
pub(crate) fn host_name(project: &Project) -> String {
    format!("ovs-{}", &project.id()[..8])
}

/// A [`Host`] with a real Docker Engine.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) engine: Engine,
    pub(crate) host: Host,
}

impl Bed {
    /// An engine on a project of its own; none where that engine cannot be had.
    #[track_caller]
    pub(crate) fn new(release: Release) -> Option<Self> {
        let project = ApiLab::shared().project();
        let name = host_name(&project);
        Self::of(release, Tenancy { project: &project, name: &name, extra: "", ovn: None })
    }

    /// An engine there; none where that engine cannot be had.
    #[track_caller]
    pub(crate) fn of(release: Release, place: Tenancy<'_>) -> Option<Self> {
        if !release.is_there() {
            return None;
        }
        let mut engine = Engine::prepared(release, &Plugins::subject());
        let mut host = Host::on(engine.world(), place);
        engine.start(&[]);
        engine.import();
        host.left = engine.world().sh(LEFT);
        Some(Self { engine, host })
    }

    pub(crate) fn world(&self) -> &World {
        self.engine.world()
    }

    /// What `docker ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn docker(&self, arguments: &str) -> String {
        self.engine.docker(arguments).trim().to_owned()
    }

    /// What `spoke ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn spoke(&self, arguments: &str) -> String {
        self.world().sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// That `docker ARGUMENTS` fails, and says all of `words`.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &str, words: &[&str]) {
        let Output { status, stdout, stderr } = self.engine.try_docker(arguments);
        assert_ne!(status, 0, "docker {arguments}\n{stdout}{stderr}");
        let missing: Vec<_> = words.iter().filter(|word| !stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "docker {arguments}\n{stderr}\ndoes not say {missing:?}");
    }

    /// A network of both drivers, with `options`, the last of which is its name; its id.
    #[track_caller]
    pub(crate) fn network(&self, options: &str) -> String {
        self.docker(&format!("network create -d kuryr --ipam-driver kuryr {options}"))
    }

    /// A container that sleeps: `docker run` with `options`.
    #[track_caller]
    pub(crate) fn run(&self, options: &str) {
        self.docker(&format!("run -d {options} busybox /bin/sleep 3600"));
    }

    /// Kills and removes containers, one after another.
    #[track_caller]
    pub(crate) fn remove(&self, names: &str) {
        self.engine.remove_each(names);
    }

    /// A text in what the engine says of a container's end on a network.
    #[track_caller]
    pub(crate) fn end(&self, name: &str, network: &str, key: &str) -> String {
        text(&self.engine.endpoint(name, network), key)
    }

    /// Waits until Neutron has the name of every port.
    #[track_caller]
    pub(crate) fn named(&self) {
        self.host.named(self.world());
    }

    /// The port of a container's end on a network: that of the network's with its address.
    #[track_caller]
    pub(crate) fn port(&self, name: &str, network: &str) -> Value {
        let address = self.end(name, network, "IPAddress");
        self.host.project.only("ports", &format!("fixed_ips=ip_address%3D{address}"))
    }

    /// What a shell script in a container prints.
    #[track_caller]
    pub(crate) fn inside(&self, name: &str, script: &str) -> String {
        let done = self.engine.exec(name, &["sh", "-euc", script]);
        assert_eq!(done.status, 0, "{name}: {script}\n{}{}", done.stdout, done.stderr);
        done.stdout.trim().to_owned()
    }

    /// That nothing is left but what was there before the first network.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        self.host.is_clean(self.world());
    }
}
