//! A packet leaves a container.

use std::net::IpAddr;

use netlink::{Errno, Link, RouteLookup, Routed};

use super::resolve::Owner;
use super::{Arrived, Hop, Plug, Site, Walked, Walker};
use crate::packet::{Device, Packet};
use crate::port::{Space, Which};
use crate::rules::{Author, Point};

/// The way out of a container.
pub(super) struct Out<'a> {
    pub(super) site: &'a Site,
    /// None of a virtual machine.
    pub(super) space: Option<Space>,
    pub(super) plug: &'a Plug,
    pub(super) link: Link,
    /// The next hop.
    pub(super) next: IpAddr,
}

impl Walker<'_> {
    /// Sends `packet` from a container, up to where it arrives.
    pub(super) fn leave(&mut self, site: &Site, packet: &mut Packet) -> Walked<Arrived> {
        if site.device().is_some() {
            return self.leave_machine(site, packet);
        }
        let Some(space) = site.space() else {
            return Err(self.unknown("container", format!("{} is not open", site.name)));
        };
        let plug = self.likely(site, packet)?;
        self.family_is_on(site, plug, packet.family())?;
        let to = packet.destination;
        let own = packet.is_reply.then_some(packet.source);
        if own.is_none() && site.has(to) {
            return self.loops(site, space, packet);
        }
        let expected = own.filter(|own| plug.has(*own));
        let expected = expected.or(plug.address(packet.family()).map(|net| net.addr()));
        let Some(expected) = expected else {
            let what = format!("{} has no address of the family of {to}", site.name);
            return Err(self.fail(Hop::new("address", what)));
        };
        let link = self.interface((site, space), plug, expected)?;
        let out = self.routed((site, space), (plug, link), packet, own)?;
        packet.output = Self::device(&out.link);
        self.filtered(space, Point::OUTPUT, packet, &format!("what {} sends", site.name))?;
        self.filtered(space, Point::POSTROUTING, packet, &format!("what {} sends", site.name))?;
        packet.mark = Some(0);
        self.cross(&out, packet)
    }

    /// The interface that it is likely to leave by.
    pub(super) fn likely<'s>(&mut self, site: &'s Site, packet: &Packet) -> Walked<&'s Plug> {
        let (to, family) = (packet.destination, packet.family());
        let plugs = || site.plugs.iter().filter(|plug| plug.address(family).is_some());
        let by_source = site.plug_of(packet.source).filter(|_| packet.is_reply);
        let near = || plugs().find(|plug| plug.reaches(to));
        let gate = || plugs().find(|plug| plug.gateway(family).is_some());
        by_source.or_else(near).or_else(gate).or_else(|| plugs().next()).ok_or_else(|| {
            self.fail(Hop::new(
                "address",
                format!("{} has no address of the family of {to}", site.name),
            ))
        })
    }

    /// To one of its own addresses.
    fn loops(&mut self, site: &Site, space: Space, packet: &mut Packet) -> Walked<Arrived> {
        let which = Which::Index(1);
        let lo = self.ask(|kernel| kernel.link(space, &which))?;
        if lo.is_none_or(|lo| !lo.flags.is_up()) {
            let fix = site.within("ip link set lo up");
            let what = format!("lo of {} is down", site.name);
            return Err(self.fail(Hop::new("loopback", what).fixed(fix)));
        }
        packet.source = packet.destination;
        self.listens((&site.name, space), packet)?;
        Err(self.stays(site))
    }

    pub(super) fn stays(&mut self, site: &Site) -> super::Stop {
        self.ok("loopback", format!("it stays in {}", site.name));
        super::Stop
    }

    fn routed<'s>(
        &mut self,
        (site, space): (&'s Site, Space),
        (plug, link): (&'s Plug, Link),
        packet: &mut Packet,
        own: Option<IpAddr>,
    ) -> Walked<Out<'s>> {
        let to = packet.destination;
        let asked = Routed { from: own, transport: packet.transport(), ..Routed::new(to) };
        let way = self.ask(|kernel| kernel.way(space, &asked))?;
        let RouteLookup::Out { link: index, gateway, source, .. } = way else {
            return Err(self.no_route((site, space), plug, packet, way));
        };
        let out = match index == link.index {
            true => (plug, link),
            false => self.other((site, space), index, packet)?,
        };
        let (plug, link) = out;
        if own.is_none() {
            packet.source = source.unwrap_or(packet.source);
            packet.original.source = packet.source;
        }
        if let (Some(gateway), Some(right)) = (gateway, plug.gateway(packet.family()))
            && gateway != right
        {
            self.wrong_gateway((site, plug), packet, (gateway, right))?;
        }
        let next = gateway.unwrap_or(to);
        let how = match gateway {
            Some(gateway) => format!("to {to} by {gateway} out of {}", link.name),
            None => format!("to {to} out of {}, on its own segment", link.name),
        };
        self.ok("route", format!("{} sends {how}", site.name));
        Ok(Out { site, space: Some(space), plug, link, next })
    }

    /// It leaves by another interface than is likely.
    fn other<'s>(
        &mut self,
        (site, space): (&'s Site, Space),
        index: u32,
        packet: &Packet,
    ) -> Walked<(&'s Plug, Link)> {
        let link = self.ask(|kernel| kernel.link(space, &Which::Index(index)))?;
        let name = link.as_ref().map_or(String::new(), |link| link.name.to_string());
        let plug = site.plugs.iter().find(|plug| plug.interface.as_str() == name);
        match (plug, link) {
            (Some(plug), Some(_)) => {
                let family = packet.family();
                let own = packet.is_reply.then_some(packet.source).filter(|own| plug.has(*own));
                let own = own.or(plug.address(family).map(|net| net.addr()));
                let Some(own) = own else {
                    let what = format!("{name} of {} has no address of that family", site.name);
                    return Err(self.unknown("address", what));
                };
                let link = self.interface((site, space), plug, own)?;
                Ok((plug, link))
            }
            _ => {
                let (to, who) = (packet.destination, &site.name);
                let what =
                    format!("{who} sends what is for {to} out of {name}, which Spoke did not make");
                Err(self.unknown("route", what))
            }
        }
    }

    fn no_route(
        &mut self,
        (site, space): (&Site, Space),
        plug: &Plug,
        packet: &Packet,
        way: RouteLookup,
    ) -> super::Stop {
        let (name, to) = (&site.name, packet.destination);
        let gateway = plug.gateway(packet.family());
        let back = if self.is_back { " back" } else { "" };
        let what = match way {
            RouteLookup::Nowhere(Errno::INVAL) => {
                format!("{name} has a blackhole route{back} to {to}")
            }
            RouteLookup::Nowhere(Errno::HOSTUNREACH) => {
                format!("{name} has an unreachable route{back} to {to}")
            }
            RouteLookup::Nowhere(Errno::ACCESS) => {
                format!("{name} has a prohibiting route{back} to {to}")
            }
            RouteLookup::Nowhere(_) if plug.reaches(to) => {
                return self.no_segment((site, space), plug, to);
            }
            RouteLookup::Nowhere(_) if plug.is_internal => {
                let what = format!(
                    "network {} is internal: {name} has no route{back} to {to}; one that is made without \
                     --internal has",
                    plug.called()
                );
                return self.fail(Hop::new("internal", what).by(Author::Spoke));
            }
            RouteLookup::Nowhere(_) => {
                let what =
                    format!("{name} has no route{back} to {to}: the default route is missing");
                let hop = Hop::new("route", what);
                return self.fail(match gateway {
                    Some(gateway) => hop.fixed(site.within(&format!(
                        "ip route add default via {gateway} dev {}",
                        plug.interface
                    ))),
                    None => hop,
                });
            }
            RouteLookup::Local => format!("{name} takes {to} for its own address"),
            RouteLookup::Many | RouteLookup::Out { .. } => {
                format!("{name} takes {to} for a broadcast address")
            }
        };
        let way_out = match (way, plug.reaches(to), gateway) {
            (RouteLookup::Nowhere(_), true, _) => Some(String::new()),
            (RouteLookup::Nowhere(_), false, Some(gateway)) => Some(format!(" via {gateway}")),
            _ => None,
        };
        // A route to an address that stands for all others opens none of them.
        let way_out = way_out.filter(|_| !self.goes_to_supposed(packet));
        let fix = way_out.map(|via| {
            let (net, interface) = (model::host_net(to), &plug.interface);
            site.within(&format!("ip route replace {net}{via} dev {interface}"))
        });
        self.fail(Hop::new("route", what).by(Author::Operator).fixed_if(fix))
    }

    /// A neighbour that the container has no route to: that comes with the length of its address.
    fn no_segment(
        &mut self,
        (site, space): (&Site, Space),
        plug: &Plug,
        to: IpAddr,
    ) -> super::Stop {
        let (name, interface) = (&site.name, &plug.interface);
        let nets = plug.addresses.iter().map(|(net, _)| net);
        let Some(net) = nets.clone().find(|net| net.contains(&to)) else {
            return self.unknown("route", format!("{name} has no route to {to}"));
        };
        let held = match self.ask(|kernel| kernel.addresses(space)) {
            Ok(held) => held,
            Err(stop) => return stop,
        };
        let back = if self.is_back { " back" } else { "" };
        let other = held.iter().find(|it| it.address.addr() == net.addr() && it.address != *net);
        let (what, command) = match other {
            Some(other) => (
                format!(
                    "{name} has {} instead of {net}: it has no route{back} to {to}",
                    other.address
                ),
                format!("ip addr add {net} dev {interface}"),
            ),
            None => (
                format!("{name} has no route{back} to its own segment {}", net.trunc()),
                format!("ip route add {} dev {interface} src {}", net.trunc(), net.addr()),
            ),
        };
        let fix = site.within(&command);
        self.fail(Hop::new("route", what).by(Author::Operator).fixed(fix))
    }

    fn wrong_gateway(
        &mut self,
        (site, plug): (&Site, &Plug),
        packet: &Packet,
        (gateway, right): (IpAddr, IpAddr),
    ) -> Walked<()> {
        let name = &site.name;
        let owner = self.ask(|kernel| kernel.owner(Space::HOST, gateway))?;
        if owner.is_some() {
            return Ok(());
        }
        let to = packet.destination;
        let what = format!(
            "{name} sends what is for {to} to {gateway}, but the gateway of network {} is {right}",
            plug.called()
        );
        let known = self.receiver(gateway).is_some() || self.is_of_another(gateway)?;
        if known {
            return Err(self.unknown("gateway", format!("{what}; it may be a router")));
        }
        let fix = format!("ip route replace default via {right} dev {}", plug.interface);
        Err(self.fail(Hop::new("gateway", what).by(Author::Operator).fixed(site.within(&fix))))
    }

    /// Whether another container of its networks has the address.
    fn is_of_another(&mut self, address: IpAddr) -> Walked<bool> {
        for (_, space) in self.trip.rivals.clone() {
            if self.ask(|kernel| kernel.owner(space, address))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Over the pair into the host, or onto a segment.
    fn cross(&mut self, out: &Out<'_>, packet: &mut Packet) -> Walked<Arrived> {
        let end = out.space.map_or(Ok(None), |space| self.host_end(space, &out.link))?;
        let Some(end) = end else {
            let (name, kind) = (&out.link.name, out.plug.kind);
            let what = format!(
                "{name} of {} ({kind}) has no end in this host: where it leads cannot be seen",
                out.site.name
            );
            return Err(self.unknown("segment", what));
        };
        self.enter_host(out, &end, packet)
    }

    /// By the host's end of an interface, or a virtual machine's device.
    pub(super) fn enter_host(
        &mut self,
        out: &Out<'_>,
        end: &Link,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        self.passes(end, false);
        packet.input = Some(Device::from(end));
        self.ingress(packet)?;
        let own = (out.link.mac, out.site, out.plug);
        match self.port(own, end)? {
            Some(bridge) => {
                self.is_let_in(end, &bridge, out.link.mac)?;
                packet.macs = out.link.mac.zip(bridge.mac);
                self.on_bridge((end, &bridge), out, packet)
            }
            None => {
                let seen = Some((Space::HOST, end));
                let owner = Owner { name: end.name.as_str(), mac: end.mac, seen };
                self.neighbour_of(out, &owner)?;
                self.host(end, packet)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Carried;
    use crate::walk::End;
    use crate::walk::fake::{Fake, site, trip};

    /// What is named where the container has such a route to who is called.
    fn fix(errno: Errno, to: End, called: &str) -> Option<String> {
        let mut kernel = Fake::default();
        let a = site("a", "10.70.1.2/24", Space(1));
        let trip = trip(End::Container(a.clone()), to);
        let mut walker = Walker::new(&mut kernel, &trip, Vec::new());
        let packet =
            Packet::new("10.70.1.2".parse().unwrap(), called.parse().unwrap(), Carried::Tcp(80));
        let _ = walker.no_route((&a, Space(1)), &a.plugs[0], &packet, RouteLookup::Nowhere(errno));
        walker.hops.pop().unwrap().fix
    }

    #[test]
    fn no_route_to_a_supposed_address_is_named() {
        let (far, named) = ("203.0.113.77", "198.51.100.7");
        for errno in [Errno::INVAL, Errno::HOSTUNREACH, Errno::ACCESS] {
            assert_eq!(fix(errno, End::Outside, far), None);
            assert_eq!(
                fix(errno, End::Address(named.parse().unwrap()), named).unwrap(),
                "ip -n a route replace 198.51.100.7/32 via 10.70.1.1 dev eth0"
            );
        }
        // The default route is for all of them.
        assert_eq!(
            fix(Errno::NETUNREACH, End::Outside, far).unwrap(),
            "ip -n a route add default via 10.70.1.1 dev eth0"
        );
    }
}
