//! A bridge: its port, whether it works, and what it switches.

use std::net::IpAddr;

use model::{Family, Mac};
use netlink::Link;
use netlink::sysctl::Parameter;

use super::leave::Out;
use super::resolve::Owner;
use super::{Arrived, Bridging, Hop, Plug, Site, Walked, Walker, mend};
use crate::packet::{Device, Packet};
use crate::port::{Space, Which};
use crate::rules::{Author, Point};

impl Walker<'_> {
    /// The bridge that the host's end of an interface is a port of; `None` where it is none by plan.
    pub(super) fn port(
        &mut self,
        (_, site, plug): (Option<Mac>, &Site, &Plug),
        end: &Link,
    ) -> Walked<Option<Link>> {
        let right = match (&plug.bridging, end.master) {
            (Bridging::In(bridge), _) => bridge,
            (Bridging::None | Bridging::Foreign, None) => return Ok(None),
            (Bridging::None, Some(_)) => {
                let what = format!("{} is in a bridge, where Spoke made none", end.name);
                return Err(self.unknown("bridge", what));
            }
            (Bridging::Foreign, Some(master)) => return self.foreign_bridge(end, master),
        };
        let fix = format!("ip link set {} master {right}", end.name);
        let whose = format!("{}, the host's end of {}", end.name, site.name);
        let Some(master) = end.master else {
            let there = self.ask(|kernel| kernel.link(Space::HOST, &Which::Name(right.clone())))?;
            let (what, fix) = match there {
                Some(_) => (format!("{whose}, is not in bridge {right}"), Some(fix)),
                None => (
                    format!(
                        "bridge {right} of network {} is gone: each container of it has to start anew",
                        plug.called()
                    ),
                    mend::restart(site),
                ),
            };
            return Err(self.fail(Hop::new("bridge", what).by(Author::Operator).fixed_if(fix)));
        };
        let bridge = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(master)))?;
        let Some(bridge) = bridge.filter(|bridge| bridge.kind.as_deref() == Some("bridge")) else {
            return Err(self.unknown("bridge", format!("{whose}, is a port of what is no bridge")));
        };
        if bridge.name != *right {
            let what = format!("{whose}, is in bridge {}, not in {right}", bridge.name);
            return Err(self.fail(Hop::new("bridge", what).by(Author::Operator).fixed(fix)));
        }
        self.bridge_is_up(&bridge)?;
        if end.port.is_some_and(|port| !port.forwards) {
            let what = format!("bridge {right} does not forward what comes by {}", end.name);
            let fix = format!("bridge link set dev {} state 3", end.name);
            return Err(self.fail(Hop::new("bridge", what).fixed(fix)));
        }
        self.ok("bridge", format!("{} is in bridge {right}, which is up", end.name));
        Ok(Some(bridge))
    }

    /// The bridge that a third party put the host's end into.
    fn foreign_bridge(&mut self, end: &Link, master: u32) -> Walked<Option<Link>> {
        let bridge = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(master)))?;
        match bridge.filter(|bridge| bridge.kind.as_deref() == Some("bridge")) {
            Some(bridge) => {
                self.bridge_is_up(&bridge)?;
                Ok(Some(bridge))
            }
            None => {
                let what = format!("{} is a port of what is no bridge of the kernel's", end.name);
                Err(self.unknown("segment", what))
            }
        }
    }

    pub(super) fn bridge_is_up(&mut self, bridge: &Link) -> Walked<()> {
        if bridge.flags.is_up() {
            return Ok(());
        }
        let fix = format!("ip link set {} up", bridge.name);
        let what = format!("bridge {} is down", bridge.name);
        Err(self.fail(Hop::new("bridge", what).by(Author::Operator).fixed(fix)))
    }

    /// What a container sends onto its bridge: to the host, or to a neighbour.
    pub(super) fn on_bridge(
        &mut self,
        (end, bridge): (&Link, &Link),
        out: &Out<'_>,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        let Out { site, plug, link, next, .. } = out;
        let next = *next;
        let owner = self.ask(|kernel| kernel.owner(Space::HOST, next))?;
        if let Some(owner) = owner {
            let (holder, port) = self.gateway_device(bridge, owner)?;
            self.is_in_vlan(bridge, (end, &port))?;
            let kind = if holder.index == bridge.index { "bridge" } else { "gateway" };
            let name = format!("{kind} {}", holder.name);
            let seen = Some((Space::HOST, &holder));
            self.neighbour_of(out, &Owner { name: &name, mac: holder.mac, seen })?;
            packet.input = Some(Device::from(end));
            self.of_frame(Point::PREROUTING, packet)?;
            self.of_frame(Point::INPUT, packet)?;
            packet.input = Some(Device::from(&holder));
            self.ingress(packet)?;
            return self.host(&holder, packet);
        }
        let Some(other) = self.receiver(next).cloned() else {
            return Err(self.no_receiver(bridge, plug, next));
        };
        let (to, port) = self.receiving(&other, next)?;
        if port.master != Some(bridge.index) {
            let what = format!("{} and {} are not on one bridge", site.name, other.name);
            return Err(self.unknown("bridge", what));
        }
        packet.macs = link.mac.zip(to.mac);
        self.is_alone(&other, next)?;
        let seen = other.space().map(|space| (space, &to));
        let entry = self.neighbour_of(out, &Owner { name: &other.name, mac: to.mac, seen })?;
        let knows = entry.is_some_and(|entry| entry.mac.is_some());
        if !knows && out.space.is_some() && next.is_ipv4() {
            self.is_asked((bridge, &port), &other, next)?;
        }
        self.switched((end, bridge, &port), packet, to.mac, knows)?;
        self.deliver(&other, &to, packet)
    }

    /// The device of this host that answers for its address behind a bridge, and by which port: the bridge itself, or the
    /// gateway of a VLAN, whose other end is a port.
    fn gateway_device(&mut self, bridge: &Link, owner: u32) -> Walked<(Link, Link)> {
        if owner != bridge.index {
            let holder = self.link_of_host(owner)?;
            if let Some(peer) = holder.peer {
                let port = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(peer)))?;
                if let Some(port) = port.filter(|port| port.master == Some(bridge.index)) {
                    return Ok((holder, port));
                }
            }
        }
        Ok((bridge.clone(), bridge.clone()))
    }

    /// No device that is known has the next hop's address.
    fn no_receiver(&mut self, bridge: &Link, plug: &Plug, next: IpAddr) -> super::Stop {
        let gateway = plug.addresses.iter().find(|(_, gateway)| *gateway == Some(next));
        match gateway {
            Some((net, _)) if next.is_ipv6() && self.lacks_ipv6(bridge) => {
                let what =
                    format!("IPv6 is disabled on bridge {}, which has lost {next}", bridge.name);
                let fix = format!(
                    "{} && ip addr add {next}/{} dev {}",
                    Parameter::disable_ipv6(bridge.name.as_str()).command("0"),
                    net.prefix_len(),
                    bridge.name
                );
                self.fail(Hop::new("ipv6", what).by(Author::Operator).fixed(fix))
            }
            Some((net, _)) => {
                let wanted = format!("{next}/{}", net.prefix_len());
                let what = format!("bridge {} lacks the gateway's address {next}", bridge.name);
                let fix = format!("ip addr add {wanted} dev {}", bridge.name);
                self.fail(Hop::new("gateway", what).by(Author::Operator).fixed(fix))
            }
            None => match self.elsewhere(next) {
                Some(there) => self.leaves(&there, bridge, next),
                None => {
                    let what =
                        format!("no container of the book has {next}, on bridge {}", bridge.name);
                    self.unknown("neighbour", what)
                }
            },
        }
    }

    /// Whether IPv6 is off on a bridge.
    fn lacks_ipv6(&mut self, bridge: &Link) -> bool {
        let key = Parameter::disable_ipv6(bridge.name.as_str());
        matches!(self.kernel.parameter(Space::HOST, key.path()), Ok(Some(value)) if value == "1")
    }

    /// The interface of a container with an address, and the host's end of it, in its bridge.
    pub(super) fn receiving(&mut self, site: &Site, address: IpAddr) -> Walked<(Link, Link)> {
        if let (Some(_), Some(plug)) = (site.device(), site.plug_of(address)) {
            return self.receiving_machine(site, plug);
        }
        let (Some(space), Some(plug)) = (site.space(), site.plug_of(address)) else {
            return Err(self.unknown("container", format!("{} is not open", site.name)));
        };
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        self.family_is_on(site, plug, family)?;
        let link = self.interface((site, space), plug, address)?;
        let Some(end) = self.host_end(space, &link)? else {
            let what = format!("{} of {} has no end in this host", link.name, site.name);
            return Err(self.unknown("segment", what));
        };
        self.port((link.mac, site, plug), &end)?;
        self.passes(&end, false);
        Ok((link, end))
    }

    /// From one port to another.
    fn switched(
        &mut self,
        (from, bridge, to): (&Link, &Link, &Link),
        packet: &mut Packet,
        mac: Option<Mac>,
        knows: bool,
    ) -> Walked<()> {
        let is_isolated = |link: &Link| link.port.is_some_and(|port| port.isolated);
        if is_isolated(from) && is_isolated(to) {
            return Err(self.isolated((from, bridge, to)));
        }
        self.is_in_vlan(bridge, (from, to))?;
        let settings = self.ask(|kernel| kernel.bridge(bridge.index))?.unwrap_or_default();
        self.in_table((bridge, to), mac, knows)?;
        packet.input = Some(Device::from(from));
        packet.is_switched = true;
        self.of_frame(Point::PREROUTING, packet)?;
        packet.output = Some(Device::from(to));
        self.of_frame(Point::FORWARD, packet)?;
        // `br_netfilter` hands it on as if it were to this host, and the container's interface takes it anew.
        packet.is_switched = false;
        let calls = match packet.family() {
            Family::V4 => settings.calls_iptables,
            Family::V6 => settings.calls_ip6tables,
        };
        if calls || self.all_bridges_call(packet.family())? {
            self.as_if_routed(bridge, packet)?;
        } else if packet.is_reply && packet.is_dnat {
            let what = format!(
                "bridge {} switches the answer past this host, which translated the address that was \
                 called: nothing masquerades the caller",
                bridge.name
            );
            return Err(self.fail(Hop::new("masquerade", what).fixed("systemctl restart spoke")));
        }
        packet.output = Some(Device::from(to));
        self.of_frame(Point::POSTROUTING, packet)?;
        self.egress(packet)?;
        self.ok(
            "switch",
            format!("bridge {} switches from {} to {}", bridge.name, from.name, to.name),
        );
        Ok(())
    }

    /// Two ports that exchange nothing: their network is made so, or an operator set it.
    fn isolated(&mut self, (from, bridge, to): (&Link, &Link, &Link)) -> super::Stop {
        let what =
            format!("{} and {} are isolated ports of bridge {}", from.name, to.name, bridge.name);
        let in_it = |plug: &&Plug| {
            plug.is_isolated && matches!(&plug.bridging, Bridging::In(name) if *name == bridge.name)
        };
        let (one, other) = (self.trip.from.site(), self.trip.to.site());
        let made = one.and_then(|site| site.plugs.iter().find(in_it));
        let hop = match (made, one, other) {
            (Some(plug), Some(one), Some(other)) => {
                let what =
                    format!("{what}: network {} is made with isolation=container", plug.called());
                let fix = mend::join_anew(one, other);
                Hop::new("isolation", what).by(Author::Spoke).fixed_if(fix)
            }
            _ => {
                let fix = format!("bridge link set dev {} isolated off", to.name);
                Hop::new("isolation", what).by(Author::Operator).fixed(fix)
            }
        };
        self.fail(hop)
    }

    fn all_bridges_call(&mut self, family: Family) -> Walked<bool> {
        let key = Parameter::bridge_calls(family);
        Ok(self.ask(|kernel| kernel.parameter(Space::HOST, key.path()))?.as_deref() == Some("1"))
    }

    /// Where br_netfilter is on, what is switched passes the filter of routed packets.
    fn as_if_routed(&mut self, bridge: &Link, packet: &mut Packet) -> Walked<()> {
        let about = format!("what bridge {} switches (br_netfilter is on)", bridge.name);
        let device = Some(Device::from(bridge));
        (packet.input, packet.output) = (device.clone(), None);
        self.filtered(Space::HOST, Point::PREROUTING, packet, &about)?;
        packet.output = device;
        self.filtered(Space::HOST, Point::FORWARD, packet, &about)?;
        let input = packet.input.take();
        self.filtered(Space::HOST, Point::POSTROUTING, packet, &about)?;
        packet.input = input;
        Ok(())
    }

    pub(super) fn in_table(
        &mut self,
        (bridge, to): (&Link, &Link),
        mac: Option<Mac>,
        knows: bool,
    ) -> Walked<()> {
        let Some(mac) = mac else { return Ok(()) };
        let Some(entry) = self.ask(|kernel| kernel.forwarded(bridge.index, mac))? else {
            return self.floods((bridge, to), mac, knows);
        };
        // A wrong entry that was learnt ends with the receiver's answer to the question where it is.
        if entry.port == to.index || !entry.is_set && !knows {
            return Ok(());
        }
        let port = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(entry.port)))?;
        let port = port.map_or_else(|| entry.port.to_string(), |port| port.name.to_string());
        let how = if entry.is_set { "set by hand" } else { "learnt" };
        let what = format!(
            "bridge {} sends what is for {mac} to {port} ({how}), but it is behind {}",
            bridge.name, to.name
        );
        let side = if entry.port == bridge.index { "self" } else { "master" };
        let fix = format!("bridge fdb del {mac} dev {port} {side}");
        Err(self.fail(Hop::new("forwarding-entry", what).by(Author::Operator).fixed(fix)))
    }

    /// Where the bridge does not know behind which port an address is, it sends what is for that out of every port that
    /// takes it. Who asks for the address first has it learn that from the answer.
    fn floods(&mut self, (bridge, to): (&Link, &Link), mac: Mac, knows: bool) -> Walked<()> {
        if !knows || to.port.is_none_or(|port| port.floods_unicast) {
            return Ok(());
        }
        let (name, bridge) = (&to.name, &bridge.name);
        let what = format!(
            "bridge {bridge} does not know where {mac} is, and sends what is for unknown addresses not out of \
             {name}"
        );
        let fix = format!("bridge link set dev {name} flood on");
        Err(self.fail(Hop::new("forwarding-entry", what).by(Author::Operator).fixed(fix)))
    }
}
