//! A packet comes to a container, and to a socket.

use netlink::diag::Taking;
use netlink::sysctl::Parameter;
use netlink::{Link, RouteLookup, Routed};

use super::begin::protocol;
use super::{Arrived, Hop, Site, Walked, Walker, mend};
use crate::packet::{Carried, Device, Packet};
use crate::port::{Space, Which};
use crate::rules::{Author, Point};

/// The index of `lo`.
const LOOPBACK: u32 = 1;

impl Walker<'_> {
    /// To a container, by its interface.
    pub(super) fn deliver(
        &mut self,
        site: &Site,
        link: &Link,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        if site.device().is_some() {
            return self.deliver_to_machine(site, packet);
        }
        let Some(space) = site.space() else {
            return Err(self.unknown("container", format!("{} is not open", site.name)));
        };
        self.is_alone(site, packet.destination)?;
        (packet.input, packet.output) = (Some(Device::from(link)), None);
        packet.mark = Some(0);
        let about = format!("what comes to {}", site.name);
        self.filtered(space, Point::PREROUTING, packet, &about)?;
        self.accepts((site, space), link, packet)?;
        self.filtered(space, Point::INPUT, packet, &about)?;
        if !packet.is_reply {
            self.listens((&site.name, space), packet)?;
        }
        Ok(Arrived::Container)
    }

    /// Whether the container's kernel takes the source for possible.
    fn accepts(
        &mut self,
        (site, space): (&Site, Space),
        link: &Link,
        packet: &Packet,
    ) -> Walked<()> {
        let (from, name) = (packet.source, &link.name);
        let (to, transport) = (packet.destination, packet.transport());
        let asked =
            Routed { from: Some(from), input: Some(link.index), transport, ..Routed::new(to) };
        match self.ask(|kernel| kernel.way(space, &asked))? {
            RouteLookup::Local => Ok(()),
            RouteLookup::Nowhere(_) if self.is_filtered_back(space, link, packet)? => {
                let back = Routed::new(from);
                let way = self.ask(|kernel| kernel.way(space, &back))?;
                if matches!(way, RouteLookup::Nowhere(_)) {
                    return Err(self.no_way_back(site, packet));
                }
                let what = format!(
                    "rp_filter of {} drops it: what is for {from} does not leave by {name}",
                    site.name
                );
                let fix = super::outside::unfiltered(name.as_str());
                let hop = Hop::new("rp-filter", what).by(Author::Operator);
                Err(self.fail(hop.fixed(site.within(&fix))))
            }
            _ => {
                let what = format!(
                    "{} does not take what comes from {from} by {name} to {}",
                    site.name, packet.destination
                );
                Err(self.fail(Hop::new("route", what)))
            }
        }
    }

    fn no_way_back(&mut self, site: &Site, packet: &Packet) -> super::Stop {
        let (from, name) = (packet.source, &site.name);
        let plug = site.plug_of(packet.destination);
        let gateway = plug.and_then(|plug| Some((plug.gateway(packet.family())?, plug)));
        let hop = Hop::new("route", format!("{name} has no route back to {from}"));
        self.is_back = true;
        self.fail(match gateway {
            Some((gateway, plug)) => hop.fixed(
                site.within(&format!("ip route add default via {gateway} dev {}", plug.interface)),
            ),
            None => hop,
        })
    }

    /// Whether anything takes what arrives.
    pub(super) fn listens(&mut self, (name, space): (&str, Space), packet: &Packet) -> Walked<()> {
        let (Some(port), Some(protocol)) = (packet.destination_port(), protocol(packet.carried))
        else {
            return self.echoes((name, space), packet);
        };
        let Some(all) = self.ask(|kernel| kernel.taking(space, protocol))? else {
            let what = format!("this kernel does not say who listens at {port}/{protocol}");
            return Err(self.unknown("listener", what));
        };
        let there: Vec<Taking> = all.into_iter().filter(|taking| taking.port == port).collect();
        let heard: Vec<Taking> =
            there.iter().filter(|taking| taking.hears(packet.destination)).copied().collect();
        if let Some(first) = heard.first() {
            let at = format!("{}, port {port}/{protocol}", first.address);
            self.is_bound((name, space), &heard, packet, &at)?;
            self.is_awake(space, &heard)?;
            self.has_room((name, space), &heard, &at)?;
            self.ok("listener", format!("{name} listens at {at}"));
            return Ok(());
        }
        let what = match there.first() {
            None => format!(
                "nothing in {name} listens at port {port}/{protocol}: the program that serves it does not run"
            ),
            Some(_) => {
                let at: Vec<String> = there.iter().map(|it| it.address.to_string()).collect();
                let at = at.join(", ");
                format!(
                    "{name} listens at port {port}/{protocol} of {at} only, not of {}: its program has to \
                     listen at 0.0.0.0 (or ::)",
                    packet.destination
                )
            }
        };
        Err(self.fail(Hop::new("listener", what)))
    }

    /// That one of the sockets is not bound to another device than that by which the packet came.
    fn is_bound(
        &mut self,
        (name, space): (&str, Space),
        heard: &[Taking],
        packet: &Packet,
        at: &str,
    ) -> Walked<()> {
        let input = packet.input.as_ref().map_or(LOOPBACK, |device| device.index);
        let mut other = None;
        for taking in heard {
            if taking.link == 0 || taking.link == input {
                return Ok(());
            }
            let which = Which::Index(taking.link);
            other = self.ask(|kernel| kernel.link(space, &which))?.or(other);
            // A socket bound to a VRF takes what comes by the devices in it.
            if other.as_ref().is_some_and(|link| link.kind.as_deref() == Some("vrf")) {
                return Ok(());
            }
        }
        let device = other.map_or_else(|| "another device".to_owned(), |it| it.name.to_string());
        let what = format!(
            "{name} listens at {at}, but only for what comes by {device} (SO_BINDTODEVICE)"
        );
        Err(self.fail(Hop::new("listener", what)))
    }

    /// That one of the sockets takes more connections.
    fn has_room(&mut self, (name, space): (&str, Space), heard: &[Taking], at: &str) -> Walked<()> {
        let full = heard.iter().find(|taking| taking.is_full());
        let (Some(full), true) = (full, heard.iter().all(Taking::is_full)) else { return Ok(()) };
        let (waiting, most) = full.waiting.unwrap_or_default();
        let what = format!(
            "the program in {name} that listens at {at} does not accept connections: {waiting} wait, and at \
             most {most} may: it has to start anew"
        );
        let fix = self.site_in(space).and_then(mend::restart);
        Err(self.fail(Hop::new("listener", what).fixed_if(fix)))
    }

    fn echoes(&mut self, (name, space): (&str, Space), packet: &Packet) -> Walked<()> {
        if packet.carried != Carried::Echo {
            return Ok(());
        }
        let key = Parameter::echo_ignore_all(packet.family());
        if self.ask(|kernel| kernel.parameter(space, key.path()))?.as_deref() != Some("1") {
            self.ok("echo", format!("{name} answers echo requests"));
            return Ok(());
        }
        let what = format!("{name} ignores echo requests ({key})");
        let fix = self.within(space, &key.command("0"));
        Err(self.fail(Hop::new("echo", what).by(Author::Operator).fixed_if(fix)))
    }
}
