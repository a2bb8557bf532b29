//! Tracked UDP flows to published ports. UDP has no end of a connection: the kernel would continue
//! sending a client's packets to the port's previous destination.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Attachment, PortMap, Protocol, Result};
use netlink::Socket;
use netlink::conntrack::{self, Flow, selected::Led};

/// The flows that an attachment's ports make stale. Requests of this host or a container to a port
/// of the same number are not among them.
pub(super) struct Stale<'a> {
    maps: Vec<&'a PortMap>,
    containers: Vec<IpAddr>,
    /// The addresses of this host at which a port without one leads to the container from now on.
    host: Vec<IpAddr>,
}

impl<'a> Stale<'a> {
    /// When the ports are published: earlier flows to them, to any destination. `None` without UDP.
    pub(super) fn before(attachment: &'a Attachment) -> Result<Option<Self>> {
        let Some(stale) = Self::after(attachment) else { return Ok(None) };
        let addresses = Socket::route()?.addresses(None)?.into_iter();
        let host = addresses.map(|there| there.address.addr()).collect();
        Ok(Some(Self { host, ..stale }))
    }

    /// When they are withdrawn: flows to the container. `None` without UDP.
    pub(super) fn after(attachment: &'a Attachment) -> Option<Self> {
        let ports = &attachment.wiring.publish.as_ref()?.ports;
        let maps: Vec<_> = ports.iter().filter(|map| map.protocol == Protocol::Udp).collect();
        let containers = attachment.addresses.iter().map(|held| held.address.addr()).collect();
        (!maps.is_empty()).then_some(Self { maps, containers, host: Vec::new() })
    }

    pub(super) fn forget(&self, socket: &mut Socket) -> Result<()> {
        if self.host.is_empty() {
            return conntrack::selected::end_led(socket, &self.led());
        }
        let ports: BTreeSet<u16> = self.maps.iter().map(|map| map.host_port.get()).collect();
        conntrack::flush_udp(socket, &ports, |flow| self.has(flow)).map(drop)
    }

    /// All that were led to the container.
    fn led(&self) -> BTreeSet<Led> {
        let over = |map: &&PortMap| {
            let (protocol, port) = (map.protocol.number(), map.host_port.get());
            self.containers.iter().map(move |to| Led { protocol, port, host: None, to: *to })
        };
        self.maps.iter().flat_map(over).collect()
    }

    fn has(&self, flow: &Flow) -> bool {
        let led_here = flow.led_to.is_some_and(|to| self.containers.contains(&to));
        led_here || self.maps.iter().any(|map| self.takes(map, flow))
    }

    /// Whether the flow would lead to the container if it began now.
    fn takes(&self, map: &PortMap, flow: &Flow) -> bool {
        let to = flow.to.ip();
        let is_ours = !self.host.is_empty()
            && match map.host {
                Some(host) if !host.is_unspecified() => host == to,
                Some(host) if host.is_ipv4() != to.is_ipv4() => false,
                Some(_) | None => to.is_loopback() || self.host.contains(&to),
            };
        is_ours && map.host_port.get() == flow.to.port()
    }
}
