//! One container's interface on one network: its identity, its record, its life.

use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    AliasId, Attached, AttachmentId, ContainerId, Dns, Family, Fence, Gateway, GatewayRole,
    Handoff, HostName, IfName, InterfaceAddress, Ipam, Labels, Layer, Lease, Link, LinkKind,
    LinkLocal, NetworkName, OwnerName, PortMap, Process, Publish, Quota, Route, Runtime, Sysctl,
    Timestamp, Tuning, Via, Wiring,
};

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Where it can be opened.
    pub path: PathBuf,
    /// Its inode in the kernel's namespace file system: another namespace at the same path has
    /// another one. Zero: its runtime named the path before the namespace was there.
    pub inode: u64,
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
    /// The ports of the host that lead to it.
    pub fn published(&self) -> &[PortMap] {
        self.wiring.publish.as_ref().map_or(&[], |publish| &publish.ports)
    }

    /// As [`PortMap::lacks`], with its addresses.
    pub fn lacks(&self, map: &PortMap) -> Option<Family> {
        map.lacks(self.addresses.iter().map(|held| held.address.addr()))
    }

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

    /// What users call its network.
    pub fn network(&self) -> &NetworkName {
        self.title.as_ref().unwrap_or(&self.id.network)
    }

    /// What the container may reach by its network: its own rules, or else the network's, as they were when
    /// it came.
    pub fn fence(&self) -> Option<&Fence> {
        self.wiring.own_fence.as_ref().or(self.wiring.fence.as_ref())
    }

    /// Its quota, where its record has one.
    pub fn quota(&self) -> Option<Quota> {
        self.wiring.bandwidth.as_ref().and_then(|limits| limits.quota)
    }

    /// Whether a way out leads through its container.
    pub fn is_container_of(&self, via: &Via) -> bool {
        let Via::Container(runtime, name) = via else { return false };
        self.layer == Layer::Link
            && self.runtime == *runtime
            && self.known_as().any(|known| known == name)
    }

    /// What a way calls its container: the name that its runtime gives it, and its id; never an alias, which others
    /// choose.
    pub fn known_as(&self) -> impl Iterator<Item = &str> {
        let own = self.owner.as_ref().and_then(|owner| owner.as_str().rsplit('/').next());
        own.into_iter().chain([self.id.container.as_str()])
    }

    /// The same without its link, which a third party made.
    #[must_use]
    pub fn without_link(&self) -> Self {
        let mut rest = self.clone();
        rest.wiring.link = None;
        rest
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
