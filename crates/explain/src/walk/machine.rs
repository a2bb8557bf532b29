//! A virtual machine: its device is in the host, and nothing inside of it can be seen.
//!
//! It is taken to be as the daemon configures it: with its addresses, and the gateway of its network as its
//! default route.

use std::net::IpAddr;

use netlink::{Link, Neighbour};

use super::leave::Out;
use super::resolve::Owner;
use super::{Arrived, Hop, Plug, Site, Walked, Walker};
use crate::packet::Packet;
use crate::port::{Space, Which};

impl Walker<'_> {
    /// Sends `packet` from a machine, up to where it arrives.
    pub(super) fn leave_machine(&mut self, site: &Site, packet: &mut Packet) -> Walked<Arrived> {
        let plug = self.likely(site, packet)?;
        let (to, family) = (packet.destination, packet.family());
        if !packet.is_reply && site.has(to) {
            return Err(self.stays(site));
        }
        if !packet.is_reply {
            let Some(own) = plug.address(family) else {
                let what = format!("{} has no address of the family of {to}", site.name);
                return Err(self.fail(Hop::new("address", what)));
            };
            packet.source = own.addr();
            packet.original.source = packet.source;
        }
        let Some(next) = next(plug, packet) else {
            let what = format!("network {} has no gateway for {}", plug.called(), site.name);
            return Err(self.fail(Hop::new("route", what)));
        };
        let end = self.machine_end(site)?;
        let link = Link { mac: plug.mac.or(end.mac), ..end.clone() };
        let name = &site.name;
        self.note("route", format!("{name} sends to {to} by {next}, if it is configured by DHCP"));
        let out = Out { site, space: None, plug, link, next };
        packet.mark = Some(0);
        self.enter_host(&out, &end, packet)
    }

    /// The device of a machine, as its own interface and as a port of the bridge.
    pub(super) fn receiving_machine(&mut self, site: &Site, plug: &Plug) -> Walked<(Link, Link)> {
        let end = self.machine_end(site)?;
        let link = Link { mac: plug.mac.or(end.mac), ..end.clone() };
        self.port((link.mac, site, plug), &end)?;
        self.passes(&end, false);
        Ok((link, end))
    }

    /// To a machine: its device has it.
    pub(super) fn deliver_to_machine(
        &mut self,
        site: &Site,
        packet: &mut Packet,
    ) -> Walked<Arrived> {
        self.is_alone(site, packet.destination)?;
        packet.mark = Some(0);
        if !packet.is_reply {
            let name = &site.name;
            self.note(
                "machine",
                format!("{name} gets it; whether its system takes it cannot be seen"),
            );
        }
        Ok(Arrived::Container)
    }

    fn machine_end(&mut self, site: &Site) -> Walked<Link> {
        let Some(device) = site.device() else {
            return Err(self.unknown("machine", format!("{} is no virtual machine", site.name)));
        };
        let which = Which::Name(device.clone());
        let Some(link) = self.ask(|kernel| kernel.link(Space::HOST, &which))? else {
            let what = format!("{device}, the device of {}, is gone", site.name);
            return Err(self.fail(Hop::new("device", what).fixed("spoke gc")));
        };
        if !link.flags.is_up() {
            let what = format!("{device}, the device of {}, is down", site.name);
            let fix = format!("ip link set {device} up");
            return Err(self.fail(Hop::new("device", what).fixed(fix)));
        }
        if !link.flags.has_carrier() {
            let what = format!(
                "no program has {device} open: {} does not run with ifname={device}",
                site.name
            );
            return Err(self.fail(Hop::new("device", what)));
        }
        self.ok("device", format!("{device} of {} is up, and its program has it open", site.name));
        Ok(link)
    }

    /// As [`Walker::neighbour`]; what a machine knows of its neighbours cannot be seen.
    pub(super) fn neighbour_of(
        &mut self,
        out: &Out<'_>,
        owner: &Owner<'_>,
    ) -> Walked<Option<Neighbour>> {
        match out.space {
            Some(space) => self.neighbour((space, &out.site.name), &out.link, out.next, owner),
            None => Ok(None),
        }
    }
}

/// The next hop: a neighbour, or the gateway.
fn next(plug: &Plug, packet: &Packet) -> Option<IpAddr> {
    let to = packet.destination;
    if plug.reaches(to) { Some(to) } else { plug.gateway(packet.family()) }
}
