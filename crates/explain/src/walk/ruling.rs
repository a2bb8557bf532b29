//! What the packet filter does, and who has it do so.

use super::fix::{Refused, fix, followed, of_place};
use super::{Hop, Plug, Site, Walked, Walker, mend};
use crate::judge::judge;
use crate::packet::Packet;
use crate::port::Space;
use crate::rules::{Author, Point, RuleLocation, Ruling, author};

/// The hop, what is to be said of it, and the command that mends it, where there is one.
pub(super) type Known = (&'static str, String, Option<String>);

impl Walker<'_> {
    /// Lets the packet filter judge; the walk ends where it drops, or cannot be understood.
    pub(super) fn judged(
        &mut self,
        space: Space,
        point: Point,
        packet: &mut Packet,
        about: &str,
    ) -> Walked<Ruling> {
        match self.ask(|kernel| judge(kernel, space, point, packet))? {
            passes @ Ruling::Passes { .. } => Ok(passes),
            Ruling::Dropped(place) => Err(self.dropped((space, about), packet, place)),
            Ruling::Unknown(place) => {
                let what = match (&place.unclear, place.chain.is_empty()) {
                    (Some(why), true) => format!("{about}: {why}"),
                    (Some(why), false) => format!(
                        "{about} depends on {place}, which Spoke does not understand ({why})"
                    ),
                    (None, _) => format!("{about} depends on {place}"),
                };
                let hop = Hop::new("filter", what).by(self.author(space, &place)?).ruled(place);
                Err(self.fail(Hop { status: super::hop::Status::Unknown, ..hop }))
            }
        }
    }

    /// As [`Walker::judged`], where nothing may be translated.
    pub(super) fn filtered(
        &mut self,
        space: Space,
        point: Point,
        packet: &mut Packet,
        about: &str,
    ) -> Walked<()> {
        match self.judged(space, point, packet, about)? {
            Ruling::Passes { destination: Some(translation), .. } => {
                let what = format!("{about} is led elsewhere by {}", translation.place);
                Err(self.unknown("filter", what))
            }
            _ => Ok(()),
        }
    }

    /// As [`Walker::judged`]; the destination becomes what it is translated to.
    pub(super) fn translated(
        &mut self,
        point: Point,
        packet: &mut Packet,
        about: &str,
    ) -> Walked<()> {
        let ruling = self.judged(Space::HOST, point, packet, about)?;
        if let Ruling::Passes { destination: Some(translation), .. } = ruling {
            self.lead(packet, translation)?;
        }
        Ok(())
    }

    /// What a bridge does to a frame.
    pub(super) fn of_frame(&mut self, point: Point, packet: &mut Packet) -> Walked<()> {
        self.filtered(Space::HOST, point.in_bridge(), packet, "the frame in the bridge")
    }

    /// What a device does to what comes in.
    pub(super) fn ingress(&mut self, packet: &mut Packet) -> Walked<()> {
        self.filtered(Space::HOST, Point::Ingress, packet, "what comes in")
    }

    /// What a device does to what goes out.
    pub(super) fn egress(&mut self, packet: &mut Packet) -> Walked<()> {
        self.filtered(Space::HOST, Point::Egress, packet, "what goes out")
    }

    pub(super) fn author(&mut self, space: Space, place: &RuleLocation) -> Walked<Author> {
        let rules = self.ask(|kernel| kernel.rules(space))?;
        Ok(author(&rules, place))
    }

    fn dropped(
        &mut self,
        (space, about): (Space, &str),
        packet: &Packet,
        place: RuleLocation,
    ) -> super::Stop {
        let by = match self.author(space, &place) {
            Ok(by) => by,
            Err(stop) => return stop,
        };
        let verb = if place.rejects { "refuses" } else { "drops" };
        let is_supposed = matches!(self.trip.from, super::End::Outside);
        let source = (!is_supposed).then_some(packet.original.source);
        let is_certain = !self.goes_to_supposed(packet);
        let refused = Refused { packet, source, is_certain, place: &place };
        if space != Space::HOST {
            let fix = self.taken_out(space, &place, by);
            let hop = Hop::new("filter", format!("{place} {verb} {about}"));
            return self.fail(hop.by(by).ruled(place).fixed_if(fix));
        }
        let known = followed(&refused, self.trip.follows.as_ref())
            .or_else(|| direct(packet, by, &place))
            .or_else(|| self.used_up(packet.is_reply, &place))
            .or_else(|| self.of_ours(packet, &place));
        let (hop, what, fix) = match known {
            Some(known) => known,
            None => {
                let what = format!("{place} {verb} {about}");
                match fix(&refused, by) {
                    Ok(command) => ("filter", what, Some(command)),
                    Err(why) => ("filter", format!("{what}; {why}"), None),
                }
            }
        };
        self.fail(Hop::new(hop, what).by(by).ruled(place).fixed_if(fix))
    }

    /// The command that takes out what refuses. Firewalls of a container are not changed by their own commands: only the
    /// network is the container's there, and files and daemons would be this host's.
    pub(super) fn taken_out(
        &self,
        space: Space,
        place: &RuleLocation,
        by: Author,
    ) -> Option<String> {
        let is_firewall = [Author::Ufw, Author::Firewalld, Author::Docker].contains(&by);
        match (place.is_spokes(), is_firewall && space != Space::HOST && place.rule.is_none()) {
            (true, _) => Some(of_place(place)),
            // Such a policy stands behind all that the firewall lets in.
            (false, true) => None,
            (false, false) => self.within(space, &of_place(place)),
        }
    }

    /// Whether a packet goes to an address that only stands for all that are beyond this host.
    pub(super) fn goes_to_supposed(&self, packet: &Packet) -> bool {
        match packet.is_reply {
            true => matches!(self.trip.from, super::End::Outside),
            false => self.trip.address.is_none() && matches!(self.trip.to, super::End::Outside),
        }
    }

    /// The container that is called, and its first interface.
    fn called(&self) -> Option<(&Site, &Plug)> {
        self.trip.to.site().and_then(|site| Some((site, site.plugs.first()?)))
    }

    /// Has who begins join the network of who is called.
    fn join(&self) -> Option<String> {
        let (_, plug) = self.called()?;
        mend::connect(self.trip.from.site()?, plug)
    }

    /// Publishes the port that is called.
    fn publish(&self, packet: &Packet) -> Option<String> {
        // Of the container: an answer comes from it.
        let ((site, _), port) = (self.called()?, packet.carried.port()?);
        Some(mend::publish(site, &mend::same(port, packet.carried.protocol_name())))
    }

    /// A quota that is used up. What a container sends comes in by its interface; what it receives goes out by it.
    pub(super) fn used_up(&self, is_reply: bool, place: &RuleLocation) -> Option<Known> {
        if place.table != "spoke_quota" {
            return None;
        }
        let is_of_sender = (place.chain == "prerouting") != is_reply;
        let end = if is_of_sender { &self.trip.from } else { &self.trip.to };
        let name = end.site().map_or("the container", |site| site.name.as_str());
        let what = format!("the quota of {name} is used up until its period ends ({place})");
        let fix = end.site().map(mend::without_quota);
        Some(("quota", what, fix))
    }

    /// What a drop in Spoke's own table means.
    fn of_ours(&self, packet: &Packet, place: &RuleLocation) -> Option<Known> {
        const OURS: [&str; 5] =
            ["spoke", "spoke_transit", "spoke_names", "spoke_fence", "spoke_via"];
        if !OURS.contains(&place.table.as_str()) {
            return None;
        }
        let join = self.join();
        let (hop, what, fix) = match (place.family, place.table.as_str(), place.chain.as_str()) {
            (7, ..) => (
                "spoofing",
                "a container sends with an address that is not its own, as --egress and --anti-spoof forbid"
                    .to_owned(),
                None,
            ),
            (_, "spoke", "internals") => (
                "internal",
                "one of the networks is internal: nothing passes between it and anything else"
                    .to_owned(),
                join,
            ),
            (_, "spoke", "forward" | "guarded" | "passing") => (
                "isolation",
                "networks are isolated from each other, but for published ports".to_owned(),
                join,
            ),
            (_, "spoke", "unknown") => of_no_connection(),
            (_, "spoke", "direct") | (_, "spoke_transit", _) => (
                "published",
                "what is not published is not reached from outside at the container's own address"
                    .to_owned(),
                self.publish(packet),
            ),
            (_, "spoke", "reach") => (
                "published",
                "the port is published for the host's own segments, or for this host, only"
                    .to_owned(),
                self.called().and_then(|(site, plug)| mend::widen(site, plug)),
            ),
            (_, "spoke", "loopback") => (
                "loopback",
                "loopback addresses do not come in from outside: another address of this host has to be called"
                    .to_owned(),
                None,
            ),
            (_, "spoke_fence", "forged") | (_, "spoke_via", "sender") => (
                "spoofing",
                "a container sends with an address that is not its own".to_owned(),
                None,
            ),
            (_, "spoke_fence", "arriving") => in_anothers_name(),
            (_, "spoke_fence", _) => self.of_fence(packet, place),
            (_, "spoke_via", _) => (
                "via",
                "the network leaves this host by its own way only (--via)".to_owned(),
                None,
            ),
            _ => return None,
        };
        Some((hop, format!("{what} ({place})"), fix))
    }

    /// What egress rules refuse: of who begins, or of who answers.
    fn of_fence(&self, packet: &Packet, place: &RuleLocation) -> Known {
        let is_own = place.path.iter().any(|chain| chain.starts_with("own_"));
        let end = if packet.is_reply { &self.trip.to } else { &self.trip.from };
        let fenced_one = end.site().and_then(|site| {
            let plug = site.plug_of(packet.source).or(site.plugs.first())?;
            Some((site, plug))
        });
        match (packet.is_reply, place.path.iter().any(|chain| chain == "input")) {
            (false, _) => fenced(fenced_one, is_own),
            // What this host began is answered.
            (true, true) => in_anothers_name(),
            (true, false) => answered(fenced_one, is_own, self.publish(packet)),
        }
    }
}

/// What Docker drops that does not come by a container's bridge, or of a port of a loopback address.
fn direct(packet: &Packet, by: Author, place: &RuleLocation) -> Option<Known> {
    if by != Author::Docker || !place.is_direct_access() {
        return None;
    }
    let to = packet.destination;
    let what = match to.is_loopback() {
        true => format!(
            "Docker publishes the port for programs of this host only, at {to}; docker run -p without \
                 a loopback address does for all ({place})"
        ),
        false => format!(
            "Docker lets nothing to {to} that does not come by its bridge, but to ports of docker run -p \
                 ({place})"
        ),
    };
    Some(("published", what, None))
}

/// What would leave with a container's own address.
fn of_no_connection() -> Known {
    (
        "masquerade",
        "connection tracking takes it for no packet of a connection: it would leave with the container's own \
         address"
            .to_owned(),
        None,
    )
}

/// What is taken for a flow in the name of another one.
fn in_anothers_name() -> Known {
    (
        "spoofing",
        "this host would answer it by another device than it came by: containers with egress rules take no part in \
         a flow that may be in another's name"
            .to_owned(),
        None,
    )
}

/// What egress rules refuse, of a network or of the container alone.
fn fenced(from: Option<(&Site, &Plug)>, is_own: bool) -> Known {
    let what = match (from, is_own) {
        (Some((site, _)), true) => format!(
            "the egress rules of {} do not allow it (spoke egress set --container {} sets them)",
            site.name,
            mend::full(site)
        ),
        // Two runtimes may call different networks alike: a command is given the name that is one network's.
        (Some((_, plug)), false) => {
            let sets = plug.in_commands.as_ref().map_or_else(String::new, |network| {
                format!(
                    ": spoke egress suggest {network} names the rule, and spoke egress set {network} sets it"
                )
            });
            format!("the egress rules of network {} do not allow it{sets}", plug.called())
        }
        (None, _) => "egress rules do not allow it".to_owned(),
    };
    ("egress", what, None)
}

/// An answer that egress rules refuse: what others began is not answered to everybody.
fn answered(to: Option<(&Site, &Plug)>, is_own: bool, publish: Option<String>) -> Known {
    let who = match (to, is_own) {
        (Some((site, _)), true) => format!("{} has egress rules, and", site.name),
        (Some((_, plug)), false) => format!("network {} has egress rules, and", plug.called()),
        (None, _) => "who has egress rules".to_owned(),
    };
    let what = format!(
        "{who} answers only what came by a published port, from this host's networks or by routes"
    );
    ("egress", what, publish)
}

#[cfg(test)]
mod tests;
