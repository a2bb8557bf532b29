//! Endpoints: a container's interface before it is in the container, and after.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::{Engine, Request};
use model::text::{meant, shown};
use model::{
    Attachment, AttachmentId, Bridge, DhcpOption, Error, Family, Fence, Gateway, IfName,
    InterfaceNamespace, IpNet, Ipam, Labels, Layer, Lease, Link, LinkKind, Mac, Network, OwnerName,
    Result, Runtime, Space, Tenant, Tuning, Wiring,
};

use super::network::{alias_id, alias_of};
use super::template::kind_of;
use libnetwork::{Answer, EndpointGiven, EndpointOptions, EndpointRef};

/// An endpoint has one interface, whose name is not known when the endpoint is made.
pub(crate) const INTERFACE: &str = "eth";

/// Where this container may go, instead of what the network says.
const EGRESS: &str = "egress";
/// Whether that holds while the packet filter is flushed, too.
const STRICT: &str = "egress-strict";

/// Stands for the interface's name in a kernel parameter's path until that is known.
pub(super) const PLACEHOLDER: &str = "IFNAME";

/// CreateEndpoint. The answer has only what the request left open.
pub(super) fn create(engine: &Engine<'_>, call: &libnetwork::CreateEndpoint) -> Result<Answer> {
    let (labels, mut options) = Labels::split(&call.options.driver)?;
    let own_fence = own_fence(&mut options)?;
    refuse_unknown(&options)?;
    let alias = alias_of(engine, &call.at.network)?;
    let network = engine.records.network_of(&alias.network)?;
    let mac = call.interface.mac.or(call.options.mac);
    let addresses = addresses(engine, &network, &call.interface, mac)?;
    let request = Request {
        labels,
        layer: Layer::Link,
        container: call.at.endpoint.as_str().parse()?,
        ifname: INTERFACE.parse()?,
        names: Vec::new(),
        dns: model::Dns::default(),
        owner: addresses.owner,
        sandbox: None,
        wiring: Wiring { own_fence, ..wiring(&network, mac, &call.options)? },
        ipam: addresses.ipam,
        wanted: Vec::new(),
        addresses: Vec::new(),
        network: with_servers(without_default_route(network), &call.options.dns),
    };
    let attachment = engine.attachments.reserve(&request, &alias.id)?;
    Ok(Answer::Endpoint { interface: given(&call.interface, &attachment) })
}

/// The properties of an endpoint that the request left open.
pub(crate) fn given(asked: &libnetwork::Interface, attachment: &Attachment) -> EndpointGiven {
    let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
    let open = |is_open: bool, family| attachment.first(family).filter(|_| is_open);
    EndpointGiven {
        mac: mac.filter(|_| asked.mac.is_none()),
        ipv4: open(asked.ipv4.is_none(), Family::V4).and_then(|address| match address {
            IpNet::V4(v4) => Some(v4),
            IpNet::V6(_) => None,
        }),
        ipv6: open(asked.ipv6.is_none(), Family::V6).and_then(|address| match address {
            IpNet::V4(_) => None,
            IpNet::V6(v6) => Some(v6),
        }),
    }
}

/// DeleteEndpoint. One that is not known is gone.
pub(crate) fn delete(engine: &Engine<'_>, at: &EndpointRef) -> Result<Answer> {
    if let Some(id) = find(engine, at)? {
        engine.links.remove(&id)?;
    }
    Ok(Answer::Done {})
}

/// EndpointOperInfo: details for a person who reads a log.
pub(super) fn info(engine: &Engine<'_>, at: &EndpointRef) -> Result<Answer> {
    let alias = alias_of(engine, &at.network)?;
    let id = identity(&alias.network, at)?;
    let attachment = engine.records.attachment(&id)?.ok_or_else(|| unknown(at))?;
    let mut value = BTreeMap::from([("network".to_owned(), id.network.to_string())]);
    let mut report = |key: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            value.insert(key.to_owned(), text);
        }
    };
    let list = |texts: Vec<String>| Some(texts.join(", "));
    let link = attachment.wiring.link.as_ref();
    report("bridge", link.and_then(bridge_name).map(ToString::to_string));
    let parent = link.and_then(|link| link.kind.parent());
    report("parent", parent.and_then(|parent| parent.name.as_ref()).map(ToString::to_string));
    report("mac", link.and_then(|link| link.mac).map(|mac| mac.to_string()));
    if let Some(LinkKind::Neutron(neutron)) = link.map(|link| &link.kind) {
        report("neutron network", Some(neutron.network.to_string()));
        report("neutron port", neutron.binding.as_ref().map(|binding| binding.port.to_string()));
    }
    if let Some(LinkKind::Remote(remote)) = link.map(|link| &link.kind) {
        report("plugin", Some(remote.driver.to_string()));
        report("plugin's network", Some(remote.id.to_string()));
    }
    let addresses = attachment.addresses.iter().map(|held| held.address.to_string());
    report("addresses", list(addresses.collect()));
    if let model::Phase::Attached(attached) = &attachment.phase {
        let bridge = link.and_then(bridge_name);
        let name = |place: InterfaceNamespace| {
            let mut of = attached.interfaces.iter().filter(|interface| interface.place == place);
            of.find(|interface| Some(&interface.name) != bridge).map(|i| i.name.to_string())
        };
        report("interface", name(InterfaceNamespace::Sandbox));
        report("host interface", name(InterfaceNamespace::Host));
    }
    let ports = engine.attachments.published(&id)?;
    report("ports", list(ports.iter().map(ToString::to_string).collect()));
    Ok(Answer::Info { value })
}

/// The identity of an endpoint in the store.
pub(crate) fn identity(network: &model::NetworkName, at: &EndpointRef) -> Result<AttachmentId> {
    Ok(AttachmentId {
        network: network.clone(),
        container: at.endpoint.as_str().parse()?,
        ifname: INTERFACE.parse()?,
    })
}

/// The same for a call that removes: the network may be gone already.
pub(crate) fn find(engine: &Engine<'_>, at: &EndpointRef) -> Result<Option<AttachmentId>> {
    if let Some(alias) = engine.records.alias(&alias_id(&at.network)?)? {
        return identity(&alias.network, at).map(Some);
    }
    let Ok(container) = at.endpoint.as_str().parse() else { return Ok(None) };
    let records = engine.records.attachments_of(&container)?;
    let mut ours = records.into_iter().filter(|record| record.runtime == Runtime::Docker);
    Ok(ours.find(|record| record.id.ifname.as_str() == INTERFACE).map(|record| record.id))
}

pub(crate) fn unknown(at: &EndpointRef) -> Error {
    Error::not_found(format!("no endpoint {}; it must be created first", at.endpoint))
}

fn bridge_name(link: &Link) -> Option<&IfName> {
    link.kind.bridge().map(|bridge| &bridge.name)
}

/// What the container alone may reach; `egress-strict` is of these rules.
fn own_fence(options: &mut BTreeMap<String, String>) -> Result<Option<Fence>> {
    let wrong = |error: Error| Error::invalid(format!("--driver-opt {error}"));
    let rules = options.remove(EGRESS);
    Fence::of_one(rules.as_deref(), (STRICT, options.remove(STRICT).as_deref())).map_err(wrong)
}

/// Keys of Docker's own are ignored: a later engine may have more of
/// them.
fn refuse_unknown(options: &BTreeMap<String, String>) -> Result<()> {
    match options.keys().find(|key| !key.starts_with("com.docker.")) {
        None => Ok(()),
        Some(key) => Err(Error::unsupported(format!(
            "--driver-opt {}: no such option of an endpoint; {}there are egress, \
             egress-strict, com.docker.network.endpoint.ifname, com.docker.network.endpoint.sysctls and label.KEY",
            shown(key),
            meant(key, [EGRESS, STRICT])
        ))),
    }
}

struct Addresses {
    ipam: Ipam,
    owner: Option<OwnerName>,
}

/// The source of the endpoint's addresses: Spoke, on request, or another IPAM driver.
fn addresses(
    engine: &Engine<'_>,
    network: &Network,
    interface: &libnetwork::Interface,
    mac: Option<Mac>,
) -> Result<Addresses> {
    if let Some(ipam) = reported_later(network, mac) {
        return match interface.ipv4.is_some() || interface.ipv6.is_some() {
            true => Err(Error::invalid(format!(
                "network {} takes its addresses from elsewhere, and none from Docker; create it \
                 with --ipam-driver null",
                network.name
            ))),
            false => Ok(Addresses { ipam, owner: None }),
        };
    }
    let mut leases = Vec::new();
    let (mut requested, mut owner) = (false, None);
    for address in [interface.ipv4, interface.ipv6].into_iter().flatten() {
        refuse_strange(network, &address)?;
        let space = space_of(network, &address);
        let mut lease = Lease { space: space.clone(), pool: None, address, gateway: None };
        let holder = engine.records.holder(&space, address.addr())?;
        match holder.map(|holder| (holder.tenant, holder.lease, holder.owner)) {
            Some((Tenant::Request { .. }, held, name)) => {
                (requested, lease) = (true, held);
                owner = owner.or(name);
            }
            Some((Tenant::Attachment { .. }, _, _)) => {}
            None => requested |= is_of_subnet(engine, network, &space, &address)?,
        }
        lease.gateway = lease.gateway.or(gateway_of(network, &address));
        leases.push(lease);
    }
    let ipam = match (leases.is_empty(), requested) {
        (true, _) => Ipam::None,
        (false, true) => Ipam::Requested { leases },
        (false, false) => Ipam::Fixed { leases },
    };
    Ok(Addresses { ipam, owner })
}

/// The source that is asked for addresses once the link exists, if there is one. A hardware address
/// of the user's choice makes the container the same DHCP client each time; its endpoint's identity
/// changes with every start.
fn reported_later(network: &Network, mac: Option<Mac>) -> Option<Ipam> {
    match &network.ipam {
        Ipam::Dhcp(dhcp) => {
            let mut dhcp = dhcp.clone();
            dhcp.provide.extend(mac.map(client_of));
            Some(Ipam::Dhcp(dhcp))
        }
        Ipam::Remote(_) => Some(network.ipam.clone()),
        ipam => network.wiring.chooses_addresses().then(|| ipam.clone()),
    }
}

/// The client identifier that says the hardware address (RFC 2132 §9.14).
fn client_of(mac: Mac) -> DhcpOption {
    const CLIENT_IDENTIFIER: u8 = 61;
    const ETHERNET: u8 = 1;
    DhcpOption { code: CLIENT_IDENTIFIER, value: [&[ETHERNET][..], &mac.octets()].concat() }
}

/// An IPAM driver must allocate addresses of the network's subnets: a container with another one
/// would redirect the host's route to it, and one with the gateway's address the whole network's.
pub(crate) fn refuse_strange(network: &Network, address: &IpNet) -> Result<()> {
    let pools = network.ipam.pools();
    if pools.iter().any(|pool| pool.is_gateway(address.addr())) {
        let what = format!("address {} is the gateway of network {}", address.addr(), network.name);
        return Err(Error::conflict(what));
    }
    let mut ranges = pools.iter().flat_map(|pool| &pool.ranges);
    match pools.is_empty() || ranges.any(|range| range.subnet.contains(&address.addr())) {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("address {address} is in no subnet of {}", network.name)))
        }
    }
}

fn space_of(network: &Network, address: &IpNet) -> Space {
    let pools = network.ipam.pools();
    let pool = pools.iter().find(|pool| pool.ranges.iter().any(|r| r.subnet.contains(address)));
    pool.map_or(Space::Host, |pool| pool.space.clone())
}

fn is_of_subnet(
    engine: &Engine<'_>,
    network: &Network,
    space: &Space,
    address: &IpNet,
) -> Result<bool> {
    let over = engine.records.subnets_over(space, &model::host_net(address.addr()))?;
    Ok(over
        .iter()
        .any(|subnet| subnet.network == network.name && subnet.id.net.contains(&address.addr())))
}

pub(crate) fn gateway_of(network: &Network, address: &IpNet) -> Option<IpAddr> {
    let mut ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    ranges.find(|range| range.subnet.contains(&address.addr())).and_then(|range| range.gateway)
}

/// The network's wiring with what this endpoint asks for. The default route is the engine's to
/// set, from the answer to Join.
pub(crate) fn wiring(
    network: &Network,
    mac: Option<Mac>,
    options: &EndpointOptions,
) -> Result<Wiring> {
    let kind = match kind_of(network)?.clone() {
        LinkKind::Bridge(bridge) => LinkKind::Bridge(Bridge {
            gateway: match bridge.gateway {
                Gateway::Default | Gateway::Address => Gateway::Address,
                Gateway::None => Gateway::None,
            },
            ..bridge
        }),
        other => other,
    };
    let placeholder: IfName = PLACEHOLDER.parse()?;
    let sysctls = options.sysctls.iter().map(|setting| setting.of(&placeholder)).collect();
    Ok(Wiring {
        link: network.wiring.link.clone().map(|link| Link {
            kind,
            name: options.ifname.clone(),
            mac: mac.or(link.mac),
            ..link
        }),
        publish: None,
        tuning: Some(Tuning { sysctls, ..Tuning::default() })
            .filter(|tuning| !tuning.sysctls.is_empty()),
        ..network.wiring.clone()
    })
}

/// What the container's names are asked of: what it was given (`--dns`), or else the network's.
fn with_servers(mut network: Network, given: &[IpAddr]) -> Network {
    if !given.is_empty() {
        network.dns.nameservers = given.iter().map(ToString::to_string).collect();
    }
    network
}

fn without_default_route(mut network: Network) -> Network {
    network.routes.retain(|route| route.dst.prefix_len() > 0);
    network
}
