//! One container's interface on one network: its identity, its record, its life.

use std::fmt;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    AddressSpace, AliasId, Attached, Bandwidth, ContainerId, Dns, Family, Fence, Firewall, Gateway,
    GatewayRole, HostName, IfName, InterfaceAddress, Ipam, Labels, Lease, Link, LinkKind,
    LinkLocal, Masquerade, NetworkName, OwnerName, Passage, Publish, Route, SourceRouting, Space,
    Sysctl, Tuning, Via, Vrf,
};

/// Seconds since the Unix epoch, for showing only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

/// The identity of an attachment. The names of everything that it has in the kernel derive from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttachmentId {
    /// The network.
    pub network: NetworkName,
    /// The container.
    pub container: ContainerId,
    /// The interface in the container.
    pub ifname: IfName,
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} ({}) on network {}", self.container, self.ifname, self.network)
    }
}

/// Which part of an attachment a record describes. A chain of plugins has one record each, so
/// that each can be added and removed by its own process; type `spoke` has one for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The interface, with everything that was asked for together with it.
    Link,
    /// Only addresses, where a third-party plugin makes the link.
    Address,
    /// Only published ports.
    Publish,
    /// Only packet filtering.
    Firewall,
    /// Only tuning.
    Tuning,
    /// Only limits of bandwidth.
    Bandwidth,
    /// Only membership in a VRF.
    Vrf,
    /// Only routing by source.
    SourceRouting,
}

impl Layer {
    /// Every layer, in the order in which they are undone: the others refer to the link.
    pub const ALL: [Layer; 8] = [
        Layer::SourceRouting,
        Layer::Vrf,
        Layer::Bandwidth,
        Layer::Tuning,
        Layer::Firewall,
        Layer::Publish,
        Layer::Link,
        Layer::Address,
    ];

    /// A name of at most eight bytes, unique among layers.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Link => "link",
            Layer::Address => "address",
            Layer::Publish => "publish",
            Layer::Firewall => "firewall",
            Layer::Tuning => "tuning",
            Layer::Bandwidth => "rate",
            Layer::Vrf => "vrf",
            Layer::SourceRouting => "sbr",
        }
    }
}

/// What the dataplane makes for an attachment. Each part that is present is made on attach and
/// undone on detach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiring {
    /// The interface.
    pub link: Option<Link>,
    /// Source address translation of what it sends.
    pub masquerade: Option<Masquerade>,
    /// Its published ports.
    pub publish: Option<Publish>,
    /// Filtering of what it receives.
    pub firewall: Option<Firewall>,
    /// Tuning of its interface.
    pub tuning: Option<Tuning>,
    /// Limits of what it sends and receives.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// A routing table of its own.
    #[serde(default)]
    pub vrf: Option<Vrf>,
    /// Routing by its addresses.
    #[serde(default)]
    pub source_routing: Option<SourceRouting>,
    /// Whether Spoke answers queries for names at the network's gateways.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
    /// Where its packets may go, by name and by address. What holds is what the network's record says: an
    /// attachment's is that of its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// The same of this container alone, instead of its network's. Networks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_fence: Option<Fence>,
    /// By what its packets leave this host, and by nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// The tenant's address space of its network, which this host does not route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
}

impl Wiring {
    /// Whether a third-party Docker plugin makes the link.
    pub fn is_remote(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.kind, LinkKind::Remote(_)))
    }

    /// Which clients reach it by a route. It has no effect where everything of it is reached in
    /// that way ([`crate::LinkKind::is_direct`]).
    pub fn passage(&self) -> &Passage {
        let is_direct = |family: Family| self.is_direct(family);
        match &self.firewall {
            Some(firewall) if ![Family::V4, Family::V6].into_iter().all(is_direct) => {
                &firewall.passage
            }
            Some(_) | None => &Passage::Unjudged,
        }
    }

    /// Whether others may reach all of it by routes, by packets of this family
    /// ([`crate::LinkKind::is_direct`]).
    pub fn is_direct(&self, family: Family) -> bool {
        self.link.as_ref().is_some_and(|link| link.kind.is_direct(family))
    }

    /// The families in which the host's own filter must let pass what comes by a route: all of it is
    /// reached, or [`Passage`] judges which ports are.
    pub fn let_by_route(&self) -> Vec<Family> {
        let passage = self.passage();
        let is_let = |it: &Family| self.is_direct(*it) || passage.is_everybodys(*it);
        [Family::V4, Family::V6].into_iter().filter(is_let).collect()
    }

    /// The address space in which addresses must be unique that Spoke does not choose. This host
    /// does not route a tenant's network or a cloud's, and another network may have the same subnet. The same
    /// holds for a remote driver: Spoke does not know where its packets go, and libnetwork lets two
    /// such networks have one subnet. A link of the kernel is routed by this host, whatever chose
    /// the address.
    pub fn space(&self, network: &NetworkName) -> Space {
        match self.link.as_ref().map(|link| &link.kind) {
            _ if self.address_space.is_some() => Space::of_networks(self.address_space.as_ref()),
            Some(LinkKind::Neutron(_) | LinkKind::Remote(_)) => Space::Network(network.clone()),
            _ => Space::Host,
        }
    }

    /// Whether the maker of the link chooses the addresses too, and returns them when the link is
    /// made.
    pub fn chooses_addresses(&self) -> bool {
        matches!(
            self.link.as_ref().map(|link| &link.kind),
            Some(LinkKind::Chain(_) | LinkKind::Neutron(_) | LinkKind::Remote(_))
        )
    }
}

/// Which side completes an interface inside its sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handoff {
    /// We do: it is made in the sandbox, with its name, addresses and routes.
    #[default]
    Finish,
    /// The runtime does: it is made in the host's namespace, and the runtime moves, names and
    /// addresses it.
    Caller,
}

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Where it can be opened.
    pub path: PathBuf,
    /// Its inode in the kernel's namespace file system: another namespace at the same path has
    /// another one. Zero: its runtime named the path before the namespace was there.
    pub inode: u64,
}

/// Which front end an attachment came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A CNI runtime that does not give its name.
    Cni,
    /// Podman.
    Podman,
    /// The reference plugins, before us.
    Reference,
    /// Our command line.
    Spoke,
    /// Docker Engine.
    Docker,
    /// Kurma's networking pod.
    Kurma,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runtime::Cni => "cni",
            Runtime::Podman => "podman",
            Runtime::Reference => "reference",
            Runtime::Spoke => "spoke",
            Runtime::Docker => "docker",
            Runtime::Kurma => "kurma",
        })
    }
}

/// A process of this boot. The start time distinguishes it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id. Bit 31 says that another PID namespace counts it; bits 22 to 30 are then that one's last bits.
    pub pid: u32,
    /// Clock ticks from boot to its start (`/proc/PID/stat`, field 22).
    pub start: u64,
}

impl Process {
    /// No process, as if of one that has ended: none has this id.
    pub const NONE: Self = Self { pid: 0, start: 0 };
}

/// The phase of an attachment. The record exists before its first side effect and until after the
/// last one is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Known, with its addresses, and not in a container yet (libnetwork: created, not joined).
    Reserved,
    /// This process makes it. After that process's death any other one may take it over.
    Attaching {
        /// The process at work.
        by: Process,
    },
    /// Complete.
    Attached(Attached),
    /// This process removes it. After that process's death any other one may continue.
    Detaching {
        /// The process at work.
        by: Process,
        /// The one that was still attaching when the end was announced: nothing may be undone
        /// before it has ended.
        attacher: Option<Process>,
    },
}

/// The record of one layer of an attachment. Detaching needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its identity.
    pub id: AttachmentId,
    /// As [`crate::Network::title`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<NetworkName>,
    /// Which part of it this is.
    pub layer: Layer,
    /// The runtime that asked for it.
    pub runtime: Runtime,
    /// The container's lasting name, where the runtime gives one.
    pub owner: Option<OwnerName>,
    /// When the attachment began.
    pub since: Timestamp,
    /// The container's namespace.
    pub sandbox: Option<Sandbox>,
    /// Which side completes its interface.
    #[serde(default)]
    pub handoff: Handoff,
    /// Which of the network's ids it was made under, where its runtime has ids.
    #[serde(default)]
    pub alias: Option<AliasId>,
    /// The options of its reservation, where a join has put others into the wiring.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "wish")]
    pub spec: Option<Spec>,
    /// The call that made it, where that call named other networks than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The process that completed it, where that process reports to the caller. Until the store
    /// knows of the report, another call may complete it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teller: Option<Process>,
    /// Its role for the default route of a sandbox, where Spoke decides on that route among all
    /// interfaces of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "lead")]
    pub gateway_role: Option<GatewayRole>,
    /// Its names on its network, besides the container's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<HostName>,
    /// Link-local addresses of its interface, besides `addresses`. They are not leased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link_local: Vec<LinkLocal>,
    /// Its user's labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Whether its user created it apart from a sandbox, or let it leave one (libnetwork's
    /// Endpoint). Then only the user removes it, and a durable record exists too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// What the dataplane makes for it.
    pub wiring: Wiring,
    /// The source of its addresses.
    pub ipam: Ipam,
    /// The addresses that the store holds for it.
    pub leases: Vec<Lease>,
    /// The addresses of its interface, from any source.
    pub addresses: Vec<InterfaceAddress>,
    /// The routes in its namespace.
    pub routes: Vec<Route>,
    /// The resolver configuration of its container.
    pub dns: Dns,
    /// Its phase.
    pub phase: Phase,
}

impl Attachment {
    /// Whether a third-party Docker plugin maps the published ports: it does where it named a
    /// default route, as in libnetwork.
    pub fn is_published_by_plugin(&self) -> bool {
        match &self.phase {
            Phase::Attached(attached) if self.wiring.is_remote() => {
                attached.routes.iter().any(Route::is_default)
            }
            _ => false,
        }
    }

    /// The container's name for the user: its lasting name, or else the id that its runtime gave
    /// it.
    pub fn container_name(&self) -> String {
        match &self.owner {
            Some(owner) => owner.to_string(),
            None => self.id.container.to_string(),
        }
    }

    /// A record that says whose it is and nothing else: no wiring, no addresses, no container yet.
    pub fn new(
        id: AttachmentId,
        layer: Layer,
        runtime: Runtime,
        since: Timestamp,
        phase: Phase,
    ) -> Self {
        Self {
            id,
            title: None,
            layer,
            runtime,
            owner: None,
            since,
            sandbox: None,
            handoff: Handoff::default(),
            alias: None,
            spec: None,
            origin: None,
            teller: None,
            gateway_role: None,
            names: Vec::new(),
            link_local: Vec::new(),
            labels: Labels::default(),
            kept: false,
            wiring: Wiring::default(),
            ipam: Ipam::None,
            leases: Vec::new(),
            addresses: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
            phase,
        }
    }

    /// The first of its addresses of the family: the destination of published ports.
    pub fn first(&self, family: Family) -> Option<IpNet> {
        self.addresses.iter().map(|held| held.address).find(|net| Family::of(net) == family)
    }

    /// Makes it one of those that a call makes: it has no default route that another one has.
    pub fn be_of(&mut self, origin: &Origin) {
        self.origin = Some(origin.clone());
        self.drop_routed();
        let Some(Link { kind: LinkKind::Bridge(bridge), .. }) = &mut self.wiring.link else {
            return;
        };
        if origin.routed.is_empty() || bridge.gateway != Gateway::Default {
            return;
        }
        bridge.gateway = Gateway::Address;
        for family in self.ipam.families() {
            let route = Route::new(family.everything(), None);
            if !origin.has_default(&route) && !self.routes.contains(&route) {
                self.routes.push(route);
            }
        }
    }

    /// Drops default routes of families whose default route another interface of its call has.
    pub fn drop_routed(&mut self) {
        if let Some(origin) = &self.origin {
            self.routes.retain(|route| !origin.has_default(route));
        }
    }

    /// The options of its reservation.
    pub fn spec(&self) -> Spec {
        self.spec.clone().unwrap_or_else(|| Spec {
            name: self.wiring.link.as_ref().and_then(|link| link.name.clone()),
            sysctls: self.wiring.tuning.as_ref().map(|t| t.sysctls.clone()).unwrap_or_default(),
            publish: self.wiring.publish.clone(),
        })
    }

    /// Restores what its reservation asked for.
    pub fn undecide(&mut self) {
        let Some(spec) = self.spec.take() else { return };
        self.decide(spec.name, spec.sysctls);
        self.wiring.publish = spec.publish;
    }

    /// The name of its sandbox. The sandbox of several endpoints has the name that the joining call
    /// gave.
    pub fn sandbox_name(&self) -> &ContainerId {
        let given =
            self.gateway_role.as_ref().and_then(|gateway_role| gateway_role.sandbox.as_ref());
        given.unwrap_or(&self.id.container)
    }

    /// Puts into the wiring what a join decided.
    pub fn decide(&mut self, name: Option<IfName>, sysctls: Vec<Sysctl>) {
        if let Some(link) = &mut self.wiring.link {
            link.name = name;
        }
        let mut tuning = self.wiring.tuning.take().unwrap_or_default();
        tuning.sysctls = sysctls;
        self.wiring.tuning = Some(tuning).filter(|tuning| *tuning != Tuning::default());
    }
}

/// A call that joined a network of another name than its own, or several at once: what it made is
/// found by this when the call is undone, whatever it says by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of the configuration.
    pub config: NetworkName,
    /// The interface that the runtime named: the first of those that the call made.
    pub ifname: IfName,
    /// The families whose default route another interface of the same call has.
    #[serde(default)]
    pub routed: Vec<Family>,
}

impl Origin {
    /// Whether both are of the same call.
    pub fn is_same_call(&self, other: &Origin) -> bool {
        (&self.config, &self.ifname) == (&other.config, &other.ifname)
    }

    /// Whether another interface has what `route` would be.
    pub fn has_default(&self, route: &Route) -> bool {
        route.is_default() && self.routed.contains(&Family::of(&route.dst))
    }
}

/// The options that a reservation asks for and a join decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The name of the interface in the sandbox. Without one, any name.
    pub name: Option<IfName>,
    /// Kernel parameters to set there, before the interface's name is known.
    pub sysctls: Vec<Sysctl>,
    /// Its own ports; while it is joined its wiring has those of its whole sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
}
