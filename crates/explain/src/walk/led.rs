//! Where rules that translate the destination lead a packet, and where it should have gone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::Family;
use netlink::{RouteLookup, Routed};

use super::begin::protocol;
use super::fix::of_place;
use super::{Arrived, End, Hop, Published, Walked, Walker};
use crate::packet::Packet;
use crate::port::Space;
use crate::rules::{Author, RuleLocation, Translation};

/// Where a packet went before it was translated.
struct Called {
    address: IpAddr,
    port: Option<u16>,
    /// The ports that the book says to be published there.
    published: Vec<Published>,
}

impl Walker<'_> {
    /// The destination becomes what a rule translates it to.
    pub(super) fn lead(&mut self, packet: &mut Packet, translation: Translation) -> Walked<()> {
        let called = Called {
            address: packet.destination,
            port: packet.destination_port(),
            published: self.published_at(packet).cloned().collect(),
        };
        packet.translate(&translation);
        if translation.address.is_none() {
            packet.destination = self.redirected(packet)?;
        }
        if packet.is_reply {
            return Ok(());
        }
        self.leads_right(&called, packet, &translation.place)?;
        self.led = Some(translation.place);
        Ok(())
    }

    /// To which address of this host `redirect` leads: that of the device by which the packet came in, or the
    /// loopback address for what this host sends (`nf_nat_redirect_ipv4`).
    fn redirected(&mut self, packet: &Packet) -> Walked<IpAddr> {
        let family = packet.family();
        let Some(input) = packet.input.as_ref().map(|input| input.index) else {
            return Ok(match family {
                Family::V4 => Ipv4Addr::LOCALHOST.into(),
                Family::V6 => Ipv6Addr::LOCALHOST.into(),
            });
        };
        let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
        let is_its = |it: &&netlink::Address| {
            it.link == input && Family::of(&it.address) == family && it.scope == 0
        };
        let own = all.iter().find(is_its).map(|it| it.address.addr());
        own.ok_or_else(|| self.unknown("filter", "the device by which it came has no address"))
    }

    /// That another program's rule does not come before the one that leads to the container.
    fn leads_right(
        &mut self,
        called: &Called,
        packet: &Packet,
        place: &RuleLocation,
    ) -> Walked<()> {
        let by = self.author(Space::HOST, place)?;
        // Docker leads the ports that it maps itself to where the book has no address.
        let is_docker = |it: &Published| by == Author::Docker && !it.in_table;
        if by == Author::Spoke || called.published.iter().any(is_docker) {
            return Ok(());
        }
        let Called { address, port, ref published } = *called;
        let is_host = self.ask(|kernel| kernel.way(Space::HOST, &Routed::new(address)))?;
        let is_right = |it: &Published| {
            packet.destination_port() == Some(it.map.container_port.get())
                && (it.to.contains(&packet.destination)
                    || self.receiver(packet.destination).is_some_and(|site| site.name == it.name))
        };
        let whose = match (published.first(), &self.trip.to) {
            _ if published.iter().any(is_right) => return Ok(()),
            (Some(first), _) if is_host == RouteLookup::Local => {
                format!("not to {}, which publishes {}", first.name, first.map)
            }
            (_, End::Container(site)) if by != Author::Docker && !site.has(packet.destination) => {
                format!("not to {}", site.name)
            }
            _ => return Ok(()),
        };
        let shown = |address: IpAddr, port: Option<u16>| match port {
            Some(port) => std::net::SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        let (from, to) =
            (shown(address, port), shown(packet.destination, packet.destination_port()));
        let what = format!("{place} leads what is for {from} to {to}, {whose}");
        let hop = Hop::new("port-map", what).by(by).fixed(of_place(place));
        Err(self.fail(hop.ruled(place.clone())))
    }

    /// That a published port is led from this host to its container.
    pub(super) fn is_not_lost(&mut self, packet: &Packet) -> Walked<()> {
        let Some(published) = self.published_at(packet).next() else { return Ok(()) };
        let table = if published.in_table { "Spoke's table" } else { "the packet filter" };
        let what = format!(
            "{} of {} is published, but {table} does not lead it there",
            published.map, published.name
        );
        let hop = Hop::new("port-map", what).by(Author::Spoke);
        Err(self.fail(hop.fixed("systemctl restart spoke")))
    }

    /// Ports that the book says to be published where the packet goes.
    fn published_at(&self, packet: &Packet) -> impl Iterator<Item = &Published> {
        let (port, protocol) = (packet.destination_port(), protocol(packet.carried));
        let to = packet.destination;
        self.trip.published.iter().filter(move |it| {
            let there = it.map.host.is_none_or(|host| {
                host.is_unspecified() && host.is_ipv4() == to.is_ipv4() || host == to
            });
            let family = it.to.iter().any(|own| own.is_ipv4() == to.is_ipv4());
            Some(it.map.protocol) == protocol
                && Some(it.map.host_port.get()) == port
                && there
                && family
        })
    }

    /// What listens at this host, which a rule may have led the packet to.
    pub(super) fn host_listens(&mut self, packet: &Packet) -> Walked<()> {
        if self.led.is_some() {
            self.is_called(&Arrived::Host, packet)?;
        }
        let listens = self.listens(("this host", Space::HOST), packet);
        let (Err(_), Some(place)) = (listens, self.led.take()) else { return listens };
        let by = self.author(Space::HOST, &place)?;
        if let Some(hop) = self.hops.last_mut() {
            hop.what += &format!("; {place} leads it there");
            (hop.by, hop.fix) = (Some(by), Some(of_place(&place)));
            hop.rule = Some(place);
        }
        listens
    }
}
