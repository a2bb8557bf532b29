//! Facts that an error carries, for front ends whose messages have a prescribed form: programs
//! compare the messages of the CNI reference plugins.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Device, IfName, Mac, Route};

/// The fact behind an error, apart from any sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Exactly these words are expected, after what was being done.
    Words(String),
    /// Exactly these words are expected, whatever was being done.
    Whole(String),
    /// The attachment exists already.
    Attached {
        /// Its first address from a range set.
        first: Option<IpAddr>,
        /// The requested address of a range set, and the set's ranges.
        wanted: Option<RequestedAddress>,
        /// The host's end, where it is a pair.
        peer: Option<IfName>,
    },
    /// A requested address has another holder.
    Held(RequestedAddress),
    /// A range set has no free address.
    Full {
        /// Which set.
        index: u8,
        /// Its ranges.
        ranges: String,
    },
    /// The name of an interface to be made is taken. Of a pair, with the other end's.
    NameTaken(Option<IfName>),
    /// An interface is gone.
    NoInterface(IfName),
    /// An interface has another hardware address.
    OtherMac {
        /// The interface.
        name: IfName,
        /// The hardware address that it has.
        is: Mac,
        /// The hardware address that it should have.
        wanted: Mac,
    },
    /// An interface lacks an address.
    NoAddress {
        /// The interface.
        name: IfName,
        /// The address.
        address: IpNet,
    },
    /// A route is gone.
    NoRoute(Route),
    /// An interface is of another kind.
    OtherKind(IfName),
    /// An interface is down.
    Down(IfName),
    /// An interface works in another mode.
    OtherMode {
        /// In which it does.
        is: String,
        /// In which it should.
        wanted: String,
    },
    /// A bridge does not take every frame.
    NotPromiscuous(IfName),
    /// A bridge does not have the container's port.
    NoPort(IfName),
    /// A rule of the packet filter is gone.
    NoRule {
        /// The chain.
        chain: String,
        /// The rule's words, as `iptables-save` writes them.
        rule: String,
    },
    /// The parent of an interface is gone.
    NoParent,
    /// The host has no such device.
    NoDevice(Device),
    /// A device does not leave its namespace.
    StaysHere(IfName),
}

/// An address that was asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedAddress {
    /// The address.
    pub address: IpAddr,
    /// Which range set it is of.
    pub index: u8,
    /// The set's ranges.
    pub ranges: String,
}
