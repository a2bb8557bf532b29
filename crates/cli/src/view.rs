//! The output of JSON, YAML and templates. These shapes are a promise to scripts: fields are added,
//! never renamed, and absent values are null.

mod lan;
mod layers;
mod limits;
mod neutron;
pub(crate) mod port;
pub(crate) mod remote;
pub(crate) mod rules;

use std::collections::BTreeMap;

use host::dataplane::segment_of;
use host::time::rfc3339;
use model::{
    Alias, Attachment, AttachmentId, ContainerId, EgressPolicy, Family, IfName, IngressPolicy,
    InterfaceNamespace, Layer, LinkKind, Network, Phase, Reach, Timestamp, Wiring,
};
use serde::Serialize;

use crate::args::RowFilter;
use crate::claims;
use crate::mapped::Mapped;
use crate::titles::Titles;
use port::{PortView, ports};
pub(crate) use remote::READY;

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NetworkView {
    pub(crate) name: String,
    /// What its runtime calls it, where it has a name of its own for it.
    pub(crate) title: Option<String>,
    /// Or the name of the Docker plugin, behind `plugin:` where a driver of Spoke's is called so.
    pub(crate) driver: String,
    pub(crate) runtime: String,
    pub(crate) created: String,
    pub(crate) bridge: Option<String>,
    /// The device on whose segment its containers are: `default` is that of the default route.
    pub(crate) parent: Option<String>,
    /// The parent's VLAN, or its own.
    pub(crate) vlan: Option<u16>,
    /// How it shares its parent.
    pub(crate) mode: Option<&'static str>,
    /// Whether this host and its containers reach each other on the parent's segment.
    pub(crate) host_access: bool,
    /// Whether addresses are asked for on the segment before they are used.
    pub(crate) probe: bool,
    pub(crate) mtu: Option<u32>,
    /// Its part in Neutron.
    pub(crate) neutron: Option<neutron::NeutronView>,
    /// What of Open vSwitch it is.
    pub(crate) ovs: Option<model::Ovs>,
    /// Whether containers can be attached: `ready`, or why not.
    pub(crate) state: &'static str,
    /// Its part in a third-party Docker plugin.
    pub(crate) remote: Option<remote::RemoteView>,
    /// Whether others reach containers by routes though this host forwards because of Spoke.
    pub(crate) direct: bool,
    /// The interfaces from which others reach published ports at the containers' own addresses.
    pub(crate) trusted_interfaces: Vec<String>,
    pub(crate) masquerade: bool,
    /// The host's addresses that packets leave with, where the network names them.
    pub(crate) host_ipv4: Option<String>,
    pub(crate) host_ipv6: Option<String>,
    /// The only way by which packets leave this host, where the network has one.
    pub(crate) via: Option<crate::via::ViaView>,
    pub(crate) ingress: Option<&'static str>,
    /// Whether nothing is forwarded between it and anything else.
    pub(crate) internal: bool,
    /// Where its containers may go, where it has egress rules; nowhere where that is empty.
    pub(crate) egress: Option<Vec<String>>,
    /// Whether Spoke answers queries for names at its gateways.
    pub(crate) has_names: bool,
    /// From where published ports are reached: `any`, `lan` or `local`.
    pub(crate) publish: &'static str,
    /// The runtimes' names of it.
    pub(crate) aliases: Vec<AliasView>,
    /// Its user's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// The tenant's address space; nothing where it is the host's or its own.
    pub(crate) address_space: Option<String>,
    pub(crate) sticky: bool,
    /// Or the name of the Docker IPAM plugin.
    pub(crate) ipam: String,
    pub(crate) subnets: Vec<SubnetView>,
    /// The containers whose default gateway is on it, among those whose default gateway Spoke
    /// chooses.
    pub(crate) default_gateway: Vec<remote::LedView>,
    /// Other names of containers on it.
    pub(crate) names: Vec<NamedView>,
    pub(crate) attached: usize,
    pub(crate) containers: Vec<String>,
}

/// A range of a network's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SubnetView {
    pub(crate) subnet: String,
    pub(crate) gateway: Option<String>,
    pub(crate) first: String,
    pub(crate) last: String,
}

/// A runtime's name of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AliasView {
    pub(crate) runtime: String,
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

/// From where published ports are reached.
pub(crate) fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Any => "any",
        Reach::Lan => "lan",
        Reach::Local => "local",
    }
}

fn source(wiring: &Wiring, family: Family) -> Option<String> {
    wiring.masquerade.as_ref()?.sources.of(family).map(|address| address.to_string())
}

fn aliases(aliases: &[Alias]) -> Vec<AliasView> {
    let view = |alias: &Alias| AliasView {
        runtime: alias.runtime.to_string(),
        id: alias.id.to_string(),
        name: alias.title.as_ref().map(ToString::to_string),
    };
    aliases.iter().map(view).collect()
}

/// Those of a list that are of one; it is in the order of what they are of.
pub(crate) fn of_one<'a, T, K: Ord>(all: &'a [T], one: &K, of: impl Fn(&T) -> &K) -> &'a [T] {
    let from = all.partition_point(|it| of(it) < one);
    let rest = all.get(from..).unwrap_or_default();
    let count = rest.partition_point(|it| of(it) == one);
    rest.get(..count).unwrap_or_default()
}

impl NetworkView {
    /// Of a network, with those of `attachments` that are on it, and of `aliases` that mean it; both in
    /// the order of their networks' names.
    pub(crate) fn of(network: &Network, attachments: &[Attachment], aliases: &[Alias]) -> Self {
        let via = crate::via::ViaView::of(network, attachments);
        let attachments = of_one(attachments, &network.name, |attachment| &attachment.id.network);
        let mut on_it: Vec<&AttachmentId> =
            attachments.iter().map(|attachment| &attachment.id).collect();
        on_it.dedup();
        let wiring = &network.wiring;
        let lan = lan::Lan::of(wiring.link.as_ref().map(|link| &link.kind));
        let ovs = segment_of(wiring.link.as_ref()).cloned();
        let aliases = of_one(aliases, &network.name, |alias| &alias.network);
        Self {
            name: network.called().to_string(),
            title: Titles::of(std::slice::from_ref(network))
                .with(aliases)
                .title(network.name.as_str(), None),
            driver: match &wiring.link {
                Some(link) => driver(&link.kind),
                None => "none".to_owned(),
            },
            runtime: network.runtime.to_string(),
            created: rfc3339(network.since),
            bridge: claims::device(network).or(ovs.as_ref().map(|ovs| ovs.bridge.to_string())),
            parent: lan.parent,
            vlan: lan.vlan,
            mode: lan.mode,
            host_access: lan.host_access,
            probe: lan.probe,
            neutron: neutron::NeutronView::of(network),
            ovs,
            state: remote::state(network),
            remote: remote::RemoteView::of(network),
            mtu: wiring.link.as_ref().and_then(|link| link.mtu).map(model::Mtu::bytes),
            direct: [Family::V4, Family::V6].into_iter().any(|family| wiring.is_direct(family)),
            trusted_interfaces: wiring
                .passage()
                .trusted()
                .iter()
                .map(ToString::to_string)
                .collect(),
            masquerade: wiring.masquerade.is_some(),
            host_ipv4: source(wiring, Family::V4),
            host_ipv6: source(wiring, Family::V6),
            via,
            ingress: wiring.firewall.as_ref().map(|firewall| ingress(firewall.ingress)),
            internal: wiring
                .firewall
                .as_ref()
                .is_some_and(|firewall| firewall.egress == EgressPolicy::Internal),
            egress: wiring.fence.as_ref().map(rules::texts),
            has_names: wiring.has_names(),
            publish: reach(
                wiring.publish.as_ref().map(|publish| publish.reach).unwrap_or_default(),
            ),
            aliases: self::aliases(aliases),
            labels: network.labels.pairs().clone(),
            address_space: wiring.address_space.as_ref().map(ToString::to_string),
            sticky: network.sticky,
            ipam: ipam(network),
            subnets: subnets(network),
            default_gateway: remote::LedView::of(attachments),
            names: named_on(network, attachments),
            attached: on_it.len(),
            containers: on_it.iter().map(|id| id.container.to_string()).collect(),
        }
    }
}

/// Other names of a container on a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NamedView {
    pub(crate) container: String,
    pub(crate) names: Vec<String>,
}

fn named_on(network: &Network, attachments: &[Attachment]) -> Vec<NamedView> {
    let on_it = attachments.iter().filter(|attachment| attachment.id.network == network.name);
    let named = on_it.filter(|it| it.layer == Layer::Link && !it.names.is_empty());
    let view = |it: &Attachment| NamedView {
        container: it.id.container.to_string(),
        names: it.names.iter().map(ToString::to_string).collect(),
    };
    named.map(view).collect()
}

fn subnets(network: &Network) -> Vec<SubnetView> {
    let ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let view = |range: &model::Range| SubnetView {
        subnet: range.subnet.trunc().to_string(),
        gateway: range.gateway.map(|gateway| gateway.to_string()),
        first: range.first.to_string(),
        last: range.last.to_string(),
    };
    ranges.map(view).chain(remote::subnets(&network.ipam)).collect()
}

/// As `--driver` takes it, where it does.
pub(crate) fn driver(kind: &LinkKind) -> String {
    match kind {
        LinkKind::Remote(remote) => crate::args::plugin(&remote.driver),
        kind => kind.traits().name.to_owned(),
    }
}

fn ingress(policy: IngressPolicy) -> &'static str {
    match policy {
        IngressPolicy::Open => "open",
        IngressPolicy::SameBridge => "same-bridge",
        IngressPolicy::Isolated => "isolated",
    }
}

fn ipam(network: &Network) -> String {
    let is_neutron =
        matches!(network.wiring.link.as_ref().map(|link| &link.kind), Some(LinkKind::Neutron(_)));
    let name = match &network.ipam {
        _ if is_neutron => "neutron",
        model::Ipam::None => "none",
        model::Ipam::Book { .. } => "spoke",
        model::Ipam::HostLocal { .. } => "host-local",
        model::Ipam::Fixed { .. } => "static",
        model::Ipam::Foreign(_) => "foreign",
        model::Ipam::Dhcp(_) => "dhcp",
        model::Ipam::Remote(remote) => remote.driver.as_str(),
        model::Ipam::Requested { .. } => "requested",
    };
    name.to_owned()
}

/// An attachment, all its layers together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AttachmentView {
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) interface: String,
    pub(crate) runtime: String,
    pub(crate) network: String,
    /// The runtime's name of the network, where it has one of its own.
    pub(crate) title: Option<String>,
    pub(crate) addresses: Vec<String>,
    pub(crate) mac: Option<String>,
    pub(crate) driver: Option<String>,
    /// Its other names on the network.
    pub(crate) names: Vec<String>,
    /// Its user's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Link-local addresses of its interface, besides `addresses`.
    pub(crate) link_local: Vec<String>,
    /// Of which families the container's default route is this one, where Spoke chooses that.
    pub(crate) default_gateway: Option<Vec<&'static str>>,
    /// Its port, where the network is Neutron's.
    pub(crate) neutron: Option<neutron::NeutronPortView>,
    pub(crate) ports: Vec<PortView>,
    /// Its limits, where it has some.
    pub(crate) limit: Option<limits::RatesView>,
    /// How much it may carry in a period, where that is limited.
    pub(crate) quota: Option<limits::QuotaView>,
    /// Where it may go, where it has rules of its own.
    pub(crate) egress: Option<Vec<String>>,
    pub(crate) state: &'static str,
    pub(crate) since: String,
    pub(crate) sandbox: Option<String>,
    /// The device that a virtual machine's program opens.
    pub(crate) tap: Option<String>,
    /// `since`, to reckon with.
    #[serde(skip)]
    pub(crate) at: Timestamp,
    /// `container`, for searches.
    #[serde(skip)]
    pub(crate) endpoint: ContainerId,
}

impl AttachmentView {
    /// Of the layers of one attachment; `None` where there are none.
    pub(crate) fn of(layers: &[&Attachment]) -> Option<Self> {
        let first = layers.first()?;
        let link = layers.iter().find(|layer| layer.layer == Layer::Link);
        let main = link.unwrap_or(first);
        let owner = layers.iter().find_map(|layer| layer.owner.as_ref());
        let kind = layers.iter().find_map(|layer| layer.wiring.link.as_ref());
        let served = layers.iter().filter(|layer| remote::serves(layer));
        let since = layers.iter().map(|layer| layer.since).min()?;
        let id = &first.id;
        Some(Self {
            name: owner.map_or_else(|| id.container.to_string(), ToString::to_string),
            container: id.container.to_string(),
            interface: interface(layers).unwrap_or(&id.ifname).to_string(),
            runtime: main.runtime.to_string(),
            network: id.network.to_string(),
            title: None,
            addresses: addresses(layers),
            mac: layers::mac(layers),
            driver: kind.map(|link| driver(&link.kind)),
            names: main.names.iter().map(ToString::to_string).collect(),
            labels: labels(layers),
            link_local: main.link_local.iter().map(ToString::to_string).collect(),
            default_gateway: remote::led(main).map(remote::families),
            neutron: neutron::NeutronPortView::of(layers),
            ports: served.flat_map(|layer| ports(layer)).collect(),
            limit: limits::rates(layers),
            quota: limits::quota(layers),
            egress: main.wiring.own_fence.as_ref().map(rules::texts),
            state: layers::state(layers),
            since: rfc3339(since),
            sandbox: main.sandbox.as_ref().map(|sandbox| sandbox.path.display().to_string()),
            tap: main.tap().and_then(|_| Some(linux::guest::device_name(main).ok()?.to_string())),
            at: since,
            endpoint: id.container.clone(),
        })
    }
}

impl AttachmentView {
    /// Whether the condition holds.
    pub(crate) fn passes(&self, filter: &RowFilter) -> bool {
        match filter {
            RowFilter::Label(label) => label.holds(&self.labels),
            RowFilter::Name(part) => self.name.contains(part.as_str()),
            RowFilter::Runtime(runtime) => self.runtime == runtime.to_string(),
            RowFilter::State(state) => self.state == *state,
        }
    }

    /// Adds those that Docker maps.
    pub(crate) fn add_ports(&mut self, mapped: &Mapped) {
        let target = mapped.to(&self.endpoint);
        let ports = target.iter().flat_map(|target| &target.ports);
        self.ports.extend(ports.map(|map| PortView::of(map, false)));
    }
}

/// Of a chain of plugins each says them.
pub(crate) fn labels(layers: &[&Attachment]) -> BTreeMap<String, String> {
    let all = layers.iter().flat_map(|layer| layer.labels.pairs());
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The addresses on which the layers agree: a later layer repeats those of an earlier one.
fn addresses(layers: &[&Attachment]) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    for layer in layers {
        let leased = layer.leases.iter().map(|lease| lease.address);
        let reported = layer.addresses.iter().map(|held| held.address);
        for address in reported.chain(leased).map(|address| address.to_string()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    addresses
}

/// The container's end of an attachment, as far as it is known.
pub(crate) fn reported_interface(record: &Attachment) -> &IfName {
    interface(&[record]).unwrap_or(&record.id.ifname)
}

/// The container's end, where it is made: not every runtime says before what it is called.
fn interface<'a>(layers: &[&'a Attachment]) -> Option<&'a IfName> {
    layers.iter().find_map(|layer| match &layer.phase {
        Phase::Attached(attached) => {
            let inside =
                |interface: &&model::Interface| interface.place == InterfaceNamespace::Sandbox;
            attached.interfaces.iter().find(inside).map(|interface| &interface.name)
        }
        Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => None,
    })
}

/// A pool and how full it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PoolView {
    pub(crate) network: String,
    /// As [`NetworkView::title`].
    pub(crate) title: Option<String>,
    pub(crate) pool: String,
    /// How many addresses can be leased; 2^64-1 where there are more.
    pub(crate) size: u64,
    pub(crate) used: u64,
    pub(crate) reserved: u64,
    pub(crate) quarantined: u64,
    pub(crate) free: u64,
    /// How many each runtime holds.
    pub(crate) holders: BTreeMap<String, u64>,
    pub(crate) free_ranges: Vec<String>,
}

/// An address that is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AddressView {
    pub(crate) address: String,
    pub(crate) state: &'static str,
    pub(crate) network: Option<String>,
    /// As [`AttachmentView::title`].
    pub(crate) title: Option<String>,
    pub(crate) container: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) since: Option<String>,
    /// Where the holder is known from, if not from the store.
    pub(crate) file: Option<String>,
    /// `since`, to reckon with.
    #[serde(skip)]
    pub(crate) at: Option<Timestamp>,
}

/// The output of `ipam show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BookView {
    pub(crate) pools: Vec<PoolView>,
    pub(crate) addresses: Vec<AddressView>,
}

/// Something without an owner, or in doubt, or wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FindingView {
    /// What it is about, as `attachment`, `lease`, `link`, `rules`, `file`, `overlap` or `pending-cleanup`.
    pub(crate) kind: &'static str,
    pub(crate) subject: String,
    pub(crate) why: String,
    /// `free`, `quarantine`, `retry`, `forget`, `keep`, or `decide`: a person must.
    pub(crate) remedy: &'static str,
    /// Whether the remedy was applied.
    pub(crate) done: bool,
}
