//! The next hop of a way, from the present state of this host.

use std::net::IpAddr;

use model::{
    Attachment, Family, Gateways, IfName, IpNet, LinkKind, Mac, Phase, Result, Via, first_host,
};
use netlink::route::{MAIN, Routes};
use netlink::{At, Link, Socket, sysctl};

use super::WayOut;
use crate::identity::{Identity, link_local};
use crate::plan;

/// The next hop of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The device that packets leave by.
    pub device: IfName,
    /// Its index.
    pub link: u32,
    /// The router on its segment, where there is one.
    pub gateway: Option<IpAddr>,
    /// The router's hardware address, where it is set rather than asked for.
    pub mac: Option<Mac>,
    /// The address that this host sends with, where the device has none.
    pub source: Option<IpAddr>,
    /// The router's segment, where others are on it who call this host.
    pub segment: Option<IpNet>,
    /// The largest packet in bytes.
    pub mtu: u32,
}

/// The next hop of each family, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hops {
    /// Of IPv4.
    pub v4: std::result::Result<Hop, String>,
    /// Of IPv6.
    pub v6: std::result::Result<Hop, String>,
}

impl Hops {
    /// That of a family.
    pub fn of(&self, family: Family) -> Option<&Hop> {
        self.why(family).as_ref().ok()
    }

    /// That of a family, or why there is none.
    pub fn why(&self, family: Family) -> &std::result::Result<Hop, String> {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// Those that there are.
    pub fn all(&self) -> impl Iterator<Item = (Family, &Hop)> {
        let families = [Family::V4, Family::V6].into_iter();
        families.filter_map(|family| Some((family, self.of(family)?)))
    }

    pub(super) fn find(socket: &mut Socket, way: &WayOut, peer: Option<&Peer>) -> Result<Self> {
        Ok(Self {
            v4: hop(socket, way, peer, Family::V4)?,
            v6: hop(socket, way, peer, Family::V6)?,
        })
    }
}

/// A container that forwards, on a network of Spoke's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The host's end of its pair. It is of this container alone and ends with it, and the kernel removes
    /// with it what leads there: another container that gets the address is never taken for this one.
    device: IfName,
    /// By which its answers come in.
    bridge: Option<IfName>,
    mac: Mac,
    /// Its addresses, and that of this host in the same subnet.
    addresses: Vec<(IpAddr, Option<IpAddr>)>,
}

impl Peer {
    /// A container whose attachment is complete. `None` for links that do not end in this host.
    pub fn of(attachment: &Attachment) -> Option<Self> {
        let link = attachment.wiring.link.as_ref()?;
        let Phase::Attached(attached) = &attachment.phase else { return None };
        if !matches!(link.kind, LinkKind::Bridge(_) | LinkKind::Ptp(_)) {
            return None;
        }
        let held = match attached.addresses.is_empty() {
            true => &attachment.addresses,
            false => &attached.addresses,
        };
        let gateway = |it: &model::InterfaceAddress| it.gateway.or_else(|| first_host(&it.address));
        Some(Self {
            device: Identity::of(&attachment.id).host_link().ok()?,
            bridge: link.kind.bridge().map(|bridge| bridge.name.clone()),
            mac: plan::container_mac(attachment, link),
            addresses: held.iter().map(|it| (it.address.addr(), gateway(it))).collect(),
        })
    }
}

impl Peer {
    /// The bridge by which what it forwards comes in.
    pub fn bridge(&self) -> Option<&IfName> {
        self.bridge.as_ref()
    }

    /// Lets answers in whose senders the host itself reaches by another device: a strict `rp_filter` would drop
    /// them. The bridge is Spoke's own.
    pub(super) fn let_answers_in(&self) {
        let Some(bridge) = &self.bridge else { return };
        let key = |name: &str| format!("net/ipv4/conf/{name}/rp_filter");
        let mode = |name: &str| sysctl::read(key(name)).ok()?.trim().parse::<u8>().ok();
        if mode("all").max(mode(bridge.as_str())) == Some(1) {
            // Where the parameters cannot be written, `spoke explain` names the one that drops.
            let _ = sysctl::write(key(bridge.as_str()), "2");
        }
    }
}

type HopResult = Result<std::result::Result<Hop, String>>;

fn hop(socket: &mut Socket, way: &WayOut, peer: Option<&Peer>, family: Family) -> HopResult {
    match (&way.via, peer) {
        (Via::Device(name), _) => by_device(socket, way, name, family),
        (Via::Gateways(gateways), _) => by_gateway(socket, gateways, family),
        (Via::Container(..), Some(peer)) => by_peer(socket, way, peer, family),
        (Via::Container(..), None) => {
            Ok(Err(format!("{} is not there, or on no other network of Spoke's", way.via)))
        }
    }
}

fn by_device(socket: &mut Socket, way: &WayOut, name: &IfName, family: Family) -> HopResult {
    let Some(link) = socket.link(At::Name(name))? else {
        return Ok(Err(format!("device {name} is not there")));
    };
    if !link.flags.is_up() {
        return Ok(Err(format!("device {name} is down")));
    }
    let held = socket.addresses(Some(link.index))?;
    let is_usable = |it: &netlink::Address| {
        Family::of(&it.address) == family && it.scope == 0 && !it.tentative && !it.duplicate
    };
    if way.translated.contains(&family) && !held.iter().any(is_usable) {
        return Ok(Err(format!("device {name} has no {} address", shown(family))));
    }
    if link.flags.needs_no_gateway() {
        return Ok(Ok(Hop::by(link)));
    }
    let which = Routes { family, table: Some(MAIN), link: Some(link.index) };
    let mut defaults = socket.routes(which)?;
    defaults.retain(|route| route.dst.prefix_len() == 0 && route.gateway.is_some());
    defaults.sort_by_key(|route| route.priority.unwrap_or(0));
    Ok(match defaults.first() {
        Some(route) => Ok(Hop { gateway: route.gateway, ..Hop::by(link) }),
        None => Err(format!(
            "device {name} has no {} gateway: no default route names one",
            shown(family)
        )),
    })
}

fn by_gateway(socket: &mut Socket, gateways: &Gateways, family: Family) -> HopResult {
    let Some(gateway) = gateways.of(family) else {
        return Ok(Err(format!("no {} gateway is given", shown(family))));
    };
    let which = Routes { family, table: Some(MAIN), link: None };
    let mut routes = socket.routes(which)?;
    routes.retain(|route| route.gateway.is_none() && route.dst.contains(&gateway));
    routes.sort_by_key(|route| (route.dst.prefix_len(), std::cmp::Reverse(route.priority)));
    let nearest = routes.pop();
    let link = nearest.as_ref().and_then(|route| route.link);
    let link = link.map(|index| socket.link(At::Index(index))).transpose()?.flatten();
    let (Some(route), Some(link)) = (nearest, link) else {
        return Ok(Err(format!("gateway {gateway} is on no segment of this host")));
    };
    if socket.addresses(None)?.iter().any(|held| held.address.addr() == gateway) {
        return Ok(Err(format!("gateway {gateway} is this host itself")));
    }
    Ok(Ok(Hop { gateway: Some(gateway), segment: Some(route.dst), ..Hop::by(link) }))
}

fn by_peer(socket: &mut Socket, way: &WayOut, peer: &Peer, family: Family) -> HopResult {
    let is_of = |address: &IpAddr| Family::of(&model::host_net(*address)) == family;
    let Some((address, own)) = peer.addresses.iter().find(|(address, _)| is_of(address)) else {
        return Ok(Err(format!("{} has no {} address", way.via, shown(family))));
    };
    let Some(link) = socket.link(At::Name(&peer.device))? else {
        return Ok(Err(format!("{} is not there", way.via)));
    };
    if !link.flags.is_up() {
        return Ok(Err(format!("the link of {} is down", way.via)));
    }
    // The kernel refuses a router of IPv6 whose subnet is that of another link: the bridge's.
    let gateway = match family {
        Family::V4 => *address,
        Family::V6 => IpAddr::V6(link_local(peer.mac)),
    };
    Ok(Ok(Hop { gateway: Some(gateway), mac: Some(peer.mac), source: *own, ..Hop::by(link) }))
}

impl Hop {
    fn by(link: Link) -> Self {
        Self {
            link: link.index,
            mtu: link.mtu,
            device: link.name,
            gateway: None,
            mac: None,
            source: None,
            segment: None,
        }
    }
}

fn shown(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}
