//! The bytes of keys and data.

use std::net::IpAddr;

use model::{IfName, Mac};

use super::Family;
use super::data::Field;

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

    /// The same in a set of ranges ([`super::Lookup::Ranges`]), which compares numbers in network order
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_padded_and_read_again() {
        let tuple = Tuple::new().address("1.2.3.4".parse().unwrap()).protocol(6).service(80);
        assert_eq!(tuple.bytes(), [1, 2, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0]);
        let key = [Field::Ipv4, Field::Protocol, Field::Service];
        assert_eq!(tuple.fields(&key).unwrap(), [&[1, 2, 3, 4][..], &[6], &[0, 80]]);
        assert_eq!(tuple.fields(&key[..2]), None);
        assert_eq!(tuple.fields(&[Field::Ipv6]), None);
    }
}
