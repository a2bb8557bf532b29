//! How a sender learns the hardware address of a next hop: by ARP, or by neighbour discovery.

use std::net::{IpAddr, Ipv6Addr};

use model::Mac;
use netlink::sysctl::Parameter;
use netlink::{Link, Neighbour};

use super::hop::Status;
use super::{Hop, Walked, Walker};
use crate::judge::judge;
use crate::packet::{Carried, Device, Packet};
use crate::port::Space;
use crate::rules::{Author, Point, RuleLocation, Ruling};
use crate::tri::Tri;

/// Who has the address of a next hop.
pub(super) struct Owner<'a> {
    /// As it is shown.
    pub(super) name: &'a str,
    /// Its hardware address.
    pub(super) mac: Option<Mac>,
    /// Where it is asked, where that can be seen.
    pub(super) seen: Option<(Space, &'a Link)>,
}

/// No device answered who has this address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unanswered {
    what: String,
    fix: Option<String>,
}

/// Who asks for an address, and who is asked.
struct Asked<'a> {
    whose: &'a str,
    from: (Space, &'a Link),
    next: IpAddr,
    to: (Space, &'a Link),
}

/// To whom a question of ARP is sent.
const BROADCAST: Mac = Mac::new([0xff; 6]);

/// `arp_ignore`: no question is answered.
const ANSWERS_NONE: &str = "8";

impl Walker<'_> {
    /// Whether who sends knows the right hardware address, or can learn it.
    pub(super) fn neighbour(
        &mut self,
        (space, whose): (Space, &str),
        link: &Link,
        next: IpAddr,
        owner: &Owner<'_>,
    ) -> Walked<Option<Neighbour>> {
        let all = self.ask(|kernel| kernel.neighbours(space, link.index))?;
        let entry = all.into_iter().find(|entry| entry.address == next);
        let Some(known) = entry.and_then(|entry| entry.mac) else {
            self.asks((space, whose), link, next, owner)?;
            if entry.is_some_and(|entry| entry.failed) {
                self.is_unanswered((space, whose), link, next);
            }
            return Ok(entry);
        };
        let Some(mac) = owner.mac.filter(|mac| *mac != known) else { return Ok(entry) };
        let how = match entry.is_some_and(|entry| entry.permanent) {
            true => "set by hand",
            false => "learnt; does another device have the address too?",
        };
        let name = owner.name;
        let what =
            format!("{whose} sends what is for {next} to {known} ({how}), but {name} has {mac}");
        let fix = self.within(space, &format!("ip neigh del {next} dev {}", link.name));
        Err(self.fail(Hop::new("neighbour", what).fixed_if(fix)))
    }

    /// Notes that the kernel asked, and got no answer.
    pub(super) fn is_unanswered(
        &mut self,
        (space, whose): (Space, &str),
        link: &Link,
        next: IpAddr,
    ) {
        let name = &link.name;
        let what = format!(
            "{whose} asked on {name} who has {next}, and got no answer; why is not to be seen. Delete \
             that failed entry, try again, and ask again"
        );
        let fix = self.within(space, &format!("ip neigh del {next} dev {name}"));
        self.unanswered.get_or_insert(Unanswered { what, fix });
    }

    /// That every next hop answered.
    pub(super) fn are_answered(&mut self) -> Walked<()> {
        let Some(Unanswered { what, fix }) = self.unanswered.take() else { return Ok(()) };
        let hop = Hop::new("neighbour", what).fixed_if(fix);
        Err(self.fail(Hop { status: Status::Unknown, ..hop }))
    }

    /// That a question is answered.
    fn asks(
        &mut self,
        (space, whose): (Space, &str),
        link: &Link,
        next: IpAddr,
        owner: &Owner<'_>,
    ) -> Walked<()> {
        let Some((there, other)) = owner.seen else { return Ok(()) };
        if next.is_ipv6() {
            let asked = self.solicited((space, link), next, (there, other), false)?;
            let answered = self.solicited((space, link), next, (space, link), true)?;
            return match asked.map(|it| (there, it)).or(answered.map(|it| (space, it))) {
                Some((at, place)) => Err(self.undiscovered(at, place, (whose, next))),
                None => Ok(()),
            };
        }
        for (at, link, name) in [(space, link, whose), (there, other, owner.name)] {
            if !link.flags.resolves() {
                let what = format!("{name} does not use ARP: it is off on {}", link.name);
                let fix = self.within(at, &format!("ip link set {} arp on", link.name));
                return Err(
                    self.fail(Hop::new("neighbour", what).by(Author::Operator).fixed_if(fix))
                );
            }
        }
        self.answers_arp(there, other, owner.name)?;
        let asked = Asked { whose, from: (space, link), next, to: (there, other) };
        self.arp_passes(&asked, owner.mac)
    }

    /// That no rule drops the question or the answer: of the family `arp`, which is that of arptables too, of the
    /// devices on the way, or of the bridge between them.
    fn arp_passes(&mut self, asked: &Asked<'_>, mac: Option<Mac>) -> Walked<()> {
        let Asked { from: (asks, link), next, to, .. } = *asked;
        let own = self.ask(|kernel| kernel.addresses(asks))?;
        let mut own = own.iter().filter(|it| it.link == link.index).map(|it| it.address.addr());
        let Some(own) = own.find(IpAddr::is_ipv4) else { return Ok(()) };
        for is_reply in [false, true] {
            let (from, to) = if is_reply { (to, (asks, link)) } else { ((asks, link), to) };
            let (source, destination) = if is_reply { (next, own) } else { (own, next) };
            let macs = if is_reply { mac.zip(link.mac) } else { link.mac.zip(Some(BROADCAST)) };
            let mut packet = Packet {
                is_reply,
                is_untracked: Tri::Yes,
                macs,
                output: Some(Device::from(from.1)),
                ..Packet::new(source, destination, Carried::Arp)
            };
            self.arp_passes_at((from.0, Point::ARP_OUTPUT), &mut packet, asked)?;
            self.arp_passes_at((from.0, Point::Egress), &mut packet, asked)?;
            self.arp_passes_between((from, to), &mut packet, asked)?;
            (packet.input, packet.output) = (Some(Device::from(to.1)), None);
            self.arp_passes_at((to.0, Point::Ingress), &mut packet, asked)?;
            self.arp_passes_at((to.0, Point::ARP_INPUT), &mut packet, asked)?;
        }
        Ok(())
    }

    /// The same at the host's ends of both, and in their bridge.
    fn arp_passes_between(
        &mut self,
        (from, to): ((Space, &Link), (Space, &Link)),
        packet: &mut Packet,
        asked: &Asked<'_>,
    ) -> Walked<()> {
        let (comes, goes) = (self.host_end(from.0, from.1)?, self.host_end(to.0, to.1)?);
        let is_bridged = |end: &Link| end.master.is_some();
        packet.output = None;
        if let Some(end) = &comes {
            packet.input = Some(Device::from(end));
            self.arp_passes_at((Space::HOST, Point::Ingress), packet, asked)?;
            if is_bridged(end) {
                self.arp_passes_at((Space::HOST, Point::PREROUTING.in_bridge()), packet, asked)?;
            }
        }
        packet.output = goes.as_ref().map(Device::from);
        let within = match (&comes, &goes) {
            (Some(_), Some(_)) => Point::FORWARD,
            (Some(_), None) => Point::INPUT,
            (None, _) => Point::OUTPUT,
        };
        if comes.iter().chain(&goes).any(is_bridged) {
            self.arp_passes_at((Space::HOST, within.in_bridge()), packet, asked)?;
        }
        let Some(end) = &goes else { return Ok(()) };
        if is_bridged(end) {
            self.arp_passes_at((Space::HOST, Point::POSTROUTING.in_bridge()), packet, asked)?;
        }
        self.arp_passes_at((Space::HOST, Point::Egress), packet, asked)
    }

    fn arp_passes_at(
        &mut self,
        (space, point): (Space, Point),
        packet: &mut Packet,
        Asked { whose, next, .. }: &Asked<'_>,
    ) -> Walked<()> {
        let Ruling::Dropped(place) = self.ask(|kernel| judge(kernel, space, point, packet))? else {
            return Ok(());
        };
        let by = self.author(space, &place)?;
        // On the way back the one that is called asks.
        if let Some((hop, what, fix)) = self.used_up(packet.is_reply != self.is_back, &place) {
            return Err(self.fail(Hop::new(hop, what).by(by).ruled(place).fixed_if(fix)));
        }
        let what = format!("{place} drops the packets of ARP by which {whose} asks who has {next}");
        let fix = self.taken_out(space, &place, by);
        Err(self.fail(Hop::new("filter", what).by(by).ruled(place).fixed_if(fix)))
    }

    fn answers_arp(&mut self, space: Space, link: &Link, name: &str) -> Walked<()> {
        for conf in ["all", link.name.as_str()] {
            let key = Parameter::arp_ignore(conf);
            if self.ask(|kernel| kernel.parameter(space, key.path()))?.as_deref()
                == Some(ANSWERS_NONE)
            {
                let what = format!("{name} answers no question of ARP ({key} is {ANSWERS_NONE})");
                let fix = self.within(space, &key.command("0"));
                return Err(
                    self.fail(Hop::new("neighbour", what).by(Author::Operator).fixed_if(fix))
                );
            }
        }
        Ok(())
    }

    /// The rule that drops a neighbour solicitation where it comes in, or the advertisement.
    fn solicited(
        &mut self,
        (asks, link): (Space, &Link),
        next: IpAddr,
        (space, input): (Space, &Link),
        is_reply: bool,
    ) -> Walked<Option<RuleLocation>> {
        let all = self.ask(|kernel| kernel.addresses(asks))?;
        let mut own = all.iter().filter(|it| it.link == link.index && it.scope == 0);
        let own = own.find_map(|it| Some(it.address.addr()).filter(IpAddr::is_ipv6));
        let (Some(own), IpAddr::V6(target)) = (own, next) else { return Ok(None) };
        let (from, to) = if is_reply { (next, own) } else { (own, group(target).into()) };
        let mut packet = Packet {
            is_reply,
            is_untracked: Tri::Yes,
            input: Some(Device::from(input)),
            ..Packet::new(from, to, Carried::Neighbour)
        };
        for point in [Point::PREROUTING, Point::INPUT] {
            let ruling = self.ask(|kernel| judge(kernel, space, point, &mut packet))?;
            if let Ruling::Dropped(place) = ruling {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn undiscovered(
        &mut self,
        space: Space,
        place: RuleLocation,
        (whose, next): (&str, IpAddr),
    ) -> super::Stop {
        let by = match self.author(space, &place) {
            Ok(by) => by,
            Err(stop) => return stop,
        };
        if let Some((hop, what, fix)) = self.used_up(self.is_back, &place) {
            return self.fail(Hop::new(hop, what).by(by).ruled(place).fixed_if(fix));
        }
        let what = format!(
            "{place} drops the packets of ICMPv6 by which {whose} asks who has {next} (RFC 4861)"
        );
        let fix = match place.table.as_str() {
            "filter" => self.within(space, "ip6tables -I INPUT -p ipv6-icmp -j ACCEPT"),
            _ => self.taken_out(space, &place, by),
        };
        self.fail(Hop::new("filter", what).by(by).ruled(place).fixed_if(fix))
    }
}

/// The multicast group that an address is asked in (RFC 4291 §2.7.1).
fn group(target: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = target.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_in_its_group() {
        let asked = |target: &str| group(target.parse().unwrap()).to_string();
        assert_eq!(asked("fd70:1::3"), "ff02::1:ff00:3");
        assert_eq!(asked("2001:db8::12:3456:789a"), "ff02::1:ff56:789a");
    }
}
