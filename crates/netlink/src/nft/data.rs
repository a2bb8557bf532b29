//! The contents of sets.

use super::abi;
use super::comment::Comment;
use super::tuple::Tuple;
use super::typeof_key::typeof_key;
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
    pub(super) const fn size(self) -> usize {
        match self {
            Field::Family | Field::Ipv4 | Field::Protocol | Field::Service | Field::Mark => 4,
            Field::Ethernet => 8,
            Field::Ipv6 | Field::Interface => 16,
            Field::Transport { length, .. } => crate::wire::aligned(length as usize),
        }
    }

    /// In bytes, as it stands alone.
    pub(super) const fn alone(self) -> usize {
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
            let mut userdata = abi::USERDATA_HOST_ORDER.to_vec();
            if self.data == [Field::Mark] {
                // Otherwise nft(8) reads the numbers that it has listed in network order.
                userdata.extend(abi::USERDATA_DATA_HOST_ORDER);
            }
            request.attribute(abi::SET_USERDATA, &userdata);
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

    proptest! {
        #[test]
        fn any_userdata_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Element::read(&Attributes::new(&bytes));
        }

    }
}
