//! The facts about the host that a plan needs, read from the kernel.

use std::fs;
use std::path::Path;

use model::{
    Attachment, Error, Fact, Family, IfName, InterfaceNamespace, IpNet, LinkKind, Macvlan,
    NetworkName, Parent, Result,
};
use netlink::route::Routes;
use netlink::{At, Link, Netns, Socket};

use crate::device;
use crate::identity::{GROUP, Identity, shim_link};
use crate::plan::parent::vlan_device;
use crate::plan::port::{gateway_device, vlan_of_gateway};
use crate::plan::{self, BridgeFacts, Connected, Facts, ParentFacts};

/// The facts.
pub(crate) struct GatheredFacts {
    /// For planning.
    pub(crate) facts: Facts,
    /// The bridge or parent in the host's namespace, as the kernel knows it.
    pub(crate) below: Option<Link>,
}

/// The facts for planning a link of this network.
pub(crate) fn of_network(
    network: &NetworkName,
    kind: &LinkKind,
    sandbox: Option<&Netns>,
    socket: &mut Socket,
) -> Result<GatheredFacts> {
    let mut known = GatheredFacts { facts: Facts::default(), below: None };
    match kind {
        LinkKind::Bridge(bridge) => {
            known.below = socket.link(At::Name(&bridge.name))?;
            known.facts.bridge =
                known.below.as_ref().map(|link| bridge_facts(link, socket)).transpose()?;
            if vlan_of_gateway(bridge).is_some() {
                let gateway = socket.link(At::Name(&gateway_device(bridge)?))?;
                known.facts.gateway =
                    gateway.map(|link| bridge_facts(&link, socket)).transpose()?;
            }
        }
        LinkKind::Macvlan(Macvlan { parent, host_access: true, .. }) => {
            let mut facts = parent_facts(parent, sandbox, socket, &mut known)?;
            let index = known.below.as_ref().map(|link| link.index);
            facts.addresses = addresses(index, socket)?;
            known.facts.parent = Some(facts);
            let shim = socket.link(At::Name(&shim_link(network)?))?;
            known.facts.shim = shim.is_some_and(|link| link.group == GROUP);
        }
        _ => {
            if let Some(parent) = kind.parent() {
                let facts = parent_facts(parent, sandbox, socket, &mut known)?;
                known.facts.parent = Some(facts);
            }
        }
    }
    Ok(known)
}

/// The facts for planning an attachment's link.
pub(crate) fn gather(
    attachment: &Attachment,
    kind: &LinkKind,
    sandbox: Option<&Netns>,
    socket: &mut Socket,
) -> Result<GatheredFacts> {
    let mut known = of_network(&attachment.id.network, kind, sandbox, socket)?;
    if let LinkKind::Device(device) = kind {
        known.facts.device = device::find(device, attachment, sandbox, socket)?;
    }
    Ok(known)
}

fn bridge_facts(link: &Link, socket: &mut Socket) -> Result<BridgeFacts> {
    Ok(BridgeFacts {
        is_bridge: link.kind.as_deref() == Some("bridge"),
        is_up: link.flags.is_up(),
        promiscuous: link.flags.is_promiscuous(),
        is_ours: link.group == GROUP,
        mac: link.mac,
        follows: link.group != GROUP && follows_ports(link),
        addresses: addresses(Some(link.index), socket)?,
    })
}

/// Whether the bridge's hardware address was not set. Only sysfs shows it, which may be another
/// namespace's: then the index differs, and the address is set to what it is, which does no harm
/// where it was set before.
fn follows_ports(bridge: &Link) -> bool {
    let folder = Path::new("/sys/class/net").join(bridge.name.as_str());
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    read("ifindex").trim() != bridge.index.to_string()
        || [PERMANENT, RANDOM].contains(&read("addr_assign_type").trim())
}

/// `NET_ADDR_PERM` and `NET_ADDR_RANDOM` (linux/netdevice.h).
const PERMANENT: &str = "0";
const RANDOM: &str = "1";

fn addresses(link: Option<u32>, socket: &mut Socket) -> Result<Vec<IpNet>> {
    match link {
        Some(index) => {
            let there = socket.addresses(Some(index))?;
            Ok(there.into_iter().map(|address| address.address).collect())
        }
        None => Ok(Vec::new()),
    }
}

/// The parent, or the one that it is a VLAN of.
fn parent_facts(
    parent: &Parent,
    sandbox: Option<&Netns>,
    socket: &mut Socket,
    known: &mut GatheredFacts,
) -> Result<ParentFacts> {
    let (link, base) = match (parent.place, sandbox) {
        (InterfaceNamespace::Host, _) => existing(parent, socket)?,
        (InterfaceNamespace::Sandbox, Some(sandbox)) => {
            sandbox.enter(|| existing(parent, &mut Socket::route()?))??
        }
        (InterfaceNamespace::Sandbox, None) => {
            return Err(Error::invalid(
                "a parent in the container cannot be used before there is one".to_owned(),
            ));
        }
    };
    let facts = ParentFacts {
        name: match (&base, parent.vlan) {
            (Some(base), Some(vlan)) => vlan_device(base, vlan)?,
            (_, _) => link.name.clone(),
        },
        is_ours: base.is_none() && link.group == GROUP,
        alias: link.alias.clone().filter(|_| base.is_none()),
        base,
        mac: link.mac,
        mtu: link.mtu,
        addresses: Vec::new(),
    };
    if parent.place == InterfaceNamespace::Host {
        known.below = Some(link);
    }
    Ok(facts)
}

/// The device, or the one that it is to be a VLAN of, with that one's name.
fn existing(parent: &Parent, socket: &mut Socket) -> Result<(Link, Option<IfName>)> {
    let base = match &parent.name {
        Some(name) => name.clone(),
        None => default_device(socket)?,
    };
    let Some(vlan) = parent.vlan else { return Ok((found(&base, socket)?, None)) };
    if parent.place == InterfaceNamespace::Sandbox {
        return Err(Error::invalid(format!(
            "VLAN {vlan} of {base}: only of a parent in the host a device for a VLAN is made"
        )));
    }
    match socket.link(At::Name(&vlan_device(&base, vlan)?))? {
        Some(link) => Ok((link, None)),
        None => Ok((found(&base, socket)?, Some(base))),
    }
}

fn found(name: &IfName, socket: &mut Socket) -> Result<Link> {
    socket.link(At::Name(name))?.ok_or_else(|| {
        Error::not_found(format!("failed to lookup master {:?}: Link not found", name.as_str()))
            .about(Fact::NoParent)
    })
}

/// The device of the default route, in IPv4 if there is one.
pub(crate) fn default_device(socket: &mut Socket) -> Result<IfName> {
    for family in [Family::V4, Family::V6] {
        let all = Routes { family, table: Some(netlink::route::MAIN), link: None };
        let routes = socket.routes(all)?.into_iter().filter(|route| route.dst.prefix_len() == 0);
        let best = routes.min_by_key(|route| route.priority.unwrap_or(0));
        let link = best.and_then(|route| route.link);
        if let Some(index) = link
            && let Some(link) = socket.link(At::Index(index))?
        {
            return Ok(link.name);
        }
    }
    Err(Error::not_found("no default route found; name the master device, or add a default route")
        .about(Fact::Words("no default route interface found".to_owned())))
}

/// Whether a link with the name of the attachment's end in the host is that end. Where a third
/// party chose the name it may be another link: the alias shows the owner, as soon as there is one.
pub(crate) fn is_host_end(attachment: &Attachment, link: &Link) -> bool {
    let is_ours = match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Plug(_)) => {
            let ours = Identity::of(&attachment.id).alias();
            link.alias.as_ref().is_none_or(|alias| *alias == ours)
        }
        Some(_) | None => true,
    };
    is_ours && link.group == GROUP
}

/// The attachment's own link, if it was made before.
pub(crate) fn connected(
    attachment: &Attachment,
    sandbox: Option<&Netns>,
    socket: &mut Socket,
) -> Result<Option<Connected>> {
    let Some(link) = &attachment.wiring.link else { return Ok(None) };
    let identity = Identity::of(&attachment.id);
    if link.kind.is_pair() {
        let host_end = socket.link(At::Name(&plan::host_end(attachment)?))?;
        let ours = host_end.filter(|link| is_host_end(attachment, link));
        return Ok(ours.map(|link| Connected {
            place: if link.peer_netns.is_none() {
                InterfaceNamespace::Host
            } else {
                InterfaceNamespace::Sandbox
            },
            mac: None,
        }));
    }
    let is_ours = |link: &Link| link.group == identity.group();
    if let Some(link) = socket.link(At::Name(&identity.guest_link()?))?.filter(is_ours) {
        return Ok(Some(Connected { place: InterfaceNamespace::Host, mac: link.mac }));
    }
    let Some(sandbox) = sandbox else { return Ok(None) };
    let device = plan::device(attachment);
    let inside = sandbox.enter(|| Socket::route()?.link(At::Name(device)))??;
    let ours = inside.filter(is_ours);
    Ok(ours.map(|link| Connected { place: InterfaceNamespace::Sandbox, mac: link.mac }))
}
