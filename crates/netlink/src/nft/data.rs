//! The contents of sets.

use std::net::IpAddr;
use std::str::FromStr;

use model::{Error, IfName, Mac, Result};

use super::typeof_key::typeof_key;
use super::{Family, abi};
use crate::wire::{Attributes, Request};

/// A part of a set's key or of a map's value (`datatypes` of nft(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `nf_proto`.
    Family,
    /// `ipv4_addr`.
    Ipv4,
    /// `ipv6_addr`.
    Ipv6,
    /// `inet_proto`.
    Protocol,
    /// `inet_service`.
    Service,
    /// `ifname`.
    Interface,
    /// `ether_addr`.
    Ethernet,
    /// `mark`.
    Mark,
    /// Bytes of the transport header, as a number: `typeof_key` says where they are.
    Transport {
        /// From which byte on.
        offset: u8,
        /// How many.
        length: u8,
    },
}

impl Field {
    const fn code(self) -> u32 {
        match self {
            Field::Family => 2,
            Field::Ipv4 => 7,
            Field::Ipv6 => 8,
            Field::Protocol => 12,
            Field::Service => 13,
            Field::Interface => 41,
            Field::Ethernet => 9,
            Field::Mark => 19,
            // `integer`.
            Field::Transport { .. } => 4,
        }
    }

    /// In bytes, as it stands in a tuple.
    const fn size(self) -> usize {
        match self {
            Field::Family | Field::Ipv4 | Field::Protocol | Field::Service | Field::Mark => 4,
            Field::Ethernet => 8,
            Field::Ipv6 | Field::Interface => 16,
            Field::Transport { length, .. } => crate::wire::aligned(length as usize),
        }
    }

    /// In bytes, as it stands alone.
    const fn alone(self) -> usize {
        match self {
            Field::Family | Field::Protocol => 1,
            Field::Service => 2,
            Field::Ethernet => 6,
            Field::Transport { length, .. } => length as usize,
            Field::Ipv4 | Field::Ipv6 | Field::Interface | Field::Mark => self.size(),
        }
    }

    /// nft's number for a tuple of `fields`: six bits each.
    fn code_of(fields: &[Field]) -> u32 {
        fields.iter().fold(0, |code, field| code << 6 | field.code())
    }

    fn length_of(fields: &[Field]) -> u32 {
        let length = match fields {
            [field] => field.alone(),
            _ => fields.iter().map(|field| field.size()).sum(),
        };
        u32::try_from(length).unwrap_or(u32::MAX)
    }
}

/// The kind of look-up in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// By keys.
    Exact,
    /// By what lies between two keys ([`super::Transaction::add_interval`]).
    Interval,
    /// By what lies between two keys in each field ([`super::Transaction::add_between`]).
    Ranges,
    /// By keys of elements that expire ([`super::Transaction::put_expiring`]).
    Expiring,
    /// By keys that rules add, each with how often it came ([`super::Expression::Often`]), or for a while
    /// ([`super::Expression::Note`]): at most 65,535, because packets choose them.
    Counting,
}

/// Objects of a table, to which elements of maps lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// [`super::Transaction::ensure_counter`].
    Counter,
    /// [`super::Transaction::add_quota`].
    Quota,
}

impl ObjectKind {
    const fn number(self) -> u32 {
        match self {
            ObjectKind::Counter => abi::IS_COUNTER,
            ObjectKind::Quota => abi::IS_QUOTA,
        }
    }
}

/// A set, or a map if it has data. At most five fields of either: what nft(8) can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// At most 255 bytes.
    pub name: &'a str,
    /// The key.
    pub key: &'a [Field],
    /// What is found; empty for a set, and where objects are.
    pub data: &'a [Field],
    /// What is found, where that is an object of the table.
    pub objects: Option<ObjectKind>,
    /// How it is looked up in.
    pub lookup: Lookup,
}

/// What nft(8) gives a set to which rules add.
const MOST_NOTED: u32 = 65_535;

impl Set<'_> {
    pub(crate) fn write(&self, request: &mut Request<'_>) {
        let interval = match self.lookup {
            Lookup::Exact => 0,
            Lookup::Interval => abi::SET_IS_INTERVAL,
            Lookup::Ranges => abi::SET_IS_INTERVAL | abi::SET_IS_CONCATENATED,
            Lookup::Expiring => abi::SET_HAS_TIMEOUTS,
            Lookup::Counting => abi::SET_HAS_TIMEOUTS | abi::SET_IS_CHANGED_BY_RULES,
        };
        let map = if self.data.is_empty() { 0 } else { abi::SET_IS_MAP };
        let objects = if self.objects.is_some() { abi::SET_HAS_OBJECTS } else { 0 };
        request.be32(abi::SET_FLAGS, interval | map | objects);
        request.be32(abi::SET_KEY_TYPE, Field::code_of(self.key));
        request.be32(abi::SET_KEY_LEN, Field::length_of(self.key));
        if self.key == [Field::Interface] {
            // Otherwise nft(8) shows every name as empty.
            request.attribute(abi::SET_USERDATA, &abi::USERDATA_HOST_ORDER);
        } else if let Some(userdata) = typeof_key(self.key) {
            request.attribute(abi::SET_USERDATA, &userdata);
        }
        if !self.data.is_empty() {
            request.be32(abi::SET_DATA_TYPE, Field::code_of(self.data));
            request.be32(abi::SET_DATA_LEN, Field::length_of(self.data));
        }
        if let Some(objects) = self.objects {
            request.be32(abi::SET_OBJECT_TYPE, objects.number());
        }
        match self.lookup {
            Lookup::Ranges => self.write_fields(request),
            Lookup::Counting => {
                request.nest(abi::SET_DESCRIPTION, |description| {
                    description.be32(abi::DESCRIPTION_SIZE, MOST_NOTED);
                });
            }
            Lookup::Exact | Lookup::Interval | Lookup::Expiring => {}
        }
    }

    /// How long each field is: the kernel must know where a range begins.
    fn write_fields(&self, request: &mut Request<'_>) {
        request.nest(abi::SET_DESCRIPTION, |description| {
            description.nest(abi::DESCRIPTION_FIELDS, |fields| {
                for field in self.key {
                    fields.nest(abi::LIST_ELEMENT, |one| {
                        one.be32(abi::FIELD_LENGTH, Field::length_of(&[*field]));
                    });
                }
            });
        });
    }
}

/// The bytes of a key or of data: fields one after the other, each padded to four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple(Vec<u8>);

impl Tuple {
    /// Longer ones the kernel refuses (`NFT_DATA_VALUE_MAXLEN`).
    const LONGEST: usize = 64;

    /// Without any field.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an address: [`Field::Ipv4`] or [`Field::Ipv6`].
    #[must_use]
    pub fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.push(&v4.octets()),
            IpAddr::V6(v6) => self.push(&v6.octets()),
        }
    }

    /// A family of packets alone: [`Field::Family`], which is not padded then.
    pub fn family(family: Family) -> Self {
        Self(vec![family.number()])
    }

    /// Appends a family of packets: [`Field::Family`] among other fields.
    #[must_use]
    pub fn of_family(self, family: Family) -> Self {
        self.push(&[family.number()])
    }

    /// Appends the number of a transport protocol: [`Field::Protocol`].
    #[must_use]
    pub fn protocol(self, number: u8) -> Self {
        self.push(&[number])
    }

    /// Appends a port: [`Field::Service`].
    #[must_use]
    pub fn service(self, port: u16) -> Self {
        self.push(&port.to_be_bytes())
    }

    /// Appends the name of an interface: [`Field::Interface`].
    #[must_use]
    pub fn interface(self, name: &IfName) -> Self {
        let mut bytes = [0; 16];
        for (place, byte) in bytes.iter_mut().zip(name.as_str().bytes()) {
            *place = byte;
        }
        self.push(&bytes)
    }

    /// Appends a hardware address: [`Field::Ethernet`].
    #[must_use]
    pub fn mac(self, mac: Mac) -> Self {
        self.push(&mac.octets())
    }

    /// Appends a packet's mark: [`Field::Mark`].
    #[must_use]
    pub fn mark(self, mark: u32) -> Self {
        self.push(&mark.to_ne_bytes())
    }

    /// The same in a set of ranges ([`Lookup::Ranges`]), which compares numbers in network order
    /// ([`super::Expression::NetworkOrder`]).
    #[must_use]
    pub fn mark_between(self, mark: u32) -> Self {
        self.push(&mark.to_be_bytes())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the fields again; `None` if there are other ones than `fields`.
    pub fn fields(&self, fields: &[Field]) -> Option<Vec<&[u8]>> {
        let mut rest = self.0.as_slice();
        let mut found = Vec::with_capacity(fields.len());
        for field in fields {
            found.push(rest.get(..field.alone())?);
            rest = rest.get(field.size()..)?;
        }
        rest.is_empty().then_some(found)
    }

    pub(crate) fn from_kernel(bytes: &[u8]) -> Option<Self> {
        let tuple = || Self(bytes.to_vec());
        match bytes.len() {
            // A family alone.
            1 => Some(tuple()),
            length => (length <= Self::LONGEST).then(|| tuple().padded()),
        }
    }

    fn push(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.padded()
    }

    fn padded(mut self) -> Self {
        self.0.resize(crate::wire::aligned(self.0.len()), 0);
        self
    }
}

/// The comment of a table, rule or element: 1 to 127 printable bytes without quotes; or up to 252, which nft(8)
/// does not show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comment(String);

impl Comment {
    /// nft(8) takes no longer ones.
    pub const LONGEST: usize = 127;
    /// The kernel takes no longer ones with an element: it counts user data and what is before them in a byte.
    pub const LONGEST_UNSEEN: usize = 252;

    /// One that may be longer than nft(8) takes it.
    ///
    /// # Errors
    /// Where it is longer than the kernel takes it, or has bytes that no comment may have.
    pub fn unseen(text: &str) -> Result<Self> {
        Self::within(text, Self::LONGEST_UNSEEN)
    }

    fn within(text: &str, longest: usize) -> Result<Self> {
        let printable = |c: char| !c.is_control() && c != '"';
        if (1..=longest).contains(&text.len()) && text.chars().all(printable) {
            return Ok(Self(text.to_owned()));
        }
        let what = format!("is not 1 to {longest} bytes without quotes and control characters");
        Err(Error::invalid(format!("nftables comment {text:?} {what}")))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As user data: type, length, text with its terminating zero, which nft(8) needs.
    pub(crate) fn userdata(&self) -> Vec<u8> {
        let text = self.0.as_bytes();
        let (kind, end): (u8, &[u8]) = match text.len() > Self::LONGEST {
            true => (abi::USERDATA_LONG, &[]),
            false => (abi::USERDATA_COMMENT, &[0]),
        };
        let length = u8::try_from(text.len() + end.len()).unwrap_or(u8::MAX);
        [&[kind, length], text, end].concat()
    }

    /// The comment in user data of any program.
    pub(crate) fn read(userdata: &[u8]) -> Option<Self> {
        let mut rest = userdata;
        while let [kind, length, tail @ ..] = rest {
            let value = tail.get(..usize::from(*length))?;
            if *kind == abi::USERDATA_COMMENT {
                let text = value.strip_suffix(&[0]).unwrap_or(value);
                return std::str::from_utf8(text).ok()?.parse().ok();
            }
            if *kind == abi::USERDATA_LONG {
                return Self::unseen(std::str::from_utf8(value).ok()?).ok();
            }
            rest = tail.get(usize::from(*length)..)?;
        }
        None
    }
}

impl FromStr for Comment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::within(text, Self::LONGEST)
    }
}

/// An element of a set or map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// The key.
    pub key: Tuple,
    /// The value, in a map.
    pub data: Option<Tuple>,
    /// The name of the object that is found, a counter or a quota, where objects are.
    pub counter: Option<String>,
    /// What it says about itself.
    pub comment: Option<Comment>,
}

impl Element {
    /// One that leads to nothing and says nothing.
    pub fn of(key: Tuple) -> Self {
        Self { key, data: None, counter: None, comment: None }
    }

    /// Writes the list that holds only this one.
    pub(crate) fn write(&self, request: &mut Request<'_>) {
        request.nest(abi::ELEMENTS_LIST, |list| {
            list.nest(abi::LIST_ELEMENT, |element| {
                element.nest(abi::ELEMENT_KEY, |key| {
                    key.attribute(abi::DATA_VALUE, self.key.bytes());
                });
                if let Some(data) = &self.data {
                    element.nest(abi::ELEMENT_DATA, |value| {
                        value.attribute(abi::DATA_VALUE, data.bytes());
                    });
                }
                if let Some(counter) = &self.counter {
                    element.text(abi::ELEMENT_OBJECT, counter);
                }
                if let Some(comment) = &self.comment {
                    element.attribute(abi::ELEMENT_USERDATA, &comment.userdata());
                }
            });
        });
    }

    pub(crate) fn read(element: &Attributes<'_>) -> Option<Self> {
        let value = |kind| {
            let nested = element.find_kind(kind)?.nested();
            Tuple::from_kernel(nested.find_kind(abi::DATA_VALUE)?.value)
        };
        let userdata = element.find_kind(abi::ELEMENT_USERDATA);
        Some(Self {
            key: value(abi::ELEMENT_KEY)?,
            data: value(abi::ELEMENT_DATA),
            counter: element
                .find_kind(abi::ELEMENT_OBJECT)
                .and_then(|counter| counter.text())
                .map(str::to_owned),
            comment: userdata.and_then(|userdata| Comment::read(userdata.value)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_types_as_nft_does() {
        let key = [Field::Ipv4, Field::Protocol, Field::Service];
        assert_eq!((Field::code_of(&key), Field::length_of(&key)), (0x730d, 12));
        let data = [Field::Ipv4, Field::Service];
        assert_eq!((Field::code_of(&data), Field::length_of(&data)), (0x1cd, 8));
        let home = [Field::Interface, Field::Ipv4];
        assert_eq!((Field::code_of(&home), Field::length_of(&home)), (0xa47, 20));
        assert_eq!(Field::length_of(&[Field::Service]), 2);
    }

    #[test]
    fn tuples_are_padded_and_read_again() {
        let tuple = Tuple::new().address("1.2.3.4".parse().unwrap()).protocol(6).service(80);
        assert_eq!(tuple.bytes(), [1, 2, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0]);
        let key = [Field::Ipv4, Field::Protocol, Field::Service];
        assert_eq!(tuple.fields(&key).unwrap(), [&[1, 2, 3, 4][..], &[6], &[0, 80]]);
        assert_eq!(tuple.fields(&key[..2]), None);
        assert_eq!(tuple.fields(&[Field::Ipv6]), None);
    }

    #[test]
    fn comments_are_nfts() {
        let comment: Comment = "own".parse().unwrap();
        assert_eq!(comment.userdata(), [0, 4, b'o', b'w', b'n', 0]);
        assert_eq!(Comment::read(&[9, 1, 7, 0, 4, b'o', b'w', b'n', 0]), Some(comment));
        assert!("".parse::<Comment>().is_err() && "a\"b".parse::<Comment>().is_err());
        assert!("x".repeat(128).parse::<Comment>().is_err());
    }

    proptest! {
        #[test]
        fn any_userdata_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Comment::read(&bytes);
            let _ = Element::read(&Attributes::new(&bytes));
        }

        #[test]
        fn comments_round_trip(text in "[ -!#-~]{1,127}") {
            let comment: Comment = text.parse().unwrap();
            prop_assert_eq!(Comment::read(&comment.userdata()), Some(comment));
        }

        #[test]
        fn long_comments_round_trip(text in "[ -!#-~]{128,252}") {
            let comment = Comment::unseen(&text).unwrap();
            prop_assert!(comment.userdata().len() < 255);
            prop_assert_eq!(Comment::read(&comment.userdata()), Some(comment));
            prop_assert!(text.parse::<Comment>().is_err());
        }
    }
}
