//! Where a packet is judged, and what becomes of it.

use std::net::IpAddr;

use netlink::nft::AnyChain;

use super::RuleLocation;
use crate::packet::{Device, Packet};

/// Where in its way a packet is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// `NF_INET_*` or, of a bridge, `NF_BR_*`, which have the same order.
    Hook {
        /// Its number.
        number: u32,
        /// Whether it is what a bridge does to a frame.
        of_bridge: bool,
    },
    /// The device by which it comes in.
    Ingress,
    /// The device by which it goes out.
    Egress,
    /// A packet of ARP: `NF_ARP_*`.
    Arp {
        /// Its number.
        number: u32,
    },
}

impl Point {
    /// As it comes in.
    pub const PREROUTING: Self = Self::Hook { number: 0, of_bridge: false };
    /// As it is delivered.
    pub const INPUT: Self = Self::Hook { number: 1, of_bridge: false };
    /// As it passes through.
    pub const FORWARD: Self = Self::Hook { number: 2, of_bridge: false };
    /// As it is made.
    pub const OUTPUT: Self = Self::Hook { number: 3, of_bridge: false };
    /// As it goes out.
    pub const POSTROUTING: Self = Self::Hook { number: 4, of_bridge: false };

    /// As a packet of ARP comes in.
    pub const ARP_INPUT: Self = Self::Arp { number: 0 };
    /// As one is made.
    pub const ARP_OUTPUT: Self = Self::Arp { number: 1 };

    /// The same in a bridge.
    pub const fn in_bridge(self) -> Self {
        match self {
            Self::Hook { number, .. } => Self::Hook { number, of_bridge: true },
            Self::Ingress | Self::Egress | Self::Arp { .. } => self,
        }
    }

    /// Whether a chain sees this packet there.
    pub(crate) fn has(self, chain: &AnyChain, packet: &Packet) -> bool {
        let Some(hook) = &chain.hook else { return false };
        let is_on =
            |device: &Option<Device>| device.as_ref().is_some_and(|it| hook.is_on(&it.name));
        let family = match packet.destination {
            IpAddr::V4(_) => 2,
            IpAddr::V6(_) => 10,
        };
        match self {
            Self::Hook { number, of_bridge: true } => chain.family == 7 && hook.number == number,
            Self::Hook { number, of_bridge: false } => {
                (chain.family == 1 || chain.family == family) && hook.number == number
            }
            Self::Arp { number } => (chain.family, hook.number) == (3, number),
            // `NF_NETDEV_INGRESS` and `NF_INET_INGRESS`.
            Self::Ingress => {
                is_on(&packet.input) && matches!((chain.family, hook.number), (5, 0) | (1, 5))
            }
            // `NF_NETDEV_EGRESS`.
            Self::Egress => is_on(&packet.output) && (chain.family, hook.number) == (5, 1),
        }
    }
}

/// A change of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The address, or that of the interface if `None`.
    pub address: Option<IpAddr>,
    /// The port, if it changes.
    pub port: Option<u16>,
    /// The rule.
    pub place: RuleLocation,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It passes.
    Passes {
        /// Its destination changes.
        destination: Option<Translation>,
        /// Its source changes.
        source: Option<Translation>,
    },
    /// It is gone.
    Dropped(RuleLocation),
    /// That depends on this rule, or on what cannot be read.
    Unknown(RuleLocation),
}

impl Packet {
    /// Changes its destination.
    pub fn translate(&mut self, to: &Translation) {
        self.is_dnat = true;
        if let Some(address) = to.address {
            self.destination = address;
        }
        if let Some(port) = to.port {
            self.carried = self.carried.to_port(port);
        }
    }
}
