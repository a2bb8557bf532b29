//! Addresses for which this host answers on a link, because it has the way to them (`NTF_PROXY`).

use std::net::{IpAddr, Ipv6Addr};

use model::Result;

use super::{DELETE, DST, GET, HEADER, NEW, header};
use crate::Socket;
use crate::wire::{Batch, CREATE, DUMP, REPLACE, array};

/// `NTF_PROXY`.
const PROXY: u8 = 0x08;
/// `AF_INET6`.
const V6: u8 = 10;

fn proxied(link: u32, address: Option<IpAddr>) -> [u8; HEADER] {
    let mut bytes = header(link, address, 0);
    bytes[10] = PROXY;
    bytes
}

impl Batch {
    /// Has this host answer for `address` on `link`; returns the message's index.
    pub fn set_proxy(&mut self, link: u32, address: Ipv6Addr) -> usize {
        let about = format!("answering for {address} on link {link}");
        let mut request = self.request(NEW, CREATE | REPLACE, about);
        request.bytes(&proxied(link, Some(address.into()))).address(DST, address.into());
        self.count() - 1
    }

    /// Ends that; returns the message's index. ENOENT if it did not.
    pub fn delete_proxy(&mut self, link: u32, address: Ipv6Addr) -> usize {
        let about = format!("answering no more for {address} on link {link}");
        let mut request = self.request(DELETE, 0, about);
        request.bytes(&proxied(link, Some(address.into()))).address(DST, address.into());
        self.count() - 1
    }
}

impl Socket {
    /// The IPv6 addresses for which this host answers on the link with this index.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn proxies(&mut self, link: u32) -> Result<Vec<Ipv6Addr>> {
        let mut batch = Batch::new();
        let mut head = proxied(0, None);
        head[0] = V6;
        batch.request(GET, DUMP, "listing the addresses that are answered for").bytes(&head);
        self.dump(&mut batch, &[], |message| {
            let index = u32::from_ne_bytes(array(message.payload, 4)?);
            let [flags] = array(message.payload, 10)?;
            let address = message.attributes(HEADER).find_kind(DST)?.address()?;
            match address {
                IpAddr::V6(address) if index == link && flags & PROXY != 0 => Some(address),
                _ => None,
            }
        })
    }
}
