//! Both ends are there, and the first packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{Family, Protocol};
use netlink::{RouteLookup, Routed};

use super::outside::is_uplink;
use super::{End, Hop, Site, Standing, Walked, Walker, mend};
use crate::packet::{Carried, Packet};
use crate::port::Space;

/// Addresses that no host has (RFC 5737, RFC 3849): what is beyond the default route.
const FAR4: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77));

const NOWHERE4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const NOWHERE6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// An address beyond the default route.
pub(super) fn far(family: Family) -> IpAddr {
    if family == Family::V4 { FAR4 } else { FAR6 }
}

impl Walker<'_> {
    /// Checks that both are there; the packet to be sent. Its source is not decided yet.
    pub(super) fn begin(&mut self) -> Walked<Packet> {
        for end in [&self.trip.from, &self.trip.to] {
            if let Some(site) = end.site() {
                self.is_there(site)?;
            }
        }
        if let Some(site) = self.trip.from.site() {
            self.runs(site)?;
        }
        let to = match self.trip.address {
            Some(address) => address,
            None => self.destination()?,
        };
        let mut carried = self.trip.carried;
        let mut address = to;
        // A container's address that was named is called itself.
        let is_named = |site: &Site| self.trip.address.is_some_and(|named| site.has(named));
        if let (End::Outside | End::Address(_), End::Container(site)) =
            (&self.trip.from, &self.trip.to)
            && !is_named(site)
            && let Some((host, port)) = self.published(site, to)?
        {
            (address, carried) = (host, carried.to_port(port));
        }
        self.called = Some(address);
        let from = if address.is_ipv4() { NOWHERE4 } else { NOWHERE6 };
        Ok(Packet::new(from, address, carried))
    }

    fn is_there(&mut self, site: &Site) -> Walked<()> {
        match &site.standing {
            Standing::Open(_) if site.plugs.is_empty() => {
                Err(self.unknown("container", format!("{} is on no network of Spoke's", site.name)))
            }
            Standing::Open(_) => {
                let on = |plug: &super::Plug| format!("{} by {}", plug.called(), plug.interface);
                let on: Vec<String> = site.plugs.iter().map(on).collect();
                self.ok("container", format!("{} is on {}", site.name, on.join(", ")));
                Ok(())
            }
            Standing::Gone(why) => {
                let what = format!("{} is gone: {why}", site.name);
                Err(self.fail(Hop::new("container", what).fixed("spoke gc")))
            }
            Standing::Machine(device) => {
                self.note(
                    "machine",
                    format!(
                        "{} is a virtual machine behind {device}: what is inside of it cannot be seen",
                        site.name
                    ),
                );
                Ok(())
            }
            Standing::Closed(why) => {
                let what = format!("the namespace of {} cannot be opened: {why}", site.name);
                Err(self.unknown("container", what))
            }
        }
    }

    /// The address that is called.
    fn destination(&mut self) -> Walked<IpAddr> {
        let both = [Family::V4, Family::V6];
        match (&self.trip.from, &self.trip.to) {
            (_, End::Address(address)) => Ok(*address),
            (End::Host, End::Host) => Ok(Ipv4Addr::LOCALHOST.into()),
            (End::Container(from), End::Container(to)) => {
                let shared = both.into_iter().find_map(|family| shared(from, to, family));
                let any = || both.into_iter().find_map(|family| common(from, to, family));
                shared.or_else(any).ok_or_else(|| {
                    let what = "they have no address of the same family";
                    self.fail(Hop::new("address", what))
                })
            }
            (End::Address(from), End::Container(to)) => {
                let family = if from.is_ipv4() { Family::V4 } else { Family::V6 };
                of(to, family).ok_or_else(|| {
                    let what = format!("{} has none of the family of {from}", to.name);
                    self.fail(Hop::new("address", what))
                })
            }
            (_, End::Container(to)) => {
                let address = both.into_iter().find_map(|family| of(to, family));
                address
                    .ok_or_else(|| self.fail(Hop::new("address", format!("{} has none", to.name))))
            }
            (from, End::Outside) => Ok(far(family_of(from))),
            (from, End::Host) => {
                let from = from.clone();
                self.of_host(&from)
            }
        }
    }

    /// The host's address that a container calls: its gateway, or else what others call.
    fn of_host(&mut self, from: &End) -> Walked<IpAddr> {
        let family = family_of(from);
        let gateways = from.site().into_iter().flat_map(|site| &site.plugs);
        let gateways: Vec<IpAddr> = gateways.filter_map(|plug| plug.gateway(family)).collect();
        if let Some(gateway) = gateways.first() {
            return Ok(*gateway);
        }
        match self.uplink(family)? {
            Some((_, own)) => Ok(own),
            None => Err(self.unknown("address", "this host has no address that others can call")),
        }
    }

    /// A machine that is beyond this host: the one that calls, where its address was given.
    pub(super) fn caller(&self, family: Family) -> IpAddr {
        match self.trip.from {
            End::Address(address) if address.is_ipv4() == (family == Family::V4) => address,
            _ => far(family),
        }
    }

    /// The link by which this host reaches the rest, and its address there.
    pub(super) fn uplink(&mut self, family: Family) -> Walked<Option<(u32, IpAddr)>> {
        let far = Routed::new(self.caller(family));
        if let RouteLookup::Out { link, source: Some(own), .. } =
            self.ask(|kernel| kernel.way(Space::HOST, &far))?
        {
            return Ok(Some((link, own)));
        }
        // Without a default route, a device that no container is behind.
        let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
        for address in all {
            let own = address.address.addr();
            if address.scope != 0 || Family::of(&address.address) != family || own.is_loopback() {
                continue;
            }
            let which = crate::port::Which::Index(address.link);
            let link = self.ask(|kernel| kernel.link(Space::HOST, &which))?;
            if link.as_ref().is_some_and(is_uplink) {
                return Ok(Some((address.link, own)));
            }
        }
        Ok(None)
    }

    /// The address and port of the host that lead to a container's port; `None` where it is reached
    /// at its own address.
    fn published(&mut self, site: &Site, to: IpAddr) -> Walked<Option<(IpAddr, u16)>> {
        let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
        if let Some(plug) = site.plugs.iter().find(|plug| plug.direct.contains(&family)) {
            let net = plug.address(family).map_or_else(|| model::host_net(to), |net| net.trunc());
            let what = format!(
                "{} is called at its own address {to}: a machine beyond needs a route to {net} by this host",
                site.name
            );
            self.note("route", what);
            return Ok(None);
        }
        let (Some(port), Some(protocol)) = (self.trip.carried.port(), protocol(self.trip.carried))
        else {
            let what = "from outside a container is reached by its published ports only: name one";
            return Err(self.unknown("published", what));
        };
        let ports: Vec<_> = site.plugs.iter().flat_map(|plug| &plug.ports).collect();
        let of = |map: &&&model::PortMap| {
            map.protocol == protocol && map.host.is_none_or(|host| host.is_ipv4() == to.is_ipv4())
        };
        let leads = |map: &&&model::PortMap| map.container_port.get() == port;
        let is = |map: &&&model::PortMap| map.host_port.get() == port;
        // At a loopback address no other host calls.
        let is_open = |map: &&&model::PortMap| map.host.is_none_or(|host| !host.is_loopback());
        let all = || ports.iter().filter(of);
        let open = || all().filter(is_open);
        let known = open().find(leads).or_else(|| open().find(is));
        let Some(map) = known.or_else(|| all().find(leads)).or_else(|| all().find(is)) else {
            let what = format!("{} publishes no port that leads to {port}/{protocol}", site.name);
            let hop = Hop::new("published", what).by(crate::rules::Author::Spoke);
            let fix = mend::publish(site, &mend::same(port, &protocol.to_string()));
            return Err(self.fail(hop.fixed(fix)));
        };
        let host = match map.host.filter(|host| !host.is_unspecified()) {
            Some(host) => host,
            None => match self.uplink(family)? {
                Some((_, own)) => own,
                None => {
                    let what = "this host has no address that others can call";
                    return Err(self.unknown("published", what));
                }
            },
        };
        if host.is_loopback() {
            let what = format!("port {}/{protocol} is published at {host} only", map.host_port);
            let own = self.uplink(family)?;
            let fix = own.map(|(_, own)| mend::publish_at(site, own, map));
            let hop = Hop::new("published", what).by(crate::rules::Author::Spoke);
            return Err(self.fail(hop.fixed_if(fix)));
        }
        self.ok("published", format!("{map} of {}, called at {host}", site.name));
        Ok(Some((host, map.host_port.get())))
    }
}

/// The protocol of a port.
pub(super) fn protocol(carried: Carried) -> Option<Protocol> {
    match carried {
        Carried::Echo | Carried::Neighbour | Carried::Arp => None,
        Carried::Tcp(_) => Some(Protocol::Tcp),
        Carried::Udp(_) => Some(Protocol::Udp),
        Carried::Sctp(_) => Some(Protocol::Sctp),
    }
}

fn of(site: &Site, family: Family) -> Option<IpAddr> {
    site.plugs.iter().find_map(|plug| plug.address(family)).map(|net| net.addr())
}

/// The other's address on a network that both are on.
fn shared(from: &Site, to: &Site, family: Family) -> Option<IpAddr> {
    let joint = |plug: &&super::Plug| {
        from.plugs.iter().any(|own| own.network == plug.network && own.address(family).is_some())
    };
    let mut plugs = to.plugs.iter().filter(joint);
    plugs.find_map(|plug| plug.address(family)).map(|net| net.addr())
}

fn common(from: &Site, to: &Site, family: Family) -> Option<IpAddr> {
    of(from, family).and_then(|_| of(to, family))
}

fn family_of(end: &End) -> Family {
    match end {
        End::Container(site)
            if of(site, Family::V4).is_none() && of(site, Family::V6).is_some() =>
        {
            Family::V6
        }
        End::Address(IpAddr::V6(_)) => Family::V6,
        _ => Family::V4,
    }
}
