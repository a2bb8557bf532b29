//! A packet leaves by a link of this host, with the address that it has then.

use std::net::IpAddr;

use model::{Family, IpNet};
use netlink::sysctl::Parameter;
use netlink::{Link, RouteLookup, Routed};

use super::begin::far;
use super::{Arrived, Elsewhere, End, Hop, Status, Walked, Walker};
use crate::packet::{Device, Packet};
use crate::port::Space;
use crate::rules::{Author, Point, Ruling, Translation};

impl Walker<'_> {
    /// Out of a link of this host.
    pub(super) fn out(
        &mut self,
        out: &Link,
        gateway: Option<IpAddr>,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        let about = format!("what leaves by {}", out.name);
        let mut judged = packet.clone();
        let ruling = self.judged(Space::HOST, Point::POSTROUTING, &mut judged, &about)?;
        if let Ruling::Passes { source: Some(translation), .. } = ruling {
            let own = match translation.address {
                Some(address) => address,
                None => self.masquerade(out, packet, gateway)?,
            };
            self.is_answered_here(out, own, &translation)?;
            packet.is_snat |= own != packet.source;
            packet.source = own;
        }
        packet.come_from_called();
        packet.output = Some(Device::from(out));
        self.egress(packet)?;
        self.is_routed = true;
        let next = gateway.unwrap_or(packet.destination);
        let is_ours = self.receiver(next).is_some();
        match out.kind.as_deref() {
            Some("bridge") if is_ours => self.onto_bridge(out, next, packet),
            Some("veth") if is_ours => self.over_pair(out, next, packet),
            _ => self.beyond(out, gateway, packet),
        }
    }

    fn masquerade(
        &mut self,
        out: &Link,
        packet: &Packet,
        gateway: Option<IpAddr>,
    ) -> Walked<IpAddr> {
        let to = gateway.unwrap_or(packet.destination);
        let asked = Routed::new(to);
        match self.ask(|kernel| kernel.way(Space::HOST, &asked))? {
            RouteLookup::Out { source: Some(source), .. } => Ok(source),
            _ => Err(self.unknown("masquerade", format!("{} has no address", out.name))),
        }
    }

    /// Out of this host.
    fn beyond(&mut self, out: &Link, gateway: Option<IpAddr>, packet: &Packet) -> Walked<Arrived> {
        self.is_connected(out, "by which it leaves this host", packet)?;
        if let Some(there) = self.elsewhere(packet.destination).filter(|_| !packet.is_reply) {
            return Err(self.leaves(&there, out, packet.destination));
        }
        let next = gateway.unwrap_or(packet.destination);
        self.is_there_beyond(out, next)?;
        if !packet.is_reply && gateway.is_none() && self.is_of_containers(out, packet)? {
            let what =
                format!("{next} is behind {}; the book has no container of that address", out.name);
            return Err(self.unknown("neighbour", what));
        }
        self.is_hidden(out, packet)?;
        if !packet.is_reply {
            self.left = Some(out.index);
        }
        self.ok("uplink", format!("it leaves by {}, to {next}", out.name));
        Ok(Arrived::Beyond)
    }

    /// That a link to other hosts is up, and has a carrier. Without a carrier the kernel goes on to use the routes by it, also
    /// where a worse one leads out by another link; whether there is one, the kernel does not say.
    pub(super) fn is_connected(&mut self, link: &Link, so: &str, packet: &Packet) -> Walked<()> {
        let name = &link.name;
        if !link.flags.is_up() {
            let hop = Hop::new("uplink", format!("{name}, {so}, is down"));
            return Err(self.fail(hop.fixed(format!("ip link set {name} up"))));
        }
        if !link.flags.has_carrier() {
            let ignore =
                Parameter::ignore_routes_with_linkdown(packet.family(), name.as_str()).command("1");
            let what = format!(
                "{name}, {so}, has no carrier: its other end is off, or is not connected. Another default route is not \
                 taken meanwhile, unless {ignore} was run"
            );
            return Err(self.fail(Hop::new("uplink", what)));
        }
        Ok(())
    }

    /// Whether containers are behind a link, and no other hosts: they are behind a bridge only where the default route
    /// leads out of it.
    fn is_of_containers(&mut self, out: &Link, packet: &Packet) -> Walked<bool> {
        Ok(match out.kind.as_deref() {
            Some("bridge") => {
                let far = Routed::new(far(packet.family()));
                let way = self.ask(|kernel| kernel.way(Space::HOST, &far))?;
                !matches!(way, RouteLookup::Out { link, .. } if link == out.index)
            }
            // A container's pair has a single address at this end, or none.
            Some("veth") => {
                let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
                let is_segment = |it: &netlink::Address| {
                    let alone = model::host_net(it.address.addr()).prefix_len();
                    it.link == out.index
                        && it.address.prefix_len() < alone
                        && it.address.contains(&packet.destination)
                };
                out.group != 0 || !all.iter().any(is_segment)
            }
            _ => false,
        })
    }

    /// That a next hop on the link answers who has its address, as far as the kernel has asked.
    fn is_there_beyond(&mut self, out: &Link, next: IpAddr) -> Walked<()> {
        let all = self.ask(|kernel| kernel.neighbours(Space::HOST, out.index))?;
        let Some(entry) = all.iter().find(|it| it.address == next && it.mac.is_none()) else {
            return Ok(());
        };
        let is_end = [&self.trip.from, &self.trip.to]
            .into_iter()
            .any(|end| matches!(end, End::Address(address) if *address == next));
        if !is_end || !out.flags.resolves() {
            if entry.failed {
                self.is_unanswered((Space::HOST, "this host"), out, next);
            }
            return Ok(());
        }
        let fix = format!("ip neigh del {next} dev {}", out.name);
        let name = &out.name;
        if entry.failed {
            let what = format!(
                "{next} does not answer on {name}: its neighbour entry is FAILED. That machine is off, is not on \
                 this link, or drops ARP and neighbour discovery"
            );
            return Err(self.fail(Hop::new("neighbour", what).fixed(fix)));
        }
        let what = format!(
            "{next} has not answered on {name} yet: its neighbour entry is INCOMPLETE; ask again in a few seconds"
        );
        Err(self.unknown("neighbour", what))
    }

    /// The host that has an address, as hosts know it of each other.
    pub(super) fn elsewhere(&self, address: IpAddr) -> Option<Elsewhere> {
        let of_it = self.trip.elsewhere.iter().filter(|there| there.net.contains(&address));
        of_it.max_by_key(|there| there.net.prefix_len()).cloned()
    }

    /// What is beyond this host is not seen from here.
    pub(super) fn leaves(&mut self, there: &Elsewhere, out: &Link, next: IpAddr) -> super::Stop {
        let Elsewhere { host, trouble, .. } = there;
        let leaves = format!("the packet leaves {} for host {host}, which has {next}", out.name);
        let what = match trouble {
            Some(why) => format!("{leaves}; {why}"),
            None => format!(
                "{leaves}; this host does not see what happens there: `spoke host check` says whether packets arrive, \
                 and `spoke explain` on {host} goes on"
            ),
        };
        let hop = Hop { status: Status::Unknown, ..Hop::new("host", what) };
        self.fail(hop)
    }

    /// That the answers to the address that a packet leaves with come to this host.
    fn is_answered_here(
        &mut self,
        out: &Link,
        own: IpAddr,
        translation: &Translation,
    ) -> Walked<()> {
        if self.ask(|kernel| kernel.owner(Space::HOST, own))?.is_some() {
            return Ok(());
        }
        // Where a router leads the address to this host, it needs not have it.
        let way = self.ask(|kernel| kernel.way(Space::HOST, &Routed::new(own)))?;
        let place = translation.place.clone();
        let by = self.author(Space::HOST, &place)?;
        let fix = format!("ip addr add {own} dev {}", out.name);
        if !matches!(way, RouteLookup::Out { link, gateway: None, .. } if link == out.index) {
            if by != Author::Spoke || way == RouteLookup::Local {
                return Ok(());
            }
            // A network of Spoke's names an address of this host: it is not there any more.
            let what = format!(
                "{place} sends it from {own}, as its network says (--source), which is no address of this host: it \
                 is answered only if a router leads {own} to this host"
            );
            let hop = Hop { status: Status::Unknown, ..Hop::new("masquerade", what) };
            return Err(self.fail(hop.by(by).ruled(place).fixed(fix)));
        }
        // The kernel answers for others by the device that leads to them with these only.
        let key = Parameter::proxy(Family::of(&model::host_net(own)), out.name.as_str());
        if self.ask(|kernel| kernel.parameter(Space::HOST, key.path()))?.as_deref() == Some("1") {
            return Ok(());
        }
        let what = format!(
            "{place} sends it from {own}, which this host does not have: no host answers for that on {}",
            out.name
        );
        Err(self.fail(Hop::new("masquerade", what).by(by).ruled(place).fixed(fix)))
    }

    /// Notes that the answer to a container's own address needs a route to its network, which is not this host's.
    fn needs_route_back(
        &mut self,
        out: &Link,
        (network, net): (&str, IpNet),
        packet: &Packet,
    ) -> Walked<()> {
        let (from, to) = (packet.source, packet.destination);
        let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
        let mut own = all.iter().filter(|it| it.link == out.index && it.scope == 0);
        let own = own.find(|it| Family::of(&it.address) == packet.family());
        let by = own.map_or_else(|| out.name.to_string(), |own| own.address.addr().to_string());
        self.unhidden = Some(format!(
            "it leaves by {} from {from}, as network {network} does not masquerade: it is answered only if {to}, or \
             the router before it, has a route to {net} by {by}, which cannot be seen from here",
            out.name
        ));
        Ok(())
    }

    /// That a container's own address does not leave this host where its network hides it.
    fn is_hidden(&mut self, out: &Link, packet: &Packet) -> Walked<()> {
        let (from, family) = (packet.source, packet.family());
        let site = self.trip.from.site().filter(|_| !packet.is_reply && !packet.is_snat);
        let Some((site, plug)) = site.and_then(|site| Some((site, site.plug_of(from)?))) else {
            return Ok(());
        };
        let (name, is_kept) = (site.name.clone(), plug.via.is_some());
        if is_kept {
            return Ok(());
        }
        if !plug.hides.contains(&family) {
            let net = plug.addresses.iter().map(|(net, _)| net).find(|net| net.addr() == from);
            let net = net.map_or_else(|| model::host_net(from), IpNet::trunc);
            let network = plug.called().to_owned();
            return self.needs_route_back(out, (&network, net), packet);
        }
        // Other hosts may know the network: only what is for all others is hidden in any case.
        let rules = self.ask(|kernel| kernel.rules(Space::HOST))?;
        // By iptables there is no table of Spoke's that says so.
        let may_spare = rules.has_table(INET, "spoke") || rules.has_table(IP, "nat");
        if !matches!(self.trip.to, End::Outside) && may_spare {
            return Ok(());
        }
        let what = format!(
            "it leaves by {} from {from}, which is not answered there: nothing masquerades what {name} sends",
            out.name
        );
        let fix = "systemctl restart spoke";
        Err(self.fail(Hop::new("masquerade", what).by(Author::Spoke).fixed(fix)))
    }
}

/// `NFPROTO_INET`.
const INET: u8 = 1;
/// `NFPROTO_IPV4`.
const IP: u8 = 2;
