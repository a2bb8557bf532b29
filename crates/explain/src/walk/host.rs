//! This host: what it routes, takes and sends.

use std::net::IpAddr;

use model::{Family, WAY_MARK};
use netlink::sysctl::Parameter;
use netlink::{Errno, Link, RouteLookup, Routed};

use super::resolve::Owner;
use super::{Arrived, Bridging, End, Hop, Walked, Walker, mend};
use crate::packet::{Device, Packet};
use crate::port::{Space, Which};
use crate::rules::{Author, Point};

impl Walker<'_> {
    /// A packet that has come in by `input`.
    pub(super) fn host(&mut self, input: &Link, packet: &mut Packet) -> Walked<Arrived> {
        let before = (packet.destination, packet.destination_port());
        self.translated(Point::PREROUTING, packet, &format!("what comes by {}", input.name))?;
        self.answer_is_translated(packet);
        let is_translated = before != (packet.destination, packet.destination_port());
        if is_translated && !packet.is_reply {
            let port = packet.destination_port().map_or(String::new(), |port| format!(":{port}"));
            self.ok(
                "port-map",
                format!("the packet filter leads it to {}{port}", packet.destination),
            );
        }
        let to = packet.destination;
        let mark = self.mark(packet)?;
        let transport = packet.transport();
        let alone = Routed { mark, transport, ..Routed::new(to) };
        let is_local = self.ask(|kernel| kernel.way(Space::HOST, &alone))? == RouteLookup::Local;
        if !is_local {
            self.forwards(input, packet)?;
        }
        let (from, input_index) = (Some(packet.source), Some(input.index));
        let asked = Routed { from, input: input_index, ..alone };
        match self.ask(|kernel| kernel.way(Space::HOST, &asked))? {
            RouteLookup::Out { link, gateway, .. } => {
                let out = self.link_of_host(link)?;
                packet.output = Some(Device::from(&out));
                self.mark_of_way(input, &out, packet);
                let about = format!("what passes from {} to {}", input.name, out.name);
                self.filtered(Space::HOST, Point::FORWARD, packet, &about)?;
                self.ok(
                    "forward",
                    format!("this host forwards from {} to {}", input.name, out.name),
                );
                self.out(&out, gateway, packet)
            }
            RouteLookup::Local => self.taken_by_host(packet),
            RouteLookup::Nowhere(_) if self.is_filtered_back(Space::HOST, input, packet)? => {
                Err(self.filtered_back(input, packet))
            }
            _ if is_local => self.taken_by_host(packet),
            other => Err(self.not_routed(input, packet, other)),
        }
    }

    /// The mark that routing rules go by.
    fn mark(&mut self, packet: &Packet) -> Walked<u32> {
        if let Some(mark) = packet.mark {
            return Ok(mark);
        }
        let family = packet.family();
        if !self.ask(|kernel| kernel.routes_by_mark(Space::HOST, family))? {
            return Ok(0);
        }
        let what = "a mark decides how this host routes it, and a rule that sets the mark is not understood";
        Err(self.unknown("host-route", what))
    }

    /// Reverses what the first packet's addresses were translated to.
    fn answer_is_translated(&mut self, packet: &mut Packet) {
        if packet.is_reply && packet.is_snat {
            packet.destination = packet.original.source;
        }
    }

    pub(super) fn link_of_host(&mut self, index: u32) -> Walked<Link> {
        let link = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(index)))?;
        link.ok_or_else(|| self.unknown("route", "the route leads out of a device that is gone"))
    }

    fn forwards(&mut self, input: &Link, packet: &Packet) -> Walked<()> {
        let (family, all) = (packet.family(), Parameter::host_forwarding(packet.family()));
        let mut read =
            |key: &Parameter| self.ask(|kernel| kernel.parameter(Space::HOST, key.path()));
        let by_device = Parameter::forwarding(family, input.name.as_str());
        let own = read(&by_device)?;
        let every = read(&Parameter::forwarding(family, "all"))?;
        let forced = read(&Parameter::force_forwarding(input.name.as_str()))?;
        let is_on = match packet.family() {
            Family::V4 => own.as_deref() == Some("1"),
            // `ip6_forward` asks for all devices together, and newer kernels for one that always forwards.
            Family::V6 => every.as_deref() == Some("1") || forced.as_deref() == Some("1"),
        };
        if is_on {
            return Ok(());
        }
        let (what, fix) = match every.as_deref() {
            Some("1") => (
                format!("this host does not forward what comes by {}", input.name),
                Some(by_device.command("1")),
            ),
            _ => {
                let what = "the next container that starts turns that on, with its guard";
                let sites = [&self.trip.to, &self.trip.from].into_iter().filter_map(End::site);
                let plugs = sites.flat_map(|site| site.plugs.iter().map(move |plug| (site, plug)));
                let mut plugs = plugs.filter(|(_, plug)| plug.address(packet.family()).is_some());
                let fix = plugs.find(|(_, plug)| !plug.is_internal).and_then(|(site, plug)| {
                    mend::forward(site.runtime, &site.name, plug.in_commands.as_deref())
                });
                (format!("this host does not forward packets ({all} is 0); {what}"), fix)
            }
        };
        Err(self.fail(Hop::new("forwarding", what).by(Author::Operator).fixed_if(fix)))
    }

    fn not_routed(&mut self, input: &Link, packet: &Packet, way: RouteLookup) -> super::Stop {
        let (to, from, name) = (packet.destination, packet.source, &input.name);
        match way {
            RouteLookup::Nowhere(_) if let Some((network, via)) = self.way_out(input) => {
                let what = format!(
                    "network {network} leaves this host by {via} only, and there is no way out by that now: \
                     what is for {to} ends here"
                );
                self.fail(Hop::new("via", what).by(Author::Spoke))
            }
            RouteLookup::Nowhere(errno) => {
                let kind = match errno {
                    Errno::INVAL => "a blackhole route, or takes its source for impossible",
                    Errno::HOSTUNREACH => "an unreachable route",
                    Errno::ACCESS => "a prohibiting route",
                    _ => "no route",
                };
                let what = format!("this host has {kind} to {to} (from {from} by {name})");
                let fix = self.onto_its_bridge(to);
                self.fail(Hop::new("host-route", what).by(Author::Operator).fixed_if(fix))
            }
            RouteLookup::Many | RouteLookup::Local | RouteLookup::Out { .. } => {
                self.unknown("host-route", format!("{to} is a broadcast address to this host"))
            }
        }
    }

    /// What comes in by the host's own ways to a network with another one.
    fn mark_of_way(&self, input: &Link, out: &Link, packet: &mut Packet) {
        let is_new = !packet.is_reply && input.group != out.group;
        if is_new && self.way_out(out).is_some() {
            packet.connection_mark = WAY_MARK;
        }
    }

    /// The network behind a bridge, and its only way out, where it has one.
    fn way_out(&self, input: &Link) -> Option<(String, String)> {
        let sites = [&self.trip.from, &self.trip.to].into_iter().filter_map(End::site);
        let mut plugs = sites.flat_map(|site| &site.plugs);
        plugs.find_map(|plug| match (&plug.bridging, &plug.via) {
            (Bridging::In(bridge), Some(via)) if *bridge == input.name => {
                Some((plug.called().to_owned(), via.clone()))
            }
            _ => None,
        })
    }

    /// A packet for this host itself.
    fn taken_by_host(&mut self, packet: &mut Packet) -> Walked<Arrived> {
        packet.output = None;
        self.filtered(Space::HOST, Point::INPUT, packet, "what is for this host")?;
        if packet.is_reply {
            return Ok(Arrived::Host);
        }
        self.is_not_lost(packet)?;
        self.host_listens(packet)?;
        Ok(Arrived::Host)
    }

    /// What this host sends itself.
    pub(super) fn sent_by_host(&mut self, packet: &mut Packet) -> Walked<Arrived> {
        let own = packet.is_reply.then_some(packet.source);
        self.answer_is_translated(packet);
        let (mut way, source) = self.way_of_host(packet, own)?;
        if own.is_none() {
            packet.source = source;
            packet.original.source = source;
        }
        packet.output = self.output_of(way)?;
        self.translated(Point::OUTPUT, packet, "what this host sends")?;
        if packet.is_dnat && !packet.is_reply {
            let to = packet.destination;
            self.ok("port-map", format!("the packet filter leads it to {to}"));
            (way, _) = self.way_of_host(packet, None)?;
            packet.output = self.output_of(way)?;
        }
        match way {
            RouteLookup::Out { link, gateway, .. } => {
                let out = self.link_of_host(link)?;
                self.leaves_loopback(&out, packet)?;
                self.ok("route", format!("this host sends it out of {}", out.name));
                self.out(&out, gateway, packet)
            }
            _ => {
                packet.source = if own.is_none() { packet.destination } else { packet.source };
                self.taken_by_host(packet)
            }
        }
    }

    /// That what comes from a loopback address is routed: a published port that is called at one.
    fn leaves_loopback(&mut self, out: &Link, packet: &Packet) -> Walked<()> {
        if packet.is_reply || packet.family() == Family::V6 || !packet.source.is_loopback() {
            return Ok(());
        }
        for name in ["all", out.name.as_str()] {
            let key = Parameter::route_localnet(name);
            if self.ask(|kernel| kernel.parameter(Space::HOST, key.path()))?.as_deref() == Some("1")
            {
                return Ok(());
            }
        }
        let key = Parameter::route_localnet(out.name.as_str());
        let (from, name) = (packet.source, &out.name);
        let what = format!("this host sends nothing from {from} out of {name} ({key} is 0)");
        let hop = Hop::new("host-route", what).by(Author::Operator);
        Err(self.fail(hop.fixed(key.command("1"))))
    }

    fn output_of(&mut self, way: RouteLookup) -> Walked<Option<Device>> {
        let index = match way {
            RouteLookup::Out { link, .. } => link,
            _ => 1,
        };
        Ok(Some(Device::from(&self.link_of_host(index)?)))
    }

    fn way_of_host(
        &mut self,
        packet: &Packet,
        from: Option<IpAddr>,
    ) -> Walked<(RouteLookup, IpAddr)> {
        let to = packet.destination;
        let asked = Routed { from, transport: packet.transport(), ..Routed::new(to) };
        match self.ask(|kernel| kernel.way(Space::HOST, &asked))? {
            way @ RouteLookup::Out { source, .. } => Ok((way, source.unwrap_or(packet.source))),
            RouteLookup::Local => Ok((RouteLookup::Local, to)),
            way => {
                let hop = match way {
                    RouteLookup::Nowhere(Errno::INVAL) => {
                        format!("this host has a blackhole route to {to}")
                    }
                    RouteLookup::Nowhere(_) => format!("this host has no route to {to}"),
                    _ => format!("{to} is a broadcast address to this host"),
                };
                let fix = self.onto_its_bridge(to);
                Err(self.fail(Hop::new("host-route", hop).by(Author::Operator).fixed_if(fix)))
            }
        }
    }

    pub(super) fn onto_bridge(
        &mut self,
        out: &Link,
        next: IpAddr,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        let Some(site) = self.receiver(next).cloned() else {
            return Err(self.unknown("neighbour", format!("no known device has {next}")));
        };
        self.bridge_is_up(out)?;
        let (link, port) = self.receiving(&site, next)?;
        if port.master != Some(out.index) {
            let what = format!(
                "this host sends what is for {next} to {}, where {} is not",
                out.name, site.name
            );
            let hop = Hop::new("host-route", what).by(Author::Operator);
            let fix = self.onto_its_bridge(next);
            return Err(self.fail(hop.fixed_if(fix)));
        }
        self.is_in_vlan(out, (out, &port))?;
        self.is_alone(&site, next)?;
        let seen = site.space().map(|space| (space, &link));
        let owner = Owner { name: &site.name, mac: link.mac, seen };
        let entry = self.neighbour((Space::HOST, "this host"), out, next, &owner)?;
        self.in_table((out, &port), link.mac, entry.is_some_and(|entry| entry.mac.is_some()))?;
        packet.macs = out.mac.zip(link.mac);
        packet.input = None;
        packet.output = Some(Device::from(&port));
        self.of_frame(Point::OUTPUT, packet)?;
        self.of_frame(Point::POSTROUTING, packet)?;
        self.egress(packet)?;
        self.deliver(&site, &link, packet)
    }

    pub(super) fn over_pair(
        &mut self,
        out: &Link,
        next: IpAddr,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        let Some(site) = self.receiver(next).cloned() else {
            return Err(self.unknown("neighbour", format!("no known device has {next}")));
        };
        let (link, end) = self.receiving(&site, next)?;
        if end.index != out.index {
            let what = format!(
                "this host sends what is for {next} to {}, which is not {}'s",
                out.name, site.name
            );
            let hop = Hop::new("host-route", what).by(Author::Operator);
            let fix = self.onto_its_bridge(next);
            return Err(self.fail(hop.fixed_if(fix)));
        }
        let seen = site.space().map(|space| (space, &link));
        let owner = Owner { name: &site.name, mac: link.mac, seen };
        self.neighbour((Space::HOST, "this host"), out, next, &owner)?;
        self.deliver(&site, &link, packet)
    }
}
