//! The sockets of a namespace that take packets (sock_diag(7), `linux/inet_diag.h`).

use std::net::IpAddr;

use model::{Protocol, Result};
use rustix::net::netlink::SOCK_DIAG;

use crate::wire::{Batch, DUMP, Message, array};
use crate::{Errno, Socket};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// `struct inet_diag_msg`.
const ANSWER: usize = 72;
/// Where the state is in it, and how many connections wait and may wait: `idiag_rqueue`, `idiag_wqueue`.
const STATE: usize = 1;
const WAITING: usize = 56;
const MOST: usize = 60;
/// `idiag_inode`.
const INODE: usize = 68;
/// `TCP_LISTEN`.
const LISTENING: u8 = 10;
/// `INET_DIAG_SKV6ONLY`.
const ONLY_V6: u16 = 11;
/// `AF_INET` and `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];
/// `1 << TCP_LISTEN`, and `1 << TCP_CLOSE`, in which a socket of UDP is that is not connected.
const LISTENS: u32 = 1 << 10;
const UNCONNECTED: u32 = 1 << 7;

/// A socket that takes new connections, or datagrams from everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Its port.
    pub port: u16,
    /// The address that it is bound to; unspecified for all.
    pub address: IpAddr,
    /// Whether it takes nothing of IPv4, although it is one of IPv6.
    pub only_v6: bool,
    /// The link that it is bound to; 0 for all.
    pub link: u32,
    /// Of a socket of TCP, how many connections wait until its program accepts them, and how many may.
    pub waiting: Option<(u32, u32)>,
    /// The number of its inode, by which the descriptors of a process name it.
    pub inode: u32,
}

impl Taking {
    /// Whether it takes what is sent to `address`.
    pub fn hears(&self, address: IpAddr) -> bool {
        let bound = self.address.to_canonical();
        match (bound, address) {
            _ if bound == address => true,
            _ if !bound.is_unspecified() => false,
            (IpAddr::V4(_), to) => to.is_ipv4(),
            (IpAddr::V6(_), to) => to.is_ipv6() || !self.only_v6,
        }
    }

    /// Whether more connections wait than may: the kernel drops further ones (`sk_acceptq_is_full`).
    pub fn is_full(&self) -> bool {
        self.waiting.is_some_and(|(waiting, most)| waiting > most)
    }
}

impl Socket {
    /// For questions about sockets.
    ///
    /// # Errors
    /// Where the kernel lacks sock_diag, or the process may not open more files.
    pub fn diagnosis() -> Result<Self> {
        Self::of_protocol(SOCK_DIAG)
    }

    /// The sockets of this protocol that take packets; `None` where the kernel cannot say.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn taking(&mut self, protocol: Protocol) -> Result<Option<Vec<Taking>>> {
        let mut found = Vec::new();
        for family in FAMILIES {
            let mut batch = Batch::new();
            let about = format!("listing the sockets of {protocol}");
            let states = if protocol == Protocol::Udp { UNCONNECTED } else { LISTENS };
            let mut head = [0; REQUEST];
            head[..2].copy_from_slice(&[family, protocol.number()]);
            head[4..8].copy_from_slice(&states.to_ne_bytes());
            batch.request(BY_FAMILY, DUMP, about).bytes(&head);
            match self.list(&mut batch)? {
                Some(sockets) => found.extend(sockets),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    fn list(&mut self, batch: &mut Batch) -> Result<Option<Vec<Taking>>> {
        let mut is_known = true;
        let found = self.dump_or(batch, read, |errno| {
            let is_absent = matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL);
            is_known &= !is_absent;
            is_absent
        })?;
        Ok(is_known.then_some(found))
    }
}

fn read(message: &Message<'_>) -> Option<Taking> {
    (message.kind == BY_FAMILY).then_some(())?;
    let family = *message.payload.first()?;
    let address = match family {
        2 => IpAddr::from(array::<4>(message.payload, 8)?),
        10 => IpAddr::from(array::<16>(message.payload, 8)?),
        _ => return None,
    };
    let word = |at| Some(u32::from_ne_bytes(array(message.payload, at)?));
    let is_listening = message.payload.get(STATE) == Some(&LISTENING);
    let only_v6 = message.attributes(ANSWER).find_kind(ONLY_V6).and_then(|only| only.u8());
    Some(Taking {
        port: u16::from_be_bytes(array(message.payload, 4)?),
        address,
        only_v6: only_v6 == Some(1),
        link: u32::from_ne_bytes(array(message.payload, 40)?),
        waiting: is_listening.then_some((word(WAITING)?, word(MOST)?)),
        inode: word(INODE)?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sockets_are_found() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut socket = Socket::diagnosis().unwrap();
        let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()];
        for (protocol, port) in [Protocol::Tcp, Protocol::Udp].into_iter().zip(ports) {
            let there = socket.taking(protocol).unwrap().unwrap();
            let found = there.iter().find(|taking| taking.port == port).unwrap();
            assert!(found.hears("127.0.0.1".parse().unwrap()));
            assert!(!found.hears("127.0.0.2".parse().unwrap()));
        }
    }

    #[test]
    fn sockets_of_ipv6_take_ipv4_unless_they_say_otherwise() {
        let every = |only_v6| Taking {
            port: 1,
            address: [0; 16].into(),
            only_v6,
            link: 0,
            waiting: None,
            inode: 0,
        };
        let v4 = "10.0.0.1".parse().unwrap();
        assert!(every(false).hears(v4) && !every(true).hears(v4));
        assert!(every(true).hears("::1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: BY_FAMILY, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
