//! Compares the kernel with the record of an attachment.

mod port;
mod single;

use model::{
    Attached, Attachment, Bridge, Error, Fact, Family, IfName, Interface, InterfaceAddress,
    InterfaceNamespace, IpNet, LinkKind, Plug, Result, Route, Runtime,
};
use netlink::route::Routes;
use netlink::{At, Link, Netns, Socket};

use crate::identity::{Identity, is_guest_link};
use crate::plan::gateway::is_gateway;
use crate::plan::port::gateway_device;
use crate::{external, plan};

/// The kernel's driver of tap devices.
const TAP: &str = "tun";

/// The host's side: the interfaces that the result names there.
pub(crate) fn host(attachment: &Attachment, attached: &Attached) -> Result<()> {
    let mut socket = Socket::route()?;
    let kind = attachment.wiring.link.as_ref().map(|link| &link.kind);
    let mut links = Vec::new();
    // In the namespace of the container's end it is unknown which runtime moves and names it.
    let is_handed = external::of(attachment).is_some();
    let stays = |known: &&Interface| {
        known.place == InterfaceNamespace::Host && !is_guest_link(&known.name) && !is_handed
    };
    for interface in attached.interfaces.iter().filter(stays) {
        links.push(found(&mut socket, interface)?);
    }
    match kind {
        Some(LinkKind::Bridge(bridge)) => ports(attachment, bridge, &links, &mut socket),
        Some(_) | None => Ok(()),
    }
}

/// The bridge is as it should be, and the container's host end is a port of it.
fn ports(
    attachment: &Attachment,
    bridge: &Bridge,
    links: &[Link],
    socket: &mut Socket,
) -> Result<()> {
    let Some(there) = links.iter().find(|link| link.name == bridge.name) else {
        return Err(differs(format!("the result lacks bridge {}", bridge.name)));
    };
    if there.kind.as_deref() != Some("bridge") {
        return Err(differs(format!("{} is not a bridge", bridge.name))
            .about(Fact::OtherKind(bridge.name.clone())));
    }
    if bridge.promiscuous && !there.flags.is_promiscuous() {
        return Err(differs(format!("{} is not promiscuous", bridge.name))
            .about(Fact::NotPromiscuous(bridge.name.clone())));
    }
    let gateway = gateway_device(bridge)?;
    // Later plugins of a chain make devices as well, such as an ifb.
    let kind = if attachment.tap().is_some() { TAP } else { "veth" };
    let is_end = |link: &&Link| link.kind.as_deref() == Some(kind) && link.name != gateway;
    let own = links.iter().filter(|link| link.name != bridge.name).filter(is_end);
    for link in own {
        if link.master != Some(there.index) {
            return Err(differs(format!("{} is no port of bridge {}", link.name, bridge.name))
                .about(Fact::NoPort(bridge.name.clone())));
        }
        port::check(bridge, there, link, socket)?;
    }
    Ok(())
}

/// The container's side: its interface, its addresses and its routes.
pub(crate) fn sandbox(attachment: &Attachment, attached: &Attached, sandbox: &Netns) -> Result<()> {
    let kind = attachment.wiring.link.as_ref().map(|link| &link.kind);
    if matches!(kind, Some(LinkKind::Device(_))) && attached.interfaces.is_empty() {
        // A program drives it by itself.
        return Ok(());
    }
    let parent = single::parent_in_host(attachment)?;
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        if matches!(
            attachment.wiring.link.as_ref().map(|link| &link.kind),
            Some(LinkKind::Loopback)
        ) {
            return loopback(&mut socket);
        }
        let device = plan::device(attachment);
        // For a name with a prefix only the result has the full name.
        let is_external = external::of(attachment).is_some();
        let is_own = |known: &&Interface| {
            known.place == InterfaceNamespace::Sandbox && (is_external || known.name == *device)
        };
        let Some(interface) = attached.interfaces.iter().find(is_own) else {
            return Err(differs(format!("the result lacks interface {device}")));
        };
        let link = there(&mut socket, &interface.name)?;
        if is_external && !external::is_of(&link, &Identity::of(&attachment.id)) {
            return Err(differs(format!("interface {} is another one by now", link.name)));
        }
        single::check(attachment, &link, parent)?;
        same_address(&link, interface)?;
        checksums(kind, device, &socket)?;
        addresses(&mut socket, &link, &attached.addresses, &attached.interfaces)?;
        single::reaches_gateway(attachment, &link, &attached.addresses)?;
        let is_ours = attachment.runtime != Runtime::Reference;
        routes(&mut socket, &expected(attachment, &attached.routes), is_ours)
    })?
}

/// A default route exists where the attachment is its sandbox's default gateway.
fn expected(attachment: &Attachment, routes: &[Route]) -> Vec<Route> {
    let is_there =
        |route: &&Route| !route.is_default() || is_gateway(attachment, Family::of(&route.dst));
    routes.iter().filter(is_there).cloned().collect()
}

/// A switch that is a program takes frames as they are.
fn checksums(kind: Option<&LinkKind>, device: &IfName, socket: &Socket) -> Result<()> {
    match kind {
        Some(LinkKind::Plug(Plug { offload: false, .. })) if socket.leaves_checksums(device)? => {
            Err(differs(format!("interface {device} sends packets without checksums")))
        }
        Some(_) | None => Ok(()),
    }
}

fn loopback(socket: &mut Socket) -> Result<()> {
    match socket.link(At::Name(&"lo".parse()?))? {
        Some(link) if link.flags.is_up() => Ok(()),
        Some(_) => Err(differs("loopback interface is down".into())),
        None => Err(differs("there is no loopback interface".into())),
    }
}

fn found(socket: &mut Socket, interface: &Interface) -> Result<Link> {
    let link = there(socket, &interface.name)?;
    same_address(&link, interface)?;
    Ok(link)
}

fn there(socket: &mut Socket, name: &IfName) -> Result<Link> {
    socket.link(At::Name(name))?.ok_or_else(|| {
        let missing = differs(format!("interface {name} is missing"));
        missing.about(Fact::NoInterface(name.clone()))
    })
}

fn same_address(link: &Link, interface: &Interface) -> Result<()> {
    let name = &interface.name;
    match (interface.mac, link.mac) {
        (Some(wanted), Some(is)) if wanted != is => {
            let fact = Fact::OtherMac { name: name.clone(), is, wanted };
            Err(differs(format!("interface {name} has MAC {is}, not {wanted}")).about(fact))
        }
        (_, _) => Ok(()),
    }
}

fn addresses(
    socket: &mut Socket,
    link: &Link,
    wanted: &[InterfaceAddress],
    interfaces: &[Interface],
) -> Result<()> {
    let here: Vec<IpNet> =
        socket.addresses(Some(link.index))?.into_iter().map(|there| there.address).collect();
    let ours = |held: &&InterfaceAddress| {
        held.interface
            .and_then(|index| interfaces.get(index))
            .is_none_or(|interface| interface.name == link.name)
    };
    for held in wanted.iter().filter(ours) {
        if !here.contains(&held.address) {
            let fact = Fact::NoAddress { name: link.name.clone(), address: held.address };
            let what = format!("interface {} lacks {}", link.name, held.address);
            return Err(differs(what).about(fact));
        }
    }
    Ok(())
}

/// The reference plugins leave attributes of routes out, and compare only their destinations.
fn routes(socket: &mut Socket, wanted: &[Route], is_ours: bool) -> Result<()> {
    for family in [Family::V4, Family::V6] {
        let mut ours = wanted.iter().filter(|route| Family::of(&route.dst) == family).peekable();
        if ours.peek().is_none() {
            continue;
        }
        let there = socket.routes(Routes { family, table: None, link: None })?;
        for route in ours {
            let is_gateway = |is: &&netlink::Route| route_leads(is, route);
            let mut there = there.iter().filter(is_gateway).peekable();
            if there.peek().is_none() {
                return Err(differs(format!("the route to {} is missing", route.dst))
                    .about(Fact::NoRoute(route.clone())));
            }
            if is_ours && !there.any(|is| has_attributes(is, route)) {
                return Err(differs(format!(
                    "the route to {} has another MTU, MSS, priority or scope than asked for",
                    route.dst
                )));
            }
        }
    }
    Ok(())
}

fn route_leads(is: &netlink::Route, wanted: &Route) -> bool {
    is.dst == wanted.dst.trunc()
        && wanted.via.is_none_or(|via| is.gateway == Some(via))
        && wanted.table.is_none_or(|table| is.table == table || table == 0)
}

/// Where nothing is asked for, or 0, the kernel chooses; the scope is something in IPv4 only.
fn has_attributes(is: &netlink::Route, wanted: &Route) -> bool {
    let same = |wanted: Option<u32>, is: Option<u32>| {
        wanted.is_none_or(|wanted| wanted == 0 || is == Some(wanted))
    };
    let scope = wanted.scope.filter(|_| Family::of(&wanted.dst) == Family::V4);
    same(wanted.mtu, is.mtu)
        && same(wanted.advmss, is.advmss)
        && same(wanted.priority, is.priority)
        && scope.is_none_or(|scope| is.scope == scope)
}

fn differs(what: String) -> Error {
    Error::not_found(what)
}
