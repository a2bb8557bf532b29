//! The expressions of a rule.

mod judge;
mod route;
mod write;

use std::borrow::Cow;

use super::object::Family;

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
    /// The type of the interface that it came in by (`ARPHRD_*`), 2 bytes.
    InputType,
    /// The kind of the interface that it came in by, as the kernel names it: `bridge`, `vlan`, ….
    InputKind,
    /// The user whose socket it is sent by, 4 bytes. Of what the kernel itself sends there is none, which
    /// no rule matches.
    SocketUser,
    /// To whom the frame was sent (`PACKET_*`), 1 byte: 0 is this host alone.
    PacketType,
    /// The packet's mark, 4 bytes.
    Mark,
    /// The kind of the interface that it goes out by, as [`Meta::InputKind`].
    OutputKind,
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
            Meta::InputType => 8,
            Meta::SocketUser => 10,
            Meta::Family => 15,
            Meta::Protocol => 16,
            Meta::PacketType => 19,
            Meta::InputGroup => 21,
            Meta::OutputGroup => 22,
            Meta::InputKind => 26,
            Meta::OutputKind => 27,
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
    /// The connection's mark, 4 bytes.
    Mark,
    /// Whether the packet answers (`IP_CT_DIR_*`), 1 byte.
    Direction,
}

impl Conntrack {
    const fn number(self) -> u32 {
        match self {
            Conntrack::State => 0,
            Conntrack::Direction => 1,
            Conntrack::Status => 2,
            Conntrack::Mark => 3,
        }
    }
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
    /// Loads the destination address of the Ethernet header, 6 bytes.
    EthernetDestination(Register),
    /// Loads the source address of the Ethernet header, 6 bytes.
    EthernetSource(Register),
    /// Loads the type in the Ethernet header, 2 bytes: of a frame with a tag of a VLAN that of the tag, also where the
    /// kernel has taken it off.
    EthernetType(Register),
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
    /// Loads the number of the device that the packet came in by if what is sent to its source leaves by that, else 0:
    /// 4 bytes.
    ReturnPath(Register),
    /// The same of its destination.
    ForwardPath(Register),
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
    /// Gives the connection the mark in this register.
    SetConnectionMark(Register),
    /// Loads the next hop that the packet is routed to: the destination where that is on the link.
    NextHop(Family, Register),
    /// Loads the largest segment of TCP that fits the packet's route, 2 bytes.
    RouteSegment(Register),
    /// Turns the number of two or four bytes in this register into network order.
    NetworkOrder(Register, u32),
    /// Lowers the largest segment that TCP announces to what is in this register (RFC 9293 §3.7.1).
    LimitSegment(Register),
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
        /// How often at once.
        burst: u32,
    },
    /// Notes the key for so long in a set of [`super::Lookup::Counting`], and matches; it does not where the set has
    /// no room. What is noted already stays as it is.
    Note {
        /// The set.
        set: &'a str,
        /// Where the key is.
        key: Register,
        /// For how many seconds.
        seconds: u32,
    },
    /// Has the packet counted by the object that a map leads to ([`super::Set::objects`]). With a counter it matches
    /// where there is one; with a quota, where that is used up.
    CountBy {
        /// The map.
        map: &'a str,
        /// Where the key is.
        key: Register,
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
