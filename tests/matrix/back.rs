//! The columns: who makes the network.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tests::fault_proxy::FaultProxy;
use tests::neutron::Project;
use tests::neutron_lab::ApiLab;
use tests::neutron_switch::Switch;
use tests::remote_driver::{Manners, RemoteDriver};
use tests::{PluginImage, Plugins, World};

use crate::outside;

/// Where a world finds Neutron.
const PORT: u16 = 9696;

/// Who makes the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernel,
    Neutron,
    CniPlugin,
    DockerPlugin,
    Image,
}

/// What a back end has in a world.
pub(crate) struct Back {
    pub(crate) kind: Kind,
    neutron: Option<Neutron>,
    plugin: Option<RemoteDriver>,
}

struct Neutron {
    project: Project,
    switch: Switch,
    _proxy: FaultProxy,
}

/// The reference's plugins under names of their own: ours are found first by the usual ones.
const LIST: &str = r#"{"cniVersion": "1.0.0", "name": "theirs", "plugins": [
  {"type": "reference-bridge", "bridge": "theirs0", "isGateway": true,
   "ipam": {"type": "reference-host-local", "dataDir": "/run/theirs",
   "ranges": [[{"subnet": "10.44.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

/// The reference's plugin in an image of shell and jq; its database is its own as well.
const IMAGE_LIST: &str = r#"{"cniVersion": "1.0.0", "name": "imaged", "plugins": [
  {"type": "spoke-image", "image": "file:///images/cni.aci", "privileged": true,
   "plugin": {"type": "bridge", "bridge": "imaged0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.45.0.0/24"}]],
   "routes": [{"dst": "0.0.0.0/0"}]}}}]}"#;

/// The file of [`LIST`] or [`IMAGE_LIST`], for Docker's option `cni`.
pub(crate) const LIST_FILE: &str = "/etc/cni/net.d/theirs.conflist";

/// The same plugin as Kurma's configuration names it.
pub(crate) fn image_config() -> Value {
    json!({"aci": "file:///images/cni.aci", "type": "bridge", "bridge": "imaged0",
        "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.45.0.0/24",
        "routes": [{"dst": "0.0.0.0/0"}]}})
}

impl Back {
    /// Makes what a host needs for the back end, before any daemon starts there.
    #[track_caller]
    pub(crate) fn new(kind: Kind, world: &World) -> Self {
        let neutron = (kind == Kind::Neutron).then(|| Neutron::beside(world));
        let plugin = (kind == Kind::DockerPlugin).then(|| {
            RemoteDriver::start(world, "probe", Manners { translates: true, ..Manners::default() })
        });
        if kind == Kind::CniPlugin {
            let folder = world.path("/usr/lib/cni");
            fs::create_dir_all(&folder).unwrap();
            for name in ["bridge", "host-local"] {
                let from = Plugins::previous().dir().join(name);
                fs::copy(from, folder.join(format!("reference-{name}"))).unwrap();
            }
            fs::create_dir_all(world.path("/etc/cni/net.d")).unwrap();
            fs::write(world.path(LIST_FILE), LIST).unwrap();
        }
        if kind == Kind::Image {
            PluginImage::cni().write(world, "/images/cni.aci");
            fs::create_dir_all(world.path("/etc/cni/net.d")).unwrap();
            fs::write(world.path(LIST_FILE), IMAGE_LIST).unwrap();
        }
        Self { kind, neutron, plugin }
    }

    /// Makes the network `net`, as a user does.
    #[track_caller]
    pub(crate) fn create(&self, world: &World) {
        let options = match self.kind {
            Kind::Kernel => "--subnet 10.77.0.0/24".to_owned(),
            Kind::Neutron => "--driver neutron --opt network=front".to_owned(),
            Kind::CniPlugin | Kind::Image => format!("--driver cni --conflist {LIST_FILE}"),
            Kind::DockerPlugin => "--driver probe --ipam-driver probe".to_owned(),
        };
        world.sh(&format!("/opt/cni/bin/spoke network create {options} net"));
        // Packet third party's filters drop what they do not know, and a plugin may rely on a
        // host that forwards: their bridges are the operator's business.
        if matches!(self.kind, Kind::CniPlugin | Kind::DockerPlugin | Kind::Image) {
            world.sh("iptables -I FORWARD -j ACCEPT; echo 1 >/proc/sys/net/ipv4/ip_forward");
        }
    }

    /// The default gateway of its containers.
    pub(crate) fn gateway(&self) -> &'static str {
        match self.kind {
            Kind::Kernel => "10.77.0.1",
            Kind::Neutron => "10.140.0.1",
            Kind::CniPlugin => "10.44.0.1",
            Kind::DockerPlugin => "10.200.1.1",
            Kind::Image => "10.45.0.1",
        }
    }

    /// Whether its router is another host, by which other hosts reach containers by their addresses.
    pub(crate) fn is_routed(&self) -> bool {
        self.neutron.is_some()
    }

    /// Gives the network its router, where it has one.
    #[track_caller]
    pub(crate) fn route(&self, world: &World) {
        if let Some(neutron) = &self.neutron {
            outside::route(world, &neutron.switch, self.gateway());
        }
    }

    /// Takes that away.
    #[track_caller]
    pub(crate) fn unroute(&self, world: &World) {
        if let Some(neutron) = &self.neutron {
            outside::unroute(world, &neutron.switch);
        }
    }

    /// The folders of the host that a plugin in a container needs for it.
    pub(crate) fn folders(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Kernel => &[],
            Kind::Neutron => &["/run/openvswitch"],
            // The reference's are linked with the host's libraries.
            Kind::CniPlugin => &["/usr/lib/cni", "/run/theirs", "/lib64", "/lib/x86_64-linux-gnu"],
            Kind::DockerPlugin => &["/run/docker", "/etc/docker"],
            Kind::Image => &[],
        }
    }

    /// That it knows both addresses.
    #[track_caller]
    pub(crate) fn knows(&self, addresses: &[String; 2]) {
        for address in addresses {
            if let Some(neutron) = &self.neutron {
                let query = format!("fixed_ips=ip_address%3D{address}");
                let port = neutron.project.only("ports", &query);
                assert_eq!(port["status"], "ACTIVE", "{port}");
            }
            if let Some(plugin) = &self.plugin {
                let holds = plugin.holds();
                let held = format!("address {address} of");
                assert!(holds.iter().any(|line| line.starts_with(&held)), "{holds:?}");
            }
        }
    }

    /// That nothing of the containers is left, and nothing at all once the network is removed.
    #[track_caller]
    pub(crate) fn leaves_nothing(&self, world: &World) {
        let listed = world.sh("/opt/cni/bin/spoke ps -o json");
        assert_eq!(listed.trim(), "[]");
        world.sh("/opt/cni/bin/spoke network rm net");
        assert_eq!(world.sh("/opt/cni/bin/spoke gc --dry-run -o json").trim(), "[]");
        if let Some(neutron) = &self.neutron {
            assert_eq!(neutron.project.list("ports", "device_owner=compute:kuryr").len(), 0);
            assert_eq!(neutron.switch.ports(), Vec::<String>::new());
        }
        if let Some(plugin) = &self.plugin {
            plugin.is_empty();
        }
        if self.kind == Kind::CniPlugin {
            assert_eq!(world.sh("find /run/theirs -name '[0-9]*'").trim(), "");
        }
        if self.kind == Kind::Image {
            let leases = "find /run/spoke/kurma -path '*/networks/imaged/[0-9]*'";
            assert_eq!(world.sh(leases).trim(), "");
        }
    }

    /// The column's head in the README.
    pub(crate) fn column(&self) -> &'static str {
        match self.kind {
            Kind::Kernel => "kernel",
            Kind::Neutron => "Neutron",
            Kind::CniPlugin => "foreign CNI plugin",
            Kind::DockerPlugin => "foreign Docker plugin",
            Kind::Image => "plugin out of an image",
        }
    }

    /// What carried the packets.
    pub(crate) fn how(&self) -> &'static str {
        match self.kind {
            Kind::Kernel => "bridge",
            Kind::Neutron => "Open vSwitch",
            Kind::CniPlugin => "the reference's `bridge`",
            Kind::DockerPlugin => "a remote driver and IPAM",
            Kind::Image => "the reference's `bridge`, never installed",
        }
    }
}

impl Neutron {
    /// An operator's network `front` in a project of its own, and a switch.
    #[track_caller]
    fn beside(world: &World) -> Self {
        let project = ApiLab::shared().project();
        let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
        let proxy = FaultProxy::inside(&netns, PORT, ApiLab::shared().upstream(&project));
        let name = format!("ovs-{}", &project.id()[..8]);
        let config = format!(
            "[neutron]\nauth_type = \"none\"\nendpoint = \"http://127.0.0.1:{PORT}\"\n\
             host = \"{name}\"\novsdb = \"{}\"\n",
            Switch::DATABASE
        );
        fs::create_dir_all(world.path("/etc/spoke")).unwrap();
        fs::write(world.path("/etc/spoke/config.toml"), config).unwrap();
        let switch = Switch::start(world);
        project.network("front", "10.140.0.0/24");
        Self { project, switch, _proxy: proxy }
    }
}
