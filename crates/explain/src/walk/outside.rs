//! What comes from beyond this host: by which link, and whether the kernel takes the source for possible there.

use std::net::IpAddr;

use model::Family;
use netlink::sysctl::Parameter;
use netlink::{Address, Link, RouteLookup, Routed};

use super::{Arrived, End, Hop, Walked, Walker};
use crate::packet::{Device, Packet};
use crate::port::Space;
use crate::rules::Author;

/// The value of `rp_filter` with which a packet has to come by the link by which the answer leaves (RFC 3704).
const STRICT: u8 = 1;
/// No more other links are looked at.
const LINKS: usize = 8;

impl Walker<'_> {
    /// What comes from beyond the default route.
    pub(super) fn comes_from_outside(&mut self, packet: &mut Packet) -> Walked<Arrived> {
        let index = match (packet.is_reply, self.left) {
            // The machine that answers sends to where the packet came from.
            (true, Some(left)) => left,
            _ => self.calls(packet)?,
        };
        let link = self.link_of_host(index)?;
        if !packet.is_reply {
            self.ok("outside", format!("{} comes in by {}", packet.source, link.name));
            self.other_ways_in(&link, packet)?;
        }
        self.is_connected(&link, "the way to the outside", packet)?;
        packet.input = Some(Device::from(&link));
        self.ingress(packet)?;
        self.host(&link, packet)
    }

    /// The link by which a machine beyond calls; its address becomes the packet's source.
    fn calls(&mut self, packet: &mut Packet) -> Walked<u32> {
        let (family, called) = (packet.family(), packet.destination);
        let Some((uplink, own)) = self.uplink(family)? else {
            return Err(self.unknown("outside", "this host has no way to the outside"));
        };
        if packet.is_reply {
            return Ok(uplink);
        }
        let far = self.caller(family);
        let way = self.ask(|kernel| kernel.way(Space::HOST, &Routed::new(far)))?;
        let is_given = matches!(self.trip.from, End::Address(_));
        // Who is on a segment of this host sends by that, whatever address of this host it calls.
        let is_near = is_given && matches!(way, RouteLookup::Out { gateway: None, .. });
        let entry = if is_near { None } else { self.entry(called)? };
        let index = entry.unwrap_or(uplink);
        let is_out = matches!(way, RouteLookup::Out { .. })
            && (index == uplink || self.leads_out(index, called, far)?);
        let net_of = entry.map_or(own, |_| called);
        packet.source = if is_given || is_out { far } else { self.near(index, net_of)? };
        packet.original.source = packet.source;
        Ok(index)
    }

    /// Whether what this host sends from its address on a link leaves by that: one of several ways out.
    fn leads_out(&mut self, link: u32, own: IpAddr, far: IpAddr) -> Walked<bool> {
        let asked = Routed { from: Some(own), ..Routed::new(far) };
        let way = self.ask(|kernel| kernel.way(Space::HOST, &asked))?;
        Ok(matches!(way, RouteLookup::Out { link: out, .. } if out == link))
    }

    /// An address of the segment that is not this host's: of the subnet of `own`, or else of another one of the link.
    fn near(&mut self, link: u32, own: IpAddr) -> Walked<IpAddr> {
        let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
        let is_its = |it: &&Address| {
            it.link == link && it.scope == 0 && it.address.addr().is_ipv4() == own.is_ipv4()
        };
        let mut nets: Vec<&Address> = all.iter().filter(is_its).collect();
        nets.sort_by_key(|it| it.address.addr() != own);
        let is_own = |host: &IpAddr| all.iter().any(|it| it.address.addr() == *host);
        let other = nets.into_iter().find_map(|it| it.address.hosts().find(|host| !is_own(host)));
        other.ok_or_else(|| self.unknown("outside", "this host has no way to the outside"))
    }

    /// The link that a machine beyond sends to, which calls this address of the host: that which has it.
    fn entry(&mut self, to: IpAddr) -> Walked<Option<u32>> {
        let Some(index) = self.ask(|kernel| kernel.owner(Space::HOST, to))? else {
            return Ok(None);
        };
        let link = self.link_of_host(index)?;
        Ok(is_uplink(&link).then_some(index))
    }

    /// Says by which other links the same would be dropped.
    fn other_ways_in(&mut self, input: &Link, packet: &Packet) -> Walked<()> {
        if packet.family() == Family::V6 {
            return Ok(());
        }
        let way = self.ask(|kernel| kernel.way(Space::HOST, &Routed::new(packet.source)))?;
        let RouteLookup::Out { link: back, gateway: Some(_), .. } = way else { return Ok(()) };
        let all = self.ask(|kernel| kernel.addresses(Space::HOST))?;
        let is_of_link = |it: &&Address| {
            it.scope == 0 && it.address.addr().is_ipv4() && it.address.prefix_len() < 32
        };
        let mut links: Vec<u32> = all.iter().filter(is_of_link).map(|it| it.link).collect();
        links.dedup();
        links.retain(|link| ![input.index, back].contains(link));
        for index in links.into_iter().take(LINKS) {
            let link = self.link_of_host(index)?;
            if is_uplink(&link) && self.rp_filter(Space::HOST, &link)? == STRICT {
                let name = &link.name;
                let mend = Parameter::rp_filter(name.as_str()).command("2");
                self.note(
                    "rp-filter",
                    format!(
                        "by {name} it would be dropped: rp_filter of {name} is strict, and the answer leaves by \
                         another link ({mend})"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Whether `rp_filter` refuses the source: no way leads back, or where it is strict another one.
    pub(super) fn is_filtered_back(
        &mut self,
        space: Space,
        input: &Link,
        packet: &Packet,
    ) -> Walked<bool> {
        if packet.family() == Family::V6 {
            return Ok(false);
        }
        let mode = self.rp_filter(space, input)?;
        let back = Routed::new(packet.source);
        let way = self.ask(|kernel| kernel.way(space, &back))?;
        Ok(match (mode, way) {
            (0, _) => false,
            (1, RouteLookup::Out { link, .. }) => link != input.index,
            (_, RouteLookup::Out { .. }) => false,
            _ => true,
        })
    }

    /// How strict it is: the kernel takes the larger value of the device and of all devices.
    fn rp_filter(&mut self, space: Space, input: &Link) -> Walked<u8> {
        let mut mode = 0;
        for name in ["all", input.name.as_str()] {
            let key = Parameter::rp_filter(name);
            let value = self.ask(|kernel| kernel.parameter(space, key.path()))?;
            mode = mode.max(value.and_then(|value| value.parse().ok()).unwrap_or(0));
        }
        Ok(mode)
    }

    pub(super) fn filtered_back(&mut self, input: &Link, packet: &Packet) -> super::Stop {
        let (from, name) = (packet.source, &input.name);
        let back = match self.ask(|kernel| kernel.way(Space::HOST, &Routed::new(from))) {
            Ok(RouteLookup::Out { link, .. }) => self.link_of_host(link).ok(),
            Ok(_) => None,
            Err(stop) => return stop,
        };
        let by = back.as_ref().map_or(String::new(), |back| format!(", but by {}", back.name));
        let what = format!(
            "rp_filter of {name} drops it: what is for {from} does not leave by {name}, by which it came{by}"
        );
        // A way back by any device is enough for the loose one.
        let fix = match back {
            Some(_) => Parameter::rp_filter(name.as_str()).command("2"),
            None => unfiltered(name.as_str()),
        };
        self.fail(Hop::new("rp-filter", what).by(Author::Operator).fixed(fix))
    }
}

/// Drivers of links behind which are no other hosts: those of a bridge are containers', the rest leads nowhere by itself.
const INNER: [&str; 4] = ["bridge", "dummy", "ifb", "vrf"];

/// Whether a link leads to other hosts: no container is behind it.
pub(super) fn is_uplink(link: &Link) -> bool {
    let is_inner = link.kind.as_deref().is_some_and(|kind| INNER.contains(&kind));
    link.flags.is_up() && !link.flags.is_loopback() && link.group == 0 && !is_inner
}

/// The command that turns `rp_filter` off: the kernel takes the larger value of the device and of all devices.
pub(super) fn unfiltered(device: &str) -> String {
    format!("{} {}=0", Parameter::rp_filter(device).command("0"), Parameter::rp_filter("all"))
}

#[cfg(test)]
mod tests;
