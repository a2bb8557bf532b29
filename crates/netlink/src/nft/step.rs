//! The steps of a rule as the kernel lists them, with their registers: what is needed to follow a
//! packet through chains of any program (`linux/netfilter/nf_tables.h`).

use super::abi;
use crate::wire::{Attribute, Attributes};

/// A 32-bit register: the first is number 4, as in the kernel, where the verdict stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register32(pub usize);

impl Register32 {
    /// How many registers there are, with the room of the verdict.
    pub const COUNT: usize = 20;

    /// From `NFT_REG_*` (16 bytes each) or `NFT_REG32_*`.
    fn read(attribute: Option<Attribute<'_>>) -> Option<Self> {
        match attribute?.be32()? as usize {
            0 => Some(Self(0)),
            wide @ 1..=4 => Some(Self(wide * 4)),
            narrow @ 8..=23 => Some(Self(narrow - 4)),
            _ => None,
        }
    }
}

/// A verdict of any program's rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This base chain has nothing against the packet.
    Accept,
    /// It is gone.
    Drop,
    /// A program decides.
    Queue,
    /// The next rule.
    Continue,
    /// Continue behind the jump to this chain.
    Return,
    /// Continue in this chain, and come back.
    Jump(String),
    /// Continue in this chain, and return to the caller of this one.
    Goto(String),
}

impl Decision {
    /// Of a nest `NFTA_DATA_VERDICT`.
    fn read(verdict: &Attributes<'_>) -> Option<Self> {
        let chain = || Some(verdict.find_kind(abi::VERDICT_CHAIN)?.text()?.to_owned());
        match verdict.find_kind(abi::VERDICT_CODE)?.be32()?.cast_signed() {
            0 => Some(Self::Drop),
            1 => Some(Self::Accept),
            code if code & 0xff == 3 && code > 0 => Some(Self::Queue),
            -1 | -2 => Some(Self::Continue),
            -3 => Some(Self::Jump(chain()?)),
            -4 => Some(Self::Goto(chain()?)),
            -5 => Some(Self::Return),
            _ => None,
        }
    }
}

/// A constant: bytes, or a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Bytes of a register.
    Bytes(Vec<u8>),
    /// What a verdict map leads to.
    Decision(Decision),
    /// The name of the object that a map of objects leads to.
    Object(String),
}

impl Datum {
    pub(super) fn read(data: &Attributes<'_>) -> Option<Self> {
        match data.find_kind(abi::DATA_VALUE) {
            Some(value) => Some(Self::Bytes(value.value.to_vec())),
            None => {
                Decision::read(&data.find_kind(abi::DATA_VERDICT)?.nested()).map(Self::Decision)
            }
        }
    }
}

/// The header that bytes are loaded from (`NFT_PAYLOAD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Ethernet's.
    Link,
    /// IPv4's or IPv6's.
    Network,
    /// TCP's, UDP's, ICMP's.
    Transport,
    /// Another one.
    Other,
}

/// One step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Loads what is known about the packet, by `NFT_META_*`.
    Meta(u32, Register32),
    /// Loads bytes of a header.
    Payload {
        /// Which.
        base: Header,
        /// From which byte on.
        offset: usize,
        /// How many.
        length: usize,
        /// Where to.
        into: Register32,
    },
    /// Loads what is known about the connection, by `NFT_CT_*`; of one direction, where it says so.
    Conntrack(u32, Option<u8>, Register32),
    /// Asks the routing tables (`NFT_FIB_RESULT_*`, `NFTA_FIB_F_*`).
    Fib {
        /// What for.
        result: u32,
        /// About what.
        flags: u32,
        /// Where to.
        into: Register32,
    },
    /// Keeps some bits and turns others: `(from & mask) ^ xor`.
    Bitwise {
        /// Where from.
        from: Register32,
        /// Where to.
        into: Register32,
        /// Which bits.
        mask: Vec<u8>,
        /// Which of them are turned.
        xor: Vec<u8>,
    },
    /// Turns a number of four bytes from this host's order into the network's, or back.
    Turned(Register32),
    /// Compares (`NFT_CMP_*`: equal, unequal, less, at most, more, at least).
    Compare(Register32, u32, Vec<u8>),
    /// Matches between both; outside where the last is true.
    Range(Register32, Vec<u8>, Vec<u8>, bool),
    /// Looks up in a set or map.
    Lookup {
        /// Its name.
        set: String,
        /// Where the key is.
        key: Register32,
        /// Where the value goes, of a map.
        into: Option<Register32>,
        /// Whether it matches where nothing is found.
        inverted: bool,
    },
    /// Has an object judge that a map leads to: a quota, or a counter.
    Object {
        /// The map.
        map: String,
        /// Where the key is.
        key: Register32,
    },
    /// Loads a constant.
    Constant(Register32, Vec<u8>),
    /// A verdict.
    Decision(Decision),
    /// Refuses with an answer.
    Reject,
    /// Translates an address.
    Nat {
        /// Whether it is the destination's.
        is_destination: bool,
        /// `NFPROTO_*`: packets of another family are passed over.
        family: u8,
        /// Where the address is.
        address: Option<Register32>,
        /// Where the port is.
        port: Option<Register32>,
    },
    /// Translates the source to the address of the interface.
    Masquerade,
    /// Translates the destination to this host, and to the port in the register.
    Redirect(Option<Register32>),
    /// Sets the packet's mark.
    SetMark(Register32),
    /// Sets the mark of the packet's connection.
    SetConnectionMark(Register32),
    /// Keeps the packet out of connection tracking.
    NotTracked,
    /// A match of iptables, its revision and structure.
    Match(String, u32, Vec<u8>),
    /// A target of iptables, its revision and structure.
    Target(String, u32, Vec<u8>),
    /// Without effect on whether the packet passes.
    Neutral,
    /// What is not understood here, by the kernel's name for it.
    Other(String),
}

/// Expressions that change nothing about whether a packet passes. `objref` counts, limits, or takes the packet by a
/// named object, and is not among them.
const NEUTRAL: [&str; 3] = ["counter", "log", "last"];

impl Step {
    pub(super) fn read(expression: &Attributes<'_>) -> Self {
        let name = expression.find_kind(abi::EXPRESSION_NAME).and_then(|name| name.text());
        let Some(name) = name else { return Self::Other("?".to_owned()) };
        let data = expression.find_kind(abi::EXPRESSION_DATA).map(|data| data.nested());
        let data = data.unwrap_or_else(|| Attributes::new(&[]));
        match name {
            "reject" => Self::Reject,
            "masq" => Self::Masquerade,
            "notrack" => Self::NotTracked,
            name if NEUTRAL.contains(&name) => Self::Neutral,
            name => Self::read_known(name, &data).unwrap_or_else(|| Self::Other(name.to_owned())),
        }
    }

    fn read_known(name: &str, data: &Attributes<'_>) -> Option<Self> {
        let number = |kind| data.find_kind(kind).and_then(|attribute| attribute.be32());
        let place = |kind| Register32::read(data.find_kind(kind));
        Some(match name {
            "meta" => match place(1) {
                Some(into) => Self::Meta(number(2)?, into),
                // `meta set`: of the mark it matters later, of the rest it does not.
                None if number(2)? == MARK => Self::SetMark(place(3)?),
                None => Self::Neutral,
            },
            "ct" => {
                let direction = data.find_kind(3).and_then(|attribute| attribute.u8());
                match place(1) {
                    Some(into) => Self::Conntrack(number(2)?, direction, into),
                    // `ct mark set`.
                    None if number(2)? == MARK => Self::SetConnectionMark(place(4)?),
                    None => return None,
                }
            }
            "payload" => Self::read_payload(data)?,
            "fib" => Self::Fib { into: place(1)?, result: number(2)?, flags: number(3)? },
            "immediate" => match Datum::read(&data.find_kind(2)?.nested())? {
                Datum::Bytes(bytes) => Self::Constant(place(1)?, bytes),
                Datum::Decision(decision) => Self::Decision(decision),
                Datum::Object(_) => return None,
            },
            "nat" => Self::Nat {
                is_destination: number(1)? != 0,
                family: u8::try_from(number(2)?).ok()?,
                address: place(3),
                port: place(5),
            },
            "redir" => Self::Redirect(place(1)),
            "match" | "target" => {
                let named = data.find_kind(1)?.text()?.to_owned();
                let info = data.find_kind(3).map_or(Vec::new(), |info| info.value.to_vec());
                let revision = number(2).unwrap_or(0);
                match name {
                    "match" => Self::Match(named, revision, info),
                    _ => Self::Target(named, revision, info),
                }
            }
            _ => return Self::read_comparison(name, data),
        })
    }

    fn read_payload(data: &Attributes<'_>) -> Option<Self> {
        let number = |kind| data.find_kind(kind).and_then(|attribute| attribute.be32());
        let base = match number(2)? {
            0 => Header::Link,
            1 => Header::Network,
            2 => Header::Transport,
            _ => Header::Other,
        };
        let (offset, length) = (number(3)? as usize, number(4)? as usize);
        // Without a register it changes the packet.
        Some(Self::Payload { base, offset, length, into: Register32::read(data.find_kind(1))? })
    }

    fn read_comparison(name: &str, data: &Attributes<'_>) -> Option<Self> {
        let number = |kind| data.find_kind(kind).and_then(|attribute| attribute.be32());
        let place = |kind| Register32::read(data.find_kind(kind));
        let bytes = |kind| match Datum::read(&data.find_kind(kind)?.nested())? {
            Datum::Bytes(bytes) => Some(bytes),
            Datum::Decision(_) | Datum::Object(_) => None,
        };
        Some(match name {
            "cmp" => Self::Compare(place(1)?, number(2)?, bytes(3)?),
            "range" => Self::Range(place(1)?, bytes(3)?, bytes(4)?, number(2)? == 1),
            // `NFTA_BITWISE_OP` other than booleans: shifts.
            "bitwise" if number(6).unwrap_or(0) == 0 => {
                Self::Bitwise { from: place(1)?, into: place(2)?, mask: bytes(4)?, xor: bytes(5)? }
            }
            // What is shorter than its parts stays as it is: a protocol's number, before a set of several fields.
            "byteorder" if place(1)? == place(2)? && number(4)? < number(5)? => Self::Neutral,
            "byteorder" if place(1)? == place(2)? && (number(4)?, number(5)?) == (4, 4) => {
                Self::Turned(place(1)?)
            }
            "lookup" => Self::Lookup {
                set: data.find_kind(1)?.text()?.to_owned(),
                key: place(2)?,
                into: place(3),
                inverted: number(5).unwrap_or(0) & 1 != 0,
            },
            // `NFTA_OBJREF_IMM_TYPE`.
            "objref" if number(1) == Some(SYNPROXY) => Self::Other("synproxy".to_owned()),
            // `NFTA_OBJREF_SET_SREG` and `_SET_NAME`; without them it is one object for all.
            "objref" => Self::Object { map: data.find_kind(4)?.text()?.to_owned(), key: place(3)? },
            _ => return None,
        })
    }
}

/// `NFT_OBJECT_SYNPROXY`: it takes the packet, as the statement of the same name does.
pub(super) const SYNPROXY: u32 = 10;

/// `NFT_META_MARK`.
const MARK: u32 = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `synproxy name "p"`, and `counter name "c"`.
    #[test]
    fn a_named_proxy_takes_the_packet() {
        let text = |kind: u16, text: &str| {
            let mut value = text.as_bytes().to_vec();
            value.push(0);
            attribute(kind, &value)
        };
        let read = |of: u32| {
            let named = [attribute(1, &of.to_be_bytes()), text(2, "p")].concat();
            let data = attribute(abi::EXPRESSION_DATA | 0x8000, &named);
            let bytes = [text(abi::EXPRESSION_NAME, "objref"), data].concat();
            Step::read(&Attributes::new(&bytes))
        };
        assert_eq!(read(SYNPROXY), Step::Other("synproxy".to_owned()));
        assert_eq!(read(1), Step::Other("objref".to_owned()));
    }

    /// `ct mark set`, and `ct label set`.
    #[test]
    fn the_mark_of_a_connection_is_set() {
        let read = |key: u32| {
            let number = |kind: u16, number: u32| attribute(kind, &number.to_be_bytes());
            let set = [number(2, key), number(4, 1)].concat();
            let data = attribute(abi::EXPRESSION_DATA | 0x8000, &set);
            let bytes = [attribute(abi::EXPRESSION_NAME, b"ct\0"), data].concat();
            Step::read(&Attributes::new(&bytes))
        };
        assert_eq!(read(MARK), Step::SetConnectionMark(Register32(4)));
        assert_eq!(read(7), Step::Other("ct".to_owned()));
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    proptest! {
        #[test]
        fn any_expression_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Step::read(&Attributes::new(&bytes));
            let _ = Datum::read(&Attributes::new(&bytes));
        }
    }
}
