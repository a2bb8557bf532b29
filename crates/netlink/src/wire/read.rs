//! The reading half.

use std::net::IpAddr;

use model::Mac;

use super::{ATTRIBUTE, HEADER, aligned};

/// Bits of an attribute's type that are flags: `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const FLAGS: u16 = 0xc000;

/// `N` bytes of `bytes` from `at` on.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Of `datagram`, as it was received.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let bytes = self.rest;
        let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
        let message = Message {
            kind: u16::from_ne_bytes(array(bytes, 4)?),
            flags: u16::from_ne_bytes(array(bytes, 6)?),
            sequence: u32::from_ne_bytes(array(bytes, 8)?),
            payload: bytes.get(HEADER..length)?,
        };
        self.rest = bytes.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`: of the request that it answers, zero for a notification.
    pub sequence: u32,
    /// The data behind the header.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes behind a fixed header of `header` bytes.
    pub fn attributes(&self, header: usize) -> Attributes<'a> {
        Attributes::new(self.payload.get(aligned(header)..).unwrap_or_default())
    }
}

/// Attributes one after the other.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Of `bytes`, which begin with the first one.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The first one of type `kind`.
    pub fn find_kind(&self, kind: u16) -> Option<Attribute<'a>> {
        self.clone().find(|attribute| attribute.kind == kind)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let bytes = self.rest;
        let length = usize::from(u16::from_ne_bytes(array(bytes, 0)?));
        let kind = u16::from_ne_bytes(array(bytes, 2)?) & !FLAGS;
        let value = bytes.get(ATTRIBUTE..length)?;
        self.rest = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Attribute { kind, value })
    }
}

/// A received attribute. Each reading is `None` if the value is too short for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its type without flags.
    pub kind: u16,
    /// Its value without padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// As an 8-bit number.
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// As a 16-bit number in the host's byte order.
    pub fn u16(&self) -> Option<u16> {
        array(self.value, 0).map(u16::from_ne_bytes)
    }

    /// As a 32-bit number in the host's byte order.
    pub fn u32(&self) -> Option<u32> {
        array(self.value, 0).map(u32::from_ne_bytes)
    }

    /// As a signed 32-bit number in the host's byte order.
    pub fn i32(&self) -> Option<i32> {
        array(self.value, 0).map(i32::from_ne_bytes)
    }

    /// As a 16-bit number in the network's byte order.
    pub fn be16(&self) -> Option<u16> {
        array(self.value, 0).map(u16::from_be_bytes)
    }

    /// As a 32-bit number in the network's byte order.
    pub fn be32(&self) -> Option<u32> {
        array(self.value, 0).map(u32::from_be_bytes)
    }

    /// As a 64-bit number in the network's byte order.
    pub fn be64(&self) -> Option<u64> {
        array(self.value, 0).map(u64::from_be_bytes)
    }

    /// As a text, up to its terminating zero.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(self.value.get(..end)?).ok()
    }

    /// As an IP address, by its length.
    pub fn address(&self) -> Option<IpAddr> {
        match self.value.len() {
            4 => array::<4>(self.value, 0).map(IpAddr::from),
            16 => array::<16>(self.value, 0).map(IpAddr::from),
            _ => None,
        }
    }

    /// As an Ethernet address.
    pub fn mac(&self) -> Option<Mac> {
        (self.value.len() == 6).then(|| array(self.value, 0).map(Mac::new)).flatten()
    }

    /// The attributes that it holds.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Batch;

    #[test]
    fn ends_where_a_length_lies() {
        let lying = [[200, 0, 0, 0].as_slice(), &[0; 20]].concat();
        assert_eq!(Messages::new(&lying).count(), 0);
        assert_eq!(Messages::new(&[0; 64]).count(), 0);
        assert_eq!(Attributes::new(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
        assert_eq!(Attributes::new(&[4, 0, 1, 0]).count(), 1);
    }

    #[test]
    fn text_ends_at_zero() {
        let text = Attribute { kind: 1, value: b"eth0\0junk" }.text();
        assert_eq!(text, Some("eth0"));
        assert_eq!(Attribute { kind: 1, value: &[0xff] }.text(), None);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            attributes in proptest::collection::vec(
                (1u16..0x4000, proptest::collection::vec(any::<u8>(), 0..64)), 0..20),
        ) {
            let mut batch = Batch::new();
            let mut request = batch.request(16, 0, "test");
            for (kind, value) in &attributes {
                request.attribute(*kind, value);
            }
            let bytes = batch.seal(1).to_vec();
            let message = Messages::new(&bytes).next().unwrap();
            let read: Vec<_> = message.attributes(0).map(|a| (a.kind, a.value.to_vec())).collect();
            prop_assert_eq!(read, attributes);
        }
    }
}
