//! The expressions of a rule.

use std::borrow::Cow;

use super::abi::{
    DATA_VALUE, DATA_VERDICT, EXPRESSION_DATA, EXPRESSION_NAME, LIST_ELEMENT, VERDICT_CHAIN,
    VERDICT_CODE,
};
use super::object::Family;
use crate::wire::Request;

/// One of sixteen 32-bit registers (`NFT_REG32_*`); a longer value takes the following ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

impl Register {
    /// The first one.
    pub const FIRST: Self = Self(0);

    /// `NFT_REG32_00`.
    const BASE: u32 = 8;

    /// The one behind a value of `words` 32-bit words that begins here; the last register where
    /// there are no more.
    #[must_use]
    pub const fn behind(self, words: u8) -> Self {
        let next = self.0.saturating_add(words);
        Self(if next > 15 { 15 } else { next })
    }

    fn number(self) -> u32 {
        Self::BASE + u32::from(self.0)
    }
}

/// Properties of a packet besides its bytes (`NFT_META_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The interface that it came in through, 16 bytes.
    InputName,
    /// The interface that it goes out through, 16 bytes.
    OutputName,
    /// [`Family::Ipv4`] or [`Family::Ipv6`], 1 byte.
    Family,
    /// The transport protocol, 1 byte.
    Protocol,
    /// The group of the interface that it came in through, 4 bytes.
    InputGroup,
    /// The group of the interface that it goes out through, 4 bytes.
    OutputGroup,
    /// The kind of the interface that it came in by, as the kernel names it: `bridge`, `vlan`, ….
    InputKind,
    /// The user whose socket it is sent by, 4 bytes. Of what the kernel itself sends there is none, which
    /// no rule matches.
    SocketUser,
    /// To whom the frame was sent (`PACKET_*`), 1 byte: 0 is this host alone.
    PacketType,
    /// The packet's mark, 4 bytes.
    Mark,
    /// The type of the frame (`ETH_P_*`), 2 bytes: what is behind a tag, where the kernel has taken one off.
    EtherType,
}

impl Meta {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Meta::EtherType => 1,
            Meta::Mark => 3,
            Meta::InputName => 6,
            Meta::OutputName => 7,
            Meta::SocketUser => 10,
            Meta::Family => 15,
            Meta::Protocol => 16,
            Meta::PacketType => 19,
            Meta::InputGroup => 21,
            Meta::OutputGroup => 22,
            Meta::InputKind => 26,
        }
    }
}

/// Properties of a packet's connection (`NFT_CT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conntrack {
    /// A bit for the packet's place in it: 2 established, 4 related, 8 new.
    State,
    /// `IPS_*` bits.
    Status,
}

/// Parts of the connection as its first packet was sent, before it was translated (`NFT_CT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// Where it was sent to: 4 bytes of IPv4, 16 of IPv6.
    Destination,
    /// The port that it was sent to, 2 bytes.
    Port,
}

impl Original {
    const fn number(self) -> u32 {
        match self {
            Original::Destination => 9,
            Original::Port => 12,
        }
    }
}

/// The answer of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// ICMP: the port is not reachable.
    Unreachable,
    /// TCP: a reset.
    Reset,
}

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// This base chain has nothing against it.
    Accept,
    /// It is gone.
    Drop,
    /// Continue behind the jump to this chain.
    Return,
    /// Continue in this chain, and come back.
    Jump(&'a str),
    /// Continue in this chain, and return to the caller of this one.
    Goto(&'a str),
}

impl Verdict<'_> {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Verdict::Drop => 0,
            Verdict::Accept => 1,
            Verdict::Jump(_) => -3,
            Verdict::Goto(_) => -4,
            Verdict::Return => -5,
        }
    }
}

/// One step of a rule. Where a step does not match, the rule ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression<'a> {
    /// Loads what is known about the packet.
    Meta(Meta, Register),
    /// Loads bytes of the network header.
    Network {
        /// From which byte on.
        offset: u32,
        /// How many.
        length: u32,
        /// Where to.
        into: Register,
    },
    /// Loads bytes of the transport header; of a later fragment there are none.
    Transport {
        /// From which byte on.
        offset: u32,
        /// How many.
        length: u32,
        /// Where to.
        into: Register,
    },
    /// Loads the source address of the Ethernet header, 6 bytes.
    EthernetSource(Register),
    /// Loads the destination port from the transport header.
    DestinationPort(Register),
    /// Loads what is known about the connection, 4 bytes.
    Conntrack(Conntrack, Register),
    /// Loads what the connection's first packet said.
    Original(Original, Register),
    /// Loads what the destination address is to this host (`RTN_*`), 4 bytes.
    DestinationType(Register),
    /// What kind of address the packet comes from, as this host sees it (`RTN_LOCAL` and so on).
    SourceType(Register),
    /// Keeps only these bits.
    Mask(Register, Cow<'a, [u8]>),
    /// Matches if the register has this value.
    Equal(Register, Cow<'a, [u8]>),
    /// Matches if the register has another value.
    Unequal(Register, Cow<'a, [u8]>),
    /// Matches what lies between two values, both included; or what does not.
    Range {
        /// Where the value is.
        at: Register,
        /// The first.
        first: Cow<'a, [u8]>,
        /// The last.
        last: Cow<'a, [u8]>,
        /// Whether what is outside matches.
        outside: bool,
    },
    /// Matches if this set has the key.
    In(&'a str, Register),
    /// Matches if this set does not have the key.
    NotIn(&'a str, Register),
    /// Matches if this map has the key, and loads its value.
    Map {
        /// The map's name.
        name: &'a str,
        /// Where the key is.
        key: Register,
        /// Where to.
        into: Register,
    },
    /// Loads these bytes.
    Load(Register, Cow<'a, [u8]>),
    /// Gives the packet the mark in this register.
    SetMark(Register),
    /// Translates the destination to the address and port in these registers.
    DestinationNat {
        /// Of which packets.
        family: Family,
        /// Where the address is.
        address: Register,
        /// Where the port is.
        port: Register,
    },
    /// Translates the source to the address in this register.
    SourceNat {
        /// Of which packets.
        family: Family,
        /// Where the address is.
        address: Register,
    },
    /// Translates the source to the address of the interface that the packet goes out through.
    Masquerade,
    /// Keeps the packet out of connection tracking, and so out of every translation.
    NotTracked,
    /// Counts.
    Counter,
    /// Matches so often and no more, in packets.
    Limit {
        /// In a second.
        per_second: u32,
        /// At once.
        burst: u32,
    },
    /// Matches where the key comes more often than so, counted in a set of [`super::Lookup::Counting`].
    Often {
        /// The set.
        set: &'a str,
        /// Where the key is.
        key: Register,
        /// How often it may come.
        times: u32,
        /// In how many seconds.
        seconds: u32,
    },
    /// Refuses the packet with an answer.
    Reject(Answer),
    /// Reports the packet to whom listens to this group ([`crate::PacketLog`]).
    Log {
        /// The group.
        group: u16,
        /// What is reported with it, at most 63 bytes.
        prefix: &'a str,
        /// How much of the packet is, in bytes.
        length: u32,
    },
    /// A match of iptables.
    Extension {
        /// Its name.
        name: &'a str,
        /// The version of its structure.
        revision: u32,
        /// Its structure.
        info: Cow<'a, [u8]>,
    },
    /// Ends the rule with a verdict.
    Verdict(Verdict<'a>),
}

/// Of the destination port, in the headers of all protocols that have one.
const PORT_OFFSET: u32 = 2;
/// `NFT_PAYLOAD_NETWORK_HEADER`.
const NETWORK: u32 = 1;
/// `NFT_PAYLOAD_LL_HEADER`, and where the source is in an Ethernet header.
const LINK: u32 = 0;
const SOURCE_OFFSET: u32 = 6;
/// `NFT_PAYLOAD_TRANSPORT_HEADER`.
const TRANSPORT: u32 = 2;

impl Expression<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Expression::Meta(..) => "meta",
            Expression::Network { .. }
            | Expression::Transport { .. }
            | Expression::EthernetSource(_)
            | Expression::DestinationPort(_) => "payload",
            Expression::Conntrack(..) | Expression::Original(..) => "ct",
            Expression::DestinationType(_) | Expression::SourceType(_) => "fib",
            Expression::Mask(..) => "bitwise",
            Expression::Equal(..) | Expression::Unequal(..) => "cmp",
            Expression::Range { .. } => "range",
            Expression::Often { .. } => "dynset",
            Expression::Reject(_) => "reject",
            Expression::In(..) | Expression::NotIn(..) | Expression::Map { .. } => "lookup",
            Expression::DestinationNat { .. } | Expression::SourceNat { .. } => "nat",
            Expression::Masquerade => "masq",
            Expression::NotTracked => "notrack",
            Expression::Counter => "counter",
            Expression::Limit { .. } => "limit",
            Expression::Log { .. } => "log",
            Expression::Extension { .. } => "match",
            Expression::Verdict(_) | Expression::Load(..) => "immediate",
            Expression::SetMark(_) => "meta",
        }
    }

    /// Appends this one to a list of expressions.
    pub(crate) fn write(&self, list: &mut Request<'_>) {
        list.nest(LIST_ELEMENT, |expression| {
            expression.text(EXPRESSION_NAME, self.name());
            expression.nest(EXPRESSION_DATA, |data| self.write_data(data));
        });
    }

    fn write_data(&self, to: &mut Request<'_>) {
        match self {
            Expression::Meta(key, into) => {
                to.be32(2, key.number()).be32(1, into.number());
            }
            Expression::Network { offset, length, into } => {
                payload(to, NETWORK, [*offset, *length], *into);
            }
            Expression::Transport { offset, length, into } => {
                payload(to, TRANSPORT, [*offset, *length], *into);
            }
            Expression::EthernetSource(into) => payload(to, LINK, [SOURCE_OFFSET, 6], *into),
            Expression::DestinationPort(into) => payload(to, TRANSPORT, [PORT_OFFSET, 2], *into),
            Expression::Conntrack(key, into) => {
                let key = match key {
                    Conntrack::State => 0,
                    Conntrack::Status => 2,
                };
                to.be32(2, key).be32(1, into.number());
            }
<<<<<<< HEAD
            Expression::Original(..)
            | Expression::Range { .. }
            | Expression::Often { .. }
            | Expression::Reject(_) => self.write_judging(to),
=======
            Expression::Load(into, value) => {
                to.be32(1, into.number());
                to.nest(2, |data| {
                    data.attribute(DATA_VALUE, value);
                });
            }
            // `NFT_META_MARK`, from a register.
            Expression::SetMark(from) => {
                to.be32(2, Meta::Mark.number()).be32(3, from.number());
            }
>>>>>>> fence
            // `NFT_FIB_RESULT_ADDRTYPE` of what `NFTA_FIB_F_DADDR` asks about, or `NFTA_FIB_F_SADDR`.
            Expression::DestinationType(into) => {
                to.be32(3, 2).be32(2, 3).be32(1, into.number());
            }
            Expression::SourceType(into) => {
                to.be32(3, 1).be32(2, 3).be32(1, into.number());
            }
            Expression::Mask(register, mask) => bitwise(to, *register, mask),
            Expression::Equal(register, value) => compare(to, *register, 0, value),
            Expression::Unequal(register, value) => compare(to, *register, 1, value),
            Expression::In(set, key) => {
                to.text(1, set).be32(2, key.number());
            }
            Expression::NotIn(set, key) => {
                to.text(1, set).be32(2, key.number()).be32(5, 1);
            }
            Expression::Map { name, key, into } => {
                to.text(1, name).be32(2, key.number()).be32(3, into.number());
            }
            Expression::DestinationNat { family, address, port } => {
                // `NFT_NAT_DNAT`.
                to.be32(1, 1).be32(2, u32::from(family.number()));
                to.be32(3, address.number()).be32(5, port.number());
            }
            Expression::SourceNat { family, address } => {
                // `NFT_NAT_SNAT`.
                to.be32(1, 0).be32(2, u32::from(family.number())).be32(3, address.number());
            }
            Expression::Masquerade | Expression::NotTracked => {}
            Expression::Counter => {
                to.be64(1, 0).be64(2, 0);
            }
            // `NFT_LIMIT_PKTS`, in one second.
            Expression::Limit { per_second, burst } => {
                to.be64(1, u64::from(*per_second)).be64(2, 1).be32(3, *burst).be32(4, 0);
            }
            Expression::Log { group, prefix, length } => {
                to.be16(1, *group).text(2, prefix).be32(3, *length).be16(4, 1);
            }
            Expression::Extension { name, revision, info } => {
                to.text(1, name).be32(2, *revision).attribute(3, info);
            }
            Expression::Verdict(verdict) => immediate(to, *verdict),
        }
    }

    /// Of the four that judge as another firewall does.
    fn write_judging(&self, to: &mut Request<'_>) {
        match self {
            // `IP_CT_DIR_ORIGINAL`.
            Expression::Original(part, into) => {
                to.be32(2, part.number()).be32(1, into.number()).attribute(3, &[0]);
            }
            Expression::Range { at, first, last, outside } => {
                to.be32(1, at.number()).be32(2, u32::from(*outside));
                value(to, 3, first);
                value(to, 4, last);
            }
            Expression::Often { set, key, times, seconds } => {
                often(to, set, *key, [*times, *seconds]);
            }
            // `NFT_REJECT_TCP_RST`, or `NFT_REJECT_ICMPX_UNREACH` with `NFT_REJECT_ICMPX_PORT_UNREACH`.
            Expression::Reject(Answer::Reset) => {
                to.be32(1, 1);
            }
            Expression::Reject(Answer::Unreachable) => {
                to.be32(1, 2).attribute(2, &[1]);
            }
            _ => {}
        }
    }
}

fn payload(to: &mut Request<'_>, base: u32, [offset, length]: [u32; 2], into: Register) {
    to.be32(1, into.number()).be32(2, base).be32(3, offset).be32(4, length);
}

fn bitwise(to: &mut Request<'_>, register: Register, mask: &[u8]) {
    let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
    to.be32(1, register.number()).be32(2, register.number()).be32(3, length);
    to.nest(4, |data| {
        data.attribute(DATA_VALUE, mask);
    });
    to.nest(5, |data| {
        data.attribute(DATA_VALUE, &vec![0; mask.len()]);
    });
}

fn value(to: &mut Request<'_>, kind: u16, bytes: &[u8]) {
    to.nest(kind, |data| {
        data.attribute(DATA_VALUE, bytes);
    });
}

/// `NFT_DYNSET_OP_UPDATE` with a limit that matches what is over it (`NFT_LIMIT_F_INV`).
fn often(to: &mut Request<'_>, set: &str, key: Register, [times, seconds]: [u32; 2]) {
    to.text(1, set).be32(3, 1).be32(4, key.number());
    to.be64(6, u64::from(seconds).saturating_mul(1000));
    to.nest(7, |limit| {
        limit.text(EXPRESSION_NAME, "limit");
        limit.nest(EXPRESSION_DATA, |data| {
            data.be64(1, u64::from(times)).be64(2, u64::from(seconds));
            data.be32(3, times).be32(4, 0).be32(5, 1);
        });
    });
}

fn compare(to: &mut Request<'_>, register: Register, operator: u32, value: &[u8]) {
    to.be32(1, register.number()).be32(2, operator);
    to.nest(3, |data| {
        data.attribute(DATA_VALUE, value);
    });
}

/// `NFT_REG_VERDICT` is register zero.
fn immediate(to: &mut Request<'_>, verdict: Verdict<'_>) {
    to.be32(1, 0);
    to.nest(2, |data| {
        data.nest(DATA_VERDICT, |inner| {
            inner.attribute(VERDICT_CODE, &verdict.code().to_be_bytes());
            if let Verdict::Jump(chain) | Verdict::Goto(chain) = verdict {
                inner.text(VERDICT_CHAIN, chain);
            }
        });
    });
}
