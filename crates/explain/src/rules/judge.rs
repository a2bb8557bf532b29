//! The base chains of one hook, in their order.

use std::net::IpAddr;

use model::Result;
use netlink::nft::AnyChain;

use super::run::{ChainEnd, Run};
use super::{Filter, RuleLocation};
use crate::packet::{Device, Packet};
use crate::port::{Kernel, Space};
use crate::tri::Tri;

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

    fn has(self, chain: &AnyChain, packet: &Packet) -> bool {
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

/// Addresses are translated at one place, whatever the chain's own priority is (`NF_IP_PRI_NAT_*`).
fn order(chain: &AnyChain) -> (i32, i32) {
    let Some(hook) = &chain.hook else { return (0, 0) };
    match (hook.kind.as_str(), hook.number) {
        ("nat", 0 | 3) => (-100, hook.priority),
        ("nat", _) => (100, hook.priority),
        _ => (hook.priority, 0),
    }
}

/// What becomes of `packet` at `point`. Marks that rules set, and that it is not tracked, it keeps; its
/// addresses are the caller's to change.
///
/// # Errors
/// As [`Kernel::rules`].
pub fn judge(
    kernel: &mut dyn Kernel,
    space: Space,
    point: Point,
    packet: &mut Packet,
) -> Result<Ruling> {
    let [one, other] = CALLERS.map(Some);
    let mut supposed = Packet { caller: other, ..packet.clone() };
    let second = judge_one(kernel, space, point, &mut supposed)?;
    packet.caller = one;
    let first = judge_one(kernel, space, point, packet)?;
    packet.caller = None;
    Ok(match (&first, &second) {
        (Ruling::Unknown(_), _) | (Ruling::Dropped(_), Ruling::Dropped(_)) => first,
        (one, other) if one == other => first,
        (Ruling::Dropped(place), _) | (_, Ruling::Dropped(place) | Ruling::Unknown(place)) => {
            let unclear = Some("the port of the one who asks".to_owned());
            Ruling::Unknown(RuleLocation { unclear, ..place.clone() })
        }
        _ => first,
    })
}

/// The port of the one who asks may be any. Rules must do the same with two that nothing but chance
/// brings together.
const CALLERS: [u16; 2] = [40_961, 57_003];

fn judge_one(
    kernel: &mut dyn Kernel,
    space: Space,
    point: Point,
    packet: &mut Packet,
) -> Result<Ruling> {
    let rules = kernel.rules(space)?;
    let mut chains: Vec<&(Filter, AnyChain)> =
        rules.chains.iter().filter(|(_, chain)| point.has(chain, packet)).collect();
    // Of equal priorities the kernel comes first to the one that was registered last (`nf_hook_entries_grow`).
    chains.reverse();
    chains.sort_by_key(|(_, chain)| order(chain));
    let mut now = packet.clone();
    let (mut destination, mut source) = (None, None);
    for (filter, chain) in chains {
        let is_nat = chain.hook.as_ref().is_some_and(|hook| hook.kind == "nat");
        let translated = destination.is_some() || source.is_some();
        if is_nat && (now.is_reply || now.is_untracked == Tri::Yes || translated) {
            continue;
        }
        let is_sure = !is_nat || now.is_untracked == Tri::No;
        match Run::new(&rules, *filter, chain, &mut now, (kernel, space)).end() {
            ChainEnd::Accept => {}
            ChainEnd::Drop(place) => return Ok(Ruling::Dropped(place)),
            ChainEnd::Unknown(place) => return Ok(Ruling::Unknown(place)),
            ChainEnd::Destination(Translation { place, .. })
            | ChainEnd::Source(Translation { place, .. })
                if !is_sure =>
            {
                let unclear = Some("whether its connection is tracked".to_owned());
                return Ok(Ruling::Unknown(RuleLocation { unclear, ..place }));
            }
            ChainEnd::Destination(translation) => {
                now.translate(&translation);
                destination = Some(translation);
            }
            ChainEnd::Source(translation) => source = Some(translation),
        }
    }
    (packet.mark, packet.is_untracked) = (now.mark, now.is_untracked);
    Ok(match &rules.unread {
        Some(why) => Ruling::Unknown(unread(why)),
        None => Ruling::Passes { destination, source },
    })
}

fn unread(why: &str) -> RuleLocation {
    RuleLocation {
        filter: Filter::Legacy,
        family: 0,
        table: String::new(),
        chain: String::new(),
        path: Vec::new(),
        rule: None,
        comment: None,
        rejects: false,
        unclear: Some(why.to_owned()),
    }
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
