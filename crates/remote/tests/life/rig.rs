//! What the engine does with the back end, in its order.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libnetwork::parameters::NetworkParameters;
use model::{
    Attachment, AttachmentId, Backend, Family, GatewayRole, Ipam, Layer, Lease, Link, LinkKind,
    Network, Phase, PortMap, Protocol, Publish, RemoteIpam, RemoteLink, RemotePool, Result,
    Runtime, Sandbox, Space, Timestamp, Wiring, host_net,
};
use remote::{DeadEnd, Joined, Remote, Settings, Urgency};
use tempfile::TempDir;

use crate::model::Plugin;

pub(crate) struct Rig {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) remote: Remote,
    pub(crate) directory: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        // Nothing of it has to outlive the test; syncing would take most of the time.
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => TempDir::new_in(memory).unwrap(),
            false => TempDir::new().unwrap(),
        };
        let plugin = Plugin::new();
        let remote = open(&plugin, directory.path(), "boot-1");
        Self { plugin, remote, directory }
    }

    /// Another process.
    pub(crate) fn restart(&mut self, boot: &str) {
        self.remote = open(&self.plugin, self.directory.path(), boot);
    }

    /// As the engine makes a network.
    pub(crate) fn make(&self, network: &mut Network) -> Result<()> {
        let made = self.remote.request(network, &|| Ok(Vec::new())).and_then(|ipam| {
            network.ipam = ipam;
            self.remote.create(network)
        });
        made.inspect_err(|_| self.unmake(network))
    }

    /// As it gives one up that is half made.
    pub(crate) fn unmake(&self, network: &Network) {
        self.remote.remove(network).unwrap();
        self.remote.remove_pools(network).unwrap();
    }

    /// As it deletes one.
    pub(crate) fn delete(&self, network: &Network) {
        self.remote.remove_pools(network).unwrap();
        self.remote.remove(network).unwrap();
    }

    /// As it attaches.
    pub(crate) fn attach(&self, attachment: &mut Attachment) -> Result<Joined> {
        let joined = self.try_attach(attachment);
        joined.inspect_err(|_| self.detach(attachment))
    }

    pub(crate) fn try_attach(&self, attachment: &mut Attachment) -> Result<Joined> {
        if attachment.ipam.remote().is_some() {
            accept(attachment, self.remote.lease(attachment)?);
        }
        accept(attachment, self.remote.offer(attachment)?);
        let joined = self.remote.join(attachment)?;
        self.remote.program_gateway(attachment, &joined.gateways)?;
        Ok(joined)
    }

    /// As it detaches.
    pub(crate) fn detach(&self, attachment: &Attachment) {
        self.remote.leave(attachment).unwrap();
        self.remote.made(attachment).unwrap();
        self.remote.end(attachment).unwrap();
        self.remote.release(attachment).unwrap();
    }

    /// Until nothing more can be done.
    pub(crate) fn retry(&self) {
        for _ in 0..20 {
            let left = self.remote.retry(Urgency::Now).unwrap().remaining;
            if left.iter().all(|cleanup| cleanup.dead_end == Some(DeadEnd::Lost)) {
                return;
            }
        }
        panic!("{:?}", self.remote.pending().unwrap());
    }

    /// Neither the plugin nor the ledger holds anything.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        self.plugin.is_empty();
        assert_eq!(self.remote.pending().unwrap(), []);
        assert_eq!(self.pages(), Vec::<String>::new());
    }

    /// The names of all files in the ledger.
    pub(crate) fn pages(&self) -> Vec<String> {
        let mut found = Vec::new();
        for part in ["held", "owed", "odd"] {
            let Ok(entries) = self.directory.path().join("ledger").join(part).read_dir() else {
                continue;
            };
            found.extend(
                entries.map(|e| format!("{part}/{}", e.unwrap().file_name().to_string_lossy())),
            );
        }
        found.sort();
        found
    }
}

pub(crate) fn open(plugin: &Arc<Plugin>, directory: &Path, boot: &str) -> Remote {
    let settings = Settings {
        timeout: Duration::from_secs(20),
        undo_log: directory.join("ledger"),
        sandboxes: directory.join("netns"),
        boot: boot.to_owned(),
        now: || Timestamp(1_000),
    };
    Remote::over(plugin.clone(), settings)
}

fn accept(attachment: &mut Attachment, offer: engine::port::Offer) {
    attachment.leases = offer
        .addresses
        .iter()
        .map(|held| Lease {
            space: Space::Network(attachment.id.network.clone()),
            pool: None,
            address: held.address,
            gateway: held.gateway,
        })
        .collect();
    attachment.addresses = offer.addresses;
    attachment.wiring.link = offer.link.or(attachment.wiring.link.take());
}

pub(crate) fn said() -> NetworkParameters {
    NetworkParameters {
        options: BTreeMap::from([("o1".into(), "v1".into())]),
        ..NetworkParameters::default()
    }
}

/// A network of the plugin, with these pools.
pub(crate) fn network(name: &str, pools: Vec<RemotePool>) -> Network {
    let is_v6 = pools.iter().any(|pool| pool.family == Family::V6);
    let said = NetworkParameters { ipv6: is_v6, ..said() };
    let ipam = Ipam::Remote(RemoteIpam {
        driver: "plug".parse().unwrap(),
        space: None,
        options: BTreeMap::from([("io".into(), "1".into())]),
        pools,
    });
    bare(name, &said, ipam)
}

pub(crate) fn bare(name: &str, said: &NetworkParameters, ipam: Ipam) -> Network {
    let link = RemoteLink {
        driver: "plug".parse().unwrap(),
        id: format!("id-of-{name}").parse().unwrap(),
        network: said.to_text().unwrap(),
        endpoint: String::new(),
    };
    let kind = LinkKind::Remote(Box::new(link));
    let wiring =
        Wiring { link: Some(Link { kind, name: None, mac: None, mtu: None }), ..Wiring::default() };
    Network::new(name.parse().unwrap(), Runtime::Spoke, Timestamp(1), wiring, ipam)
}

pub(crate) fn pool(net: &str) -> RemotePool {
    let net: model::IpNet = net.parse().unwrap();
    RemotePool { net: Some(net), ..RemotePool::any(Family::of(&net)) }
}

/// A container on a network.
pub(crate) fn container(network: &Network, name: &str) -> Attachment {
    let id = AttachmentId {
        network: network.name.clone(),
        container: name.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    let by = model::Process { pid: 1, start: 1 };
    let phase = Phase::Attaching { by };
    let mut attachment = Attachment::new(id, Layer::Link, Runtime::Spoke, Timestamp(1), phase);
    attachment.wiring = network.wiring.clone();
    attachment.ipam = network.ipam.clone();
    attachment.sandbox = Some(Sandbox { path: format!("/run/netns/{name}").into(), inode: 7 });
    attachment
}

pub(crate) fn wanting(mut attachment: Attachment, address: &str) -> Attachment {
    let address: IpAddr = address.parse().unwrap();
    attachment.leases.push(Lease {
        space: Space::Host,
        pool: None,
        address: host_net(address),
        gateway: None,
    });
    attachment
}

pub(crate) fn publishing(mut attachment: Attachment, host: u16, port: u16) -> Attachment {
    let mut publish = Publish::new(Backend::Nftables);
    publish.ports.push(PortMap {
        host: None,
        host_port: host.try_into().unwrap(),
        container_port: port.try_into().unwrap(),
        protocol: Protocol::Tcp,
    });
    attachment.wiring.publish = Some(publish);
    attachment
}

pub(crate) fn led(mut attachment: Attachment) -> Attachment {
    attachment.gateway_role = Some(GatewayRole::default());
    attachment
}
