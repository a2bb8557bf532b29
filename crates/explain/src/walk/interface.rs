//! A container's interface, and the host's end of it.

use std::net::IpAddr;

use model::{Family, IfName};
use netlink::Link;
use netlink::sysctl::Parameter;

use super::{Hop, Plug, Site, Walked, Walker, mend};
use crate::port::{Space, Which};
use crate::rules::Author;

/// The least MTU with which IPv6 works (RFC 8200 §5): the kernel takes it off an interface with a smaller one.
const LEAST_MTU: u32 = 1280;

impl Walker<'_> {
    /// The interface, if it works and has `address`.
    pub(super) fn interface(
        &mut self,
        (site, space): (&Site, Space),
        plug: &Plug,
        address: IpAddr,
    ) -> Walked<Link> {
        let which = Which::Name(plug.interface.clone());
        let (name, interface) = (&site.name, &plug.interface);
        let Some(link) = self.ask(|kernel| kernel.link(space, &which))? else {
            let what = format!(
                "{name} has no interface {interface} any more: it has to start, or to be connected, anew"
            );
            return Err(self.fail(Hop::new("interface", what).fixed_if(mend::restart(site))));
        };
        if !link.flags.is_up() {
            let what = format!("{interface} of {name} is down");
            let fix = site.within(&format!("ip link set {interface} up"));
            return Err(self.fail(Hop::new("interface", what).by(Author::Operator).fixed(fix)));
        }
        if !link.flags.has_carrier() {
            return Err(self.no_carrier((site, space), &link));
        }
        self.has_address((site, space), (plug, &link), address)?;
        self.ok("interface", format!("{interface} of {name} is up and has {address}"));
        self.passes(&link, true);
        Ok(link)
    }

    fn no_carrier(&mut self, (site, space): (&Site, Space), link: &Link) -> super::Stop {
        let what = match self.host_end(space, link) {
            Ok(Some(end)) if !end.flags.is_up() => {
                let what = format!(
                    "{}, the host's end of {} of {}, is down",
                    end.name, link.name, site.name
                );
                let fix = format!("ip link set {} up", end.name);
                return self.fail(Hop::new("host-end", what).by(Author::Operator).fixed(fix));
            }
            Ok(_) => format!("{} of {} has no carrier", link.name, site.name),
            Err(stop) => return stop,
        };
        self.fail(Hop::new("interface", what))
    }

    fn has_address(
        &mut self,
        (site, space): (&Site, Space),
        (plug, link): (&Plug, &Link),
        address: IpAddr,
    ) -> Walked<()> {
        let all = self.ask(|kernel| kernel.addresses(space))?;
        let found = all.iter().find(|it| it.link == link.index && it.address.addr() == address);
        let (name, interface) = (&site.name, &link.name);
        if let Some(found) = found {
            if found.duplicate {
                let what = format!(
                    "{address} of {name} is a duplicate: IPv6 found another device with it, so \
                     that {interface} does not use it"
                );
                return Err(self.fail(Hop::new("duplicate", what)));
            }
            if found.tentative {
                let what = format!("IPv6 still checks whether another device has {address}");
                return Err(self.unknown("duplicate", what));
            }
            return Ok(());
        }
        if address.is_ipv6() {
            self.ipv6_is_on(site, space, interface)?;
        }
        let net = plug.addresses.iter().map(|(net, _)| net).find(|net| net.addr() == address);
        let shown = net.map_or(address.to_string(), ToString::to_string);
        let what = format!("{interface} of {name} lacks {shown}, which the book gives it");
        let fix = site.within(&format!("ip addr add {shown} dev {interface}"));
        Err(self.fail(Hop::new("address", what).by(Author::Operator).fixed(fix)))
    }

    fn ipv6_is_on(&mut self, site: &Site, space: Space, interface: &IfName) -> Walked<()> {
        let key = Parameter::disable_ipv6(interface.as_str());
        let is_off = self.ask(|kernel| kernel.parameter(space, key.path()))?;
        if is_off.as_deref() == Some("0") {
            return Ok(());
        }
        let which = Which::Name(interface.clone());
        let link = self.ask(|kernel| kernel.link(space, &which))?;
        if let Some(mtu) = link.map(|link| link.mtu).filter(|mtu| *mtu < LEAST_MTU) {
            let what = format!(
                "IPv6 needs an MTU of {LEAST_MTU}, and that of {interface} of {} is {mtu}",
                site.name
            );
            let wider = site.within(&format!("ip link set {interface} mtu 1500"));
            // The addresses that the kernel has taken off come with a start.
            let fix =
                mend::restart(site).map_or(wider.clone(), |start| format!("{wider} && {start}"));
            return Err(self.fail(Hop::new("mtu", what).by(Author::Operator).fixed(fix)));
        }
        let what = format!("IPv6 is disabled on {interface} of {} ({})", site.name, key.path());
        let fix = site.within(&key.command("0"));
        Err(self.fail(Hop::new("ipv6", what).by(Author::Operator).fixed(fix)))
    }

    /// The host's end of a pair; `None` for what is none, or whose other end is elsewhere.
    pub(super) fn host_end(&mut self, space: Space, link: &Link) -> Walked<Option<Link>> {
        let (Some("veth"), Some(peer)) = (link.kind.as_deref(), link.peer) else { return Ok(None) };
        if space == Space::HOST {
            return Ok(None);
        }
        let end = self.ask(|kernel| kernel.link(Space::HOST, &Which::Index(peer)))?;
        let is_it = |end: &Link| {
            end.kind.as_deref() == Some("veth")
                && end.peer == Some(link.index)
                && end.peer_netns.is_some()
        };
        Ok(end.filter(is_it))
    }

    /// That nothing of another container has the address, too.
    pub(super) fn is_alone(&mut self, site: &Site, address: IpAddr) -> Walked<()> {
        let rivals = self.trip.rivals.clone();
        for (name, space) in rivals {
            if Some(space) == site.space() {
                continue;
            }
            let all = self.ask(|kernel| kernel.addresses(space))?;
            if all.iter().any(|it| it.address.addr() == address && it.scope == 0) {
                let what = format!("{address} is a duplicate: {name} has it, as {} has", site.name);
                return Err(self.fail(Hop::new("duplicate", what).by(Author::Operator)));
            }
        }
        Ok(())
    }

    /// Whether this namespace uses IPv6 at all on the link.
    pub(super) fn family_is_on(&mut self, site: &Site, plug: &Plug, family: Family) -> Walked<()> {
        match (family, site.space()) {
            (Family::V6, Some(space)) => self.ipv6_is_on(site, space, &plug.interface),
            _ => Ok(()),
        }
    }
}
