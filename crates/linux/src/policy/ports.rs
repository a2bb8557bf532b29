//! Published ports that come and go while the container runs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Attachment, Backend, Error, Family, PortMap, Result};
use netlink::Socket;
use netlink::conntrack::{self, selected::Led};

use super::Policy;
use super::expected::{self, ExpectedElements};
use crate::iptables::{Variant, WiringPart};
use crate::listener;

impl Policy {
    /// Refuses a port that this host cannot lead to the attachment: a program has it, whichever
    /// runtime that program works for, or the kernel does not speak the protocol.
    pub(crate) fn refuse_port(&self, attachment: &Attachment, map: &PortMap) -> Result<()> {
        map.host.map_or(Ok(()), refuse_address)?;
        listener::refuse_unspoken(map)?;
        listener::refuse_any(map).map_err(|error| error.context(attachment.container_name()))
    }

    /// Removes what only these ports need. `attachment` has the ports that stay.
    pub(crate) fn withdraw_ports(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        let Some(publish) = &attachment.wiring.publish else { return Ok(()) };
        let mut before = attachment.clone();
        if let Some(publish) = &mut before.wiring.publish {
            publish.ports.extend(gone.iter().cloned());
        }
        match publish.backend {
            Backend::Iptables => self.withdraw_rules(attachment)?,
            Backend::Nftables => self.withdraw_elements(&before, attachment)?,
        }
        self.cut(attachment, gone)
    }

    /// Ends the connections over these ports: a client must not stay connected.
    fn cut(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        let containers = || attachment.addresses.iter().map(|held| held.address.addr());
        let over = |map| containers().filter_map(move |to| led_over(map, to));
        let led: BTreeSet<Led> = gone.iter().flat_map(over).collect();
        self.if_there(|socket| conntrack::selected::end_led(socket, &led))
    }

    fn withdraw_elements(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        let both = [Family::V4, Family::V6];
        // The ports may be led here in a family that the record does not know.
        let (before, after) =
            (expected::gateway_route(before, &both), expected::gateway_route(after, &both));
        let Some(wanted) = ExpectedElements::of(&before)? else { return Ok(()) };
        let rest = ExpectedElements::of(&after)?.map(|rest| rest.elements);
        let elements = match &rest {
            Some(rest) => wanted.elements.without(rest),
            None => wanted.elements,
        };
        if elements.is_empty() {
            return Ok(());
        }
        self.deleted.set(true);
        self.take_out(&elements, rest.as_ref())
    }

    fn withdraw_rules(&self, after: &Attachment) -> Result<()> {
        let iptables = self.iptables(Variant::Host);
        let remains = after.wiring.publish.as_ref().is_some_and(|it| !it.ports.is_empty());
        match remains {
            true => iptables.install(after).map(drop),
            false => iptables.remove_parts(&after.id, &[WiringPart::Publish], &after.addresses),
        }
    }
}

/// What the port leads to an address of the container, if it leads there.
fn led_over(map: &PortMap, to: IpAddr) -> Option<Led> {
    let is_of_family = map.host.is_none_or(|host| host.is_ipv4() == to.is_ipv4());
    is_of_family.then(|| Led {
        protocol: map.protocol.number(),
        port: map.host_port.get(),
        host: map.host.filter(|host| !host.is_unspecified()),
        to,
    })
}

/// Refuses an address that no packet to a port of this host has.
fn refuse_address(host: IpAddr) -> Result<()> {
    let is_never = match host {
        IpAddr::V4(v4) => {
            v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0 && !v4.is_unspecified()
        }
        IpAddr::V6(v6) => {
            let is_local = v6.is_loopback() || v6.is_unicast_link_local();
            v6.is_multicast() || is_local || v6.to_ipv4_mapped().is_some()
        }
    };
    if is_never {
        return Err(Error::invalid(format!(
            "{host} is no address at which a port can be published: name one of this host that others \
             or its own programs reach, of IPv4 or IPv6 as they write it"
        )));
    }
    let is_any = host.is_unspecified() || host.is_ipv4() && host.is_loopback();
    if is_any || may_be_foreign(host) {
        return Ok(());
    }
    let own = Socket::route()?.addresses(None)?;
    match own.iter().any(|there| there.address.addr() == host) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "this host has no address {host}; `ip address` lists those that it has, and the sysctl \
             ip_nonlocal_bind = 1 allows those that it will have"
        ))),
    }
}

/// Whether programs may use addresses that the host does not have yet (`ip-sysctl`).
fn may_be_foreign(host: IpAddr) -> bool {
    let family = if host.is_ipv4() { "ipv4" } else { "ipv6" };
    let name = format!("net/{family}/ip_nonlocal_bind");
    netlink::sysctl::read(name).is_ok_and(|value| value != "0")
}
