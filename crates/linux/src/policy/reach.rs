//! From where published ports are reached, where that changes while they are in use.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Attachment, Family, IpNet, PortMap, Publish, Reach, Result};
use netlink::Socket;
use netlink::conntrack::{self, Outgoing};

use super::Policy;
use super::expected::{self, ExpectedElements};
use crate::subnets;

impl Policy {
    /// Lets the clients of `after` reach the container's ports, and no others, whatever held before. Connections of
    /// clients that may go on do; those of others end.
    pub(crate) fn revise_reach(&self, after: &Attachment) -> Result<()> {
        let Some(publish) = &after.wiring.publish else { return Ok(()) };
        // What closes comes first: between the two, fewer reach the ports.
        self.restore(after)?;
        let both = [Family::V4, Family::V6];
        let elements = |it: &Attachment| ExpectedElements::of(&expected::gateway_route(it, &both));
        if let Some(is) = elements(after)? {
            let reaches = [Reach::Any, Reach::Lan, Reach::Local];
            let others = reaches.iter().map(|reach| {
                let mut other = after.clone();
                other.wiring.publish = Some(Publish { reach: *reach, ..publish.clone() });
                other
            });
            for was in others {
                let Some(was) = elements(&was)? else { continue };
                let gone = was.elements.without(&is.elements);
                if !gone.is_empty() {
                    self.deleted.set(true);
                    self.take_out(&gone, Some(&is.elements))?;
                }
            }
        }
        self.end_others(after, publish)
    }

    /// Ends the connections over these ports of clients that may not reach them any more.
    fn end_others(&self, attachment: &Attachment, publish: &Publish) -> Result<()> {
        let route = &mut Socket::route()?;
        let clients = match publish.reach {
            Reach::Any => return Ok(()),
            Reach::Lan => subnets::connected(route)?,
            Reach::Local => subnets::own(route)?,
        };
        let containers: BTreeSet<IpAddr> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        let is_over = |flow: &Outgoing| {
            containers.contains(&flow.destination)
                && publish.ports.iter().any(|map| is_to(flow, map))
                && !is_one_of(flow.source, &clients)
        };
        self.if_there(|socket| conntrack::end(socket, is_over).map(drop))
    }
}

fn is_to(flow: &Outgoing, map: &PortMap) -> bool {
    (flow.protocol, flow.port) == (map.protocol.number(), map.container_port.get())
}

fn is_one_of(source: IpAddr, clients: &[IpNet]) -> bool {
    source.is_loopback() || clients.iter().any(|net| net.contains(&source))
}
