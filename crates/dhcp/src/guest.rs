//! Answers what a virtual machine asks about its own interface: DHCP (RFC 2131), DHCPv6 (RFC 8415) and
//! router solicitations (RFC 4861). Its addresses are decided already, so that each answer follows from
//! the question alone: nothing is kept, and there is no I/O.
//!
//! Everything that comes is hostile: it is bounded by a packet's size, and what is not this machine's
//! question has no answer.

mod ip6;
mod name;
mod router;
#[cfg(test)]
mod tests;
mod v4;
mod v6;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{Ipv4Net, Ipv6Net, Mac};

/// How long a lease is, in seconds: a machine has its addresses that long while no server answers.
pub(super) const LEASE: u32 = 24 * 3600;
/// After how many seconds it asks again, and learns what has changed.
pub(super) const RENEWAL: u32 = 3600;
/// After how many seconds it asks anyone.
pub(super) const REBINDING: u32 = 21 * 3600;

/// What a machine is to know of its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The interface's hardware address: what another one asks is not answered.
    pub mac: Mac,
    /// That of the gateway.
    pub gateway: Mac,
    /// Its IPv4 address, and who answers there.
    pub v4: Option<(Ipv4Net, Ipv4Addr)>,
    /// Its IPv6 addresses.
    pub v6: Vec<Ipv6Net>,
    /// The routes of IPv4, the default route among them, each with its next hop.
    pub routes: Vec<(Ipv4Net, Ipv4Addr)>,
    /// Whether it has a default route of IPv6, through the gateway.
    pub leads_v6: bool,
    /// Its name servers.
    pub servers: Vec<IpAddr>,
    /// The domains in which it searches names.
    pub search: Vec<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its MTU, in bytes.
    pub mtu: Option<u16>,
}

/// A packet for the machine, from its network header on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The station.
    pub to: Mac,
    /// The packet.
    pub packet: Vec<u8>,
}

impl Guest {
    /// The answer to a packet from this station, if it has one.
    pub fn answer(&self, packet: &[u8], from: Option<Mac>) -> Option<Answer> {
        if from != Some(self.mac) {
            return None;
        }
        match packet.first()? >> 4 {
            4 => v4::answer(self, packet),
            6 => self.answer_v6(packet),
            _ => None,
        }
    }

    /// The unsolicited router advertisement for the machine, where it has IPv6.
    pub fn advertisement(&self) -> Option<Answer> {
        router::advertisement(self, None)
    }

    fn answer_v6(&self, packet: &[u8]) -> Option<Answer> {
        let received = ip6::Received::read(packet)?;
        match received.payload {
            ip6::Payload::Solicitation => router::advertisement(self, Some(received.from)),
            ip6::Payload::Datagram(message) => v6::answer(self, received.from, message),
        }
    }

    fn servers_v4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.servers.iter().filter_map(|server| match server {
            IpAddr::V4(server) => Some(*server),
            IpAddr::V6(_) => None,
        })
    }

    fn servers_v6(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.servers.iter().filter_map(|server| match server {
            IpAddr::V6(server) => Some(*server),
            IpAddr::V4(_) => None,
        })
    }
}
