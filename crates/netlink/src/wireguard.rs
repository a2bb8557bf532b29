//! WireGuard devices (`linux/wireguard.h`), by generic netlink.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use model::{PublicKey, Result};
use rustix::net::netlink::GENERIC;

use crate::wire::{Attributes, Batch, DUMP, Message, Request, array};
use crate::{Errno, Socket};

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Length of `struct genlmsghdr`.
const HEADER: usize = 4;
const NAME: &str = "wireguard";
/// `WG_CMD_*`.
const GET: u8 = 0;
const SET: u8 = 1;

/// `WGDEVICE_A_*`.
mod device {
    pub(super) const IFINDEX: u16 = 1;
    pub(super) const PRIVATE_KEY: u16 = 3;
    pub(super) const PUBLIC_KEY: u16 = 4;
    pub(super) const LISTEN_PORT: u16 = 6;
    pub(super) const PEERS: u16 = 8;
}

/// `WGPEER_A_*`, `WGPEER_F_*`.
mod peer {
    pub(super) const PUBLIC_KEY: u16 = 1;
    pub(super) const FLAGS: u16 = 3;
    pub(super) const ENDPOINT: u16 = 4;
    pub(super) const KEEPALIVE: u16 = 5;
    pub(super) const LAST_HANDSHAKE: u16 = 6;
    pub(super) const ALLOWED: u16 = 9;
    pub(super) const REMOVE: u32 = 1;
    pub(super) const REPLACE_ALLOWED: u32 = 2;
}

/// `WGALLOWEDIP_A_*`.
mod allowed {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const ADDRESS: u16 = 2;
    pub(super) const LENGTH: u16 = 3;
}

/// `AF_INET`.
const INET: u16 = 2;
/// So many peers in one message: a list of attributes is at most 64 KiB long.
const AT_ONCE: usize = 256;

/// The private key of a device.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// Of 32 random bytes, as RFC 7748 §5 has it. The kernel does the same, and takes other bytes for another key
    /// than it has, which ends all sessions.
    pub fn new(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 248;
        bytes[31] = bytes[31] & 127 | 64;
        Self(bytes)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Follows from its private key, where it has one.
    pub key: Option<PublicKey>,
    /// Its port of UDP.
    pub port: u16,
    /// Whom it speaks to.
    pub peers: BTreeMap<PublicKey, Peer>,
}

/// Whom a device speaks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The addresses that are its, and no other peer's.
    pub allowed: Vec<IpAddr>,
    /// A packet keeps its way open this often, in seconds; 0 for never.
    pub keepalive: u16,
    /// Whether keys have been agreed on with it.
    pub is_known: bool,
}

/// A change of a device's peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerChange {
    /// Makes it, or changes what is given.
    Set {
        /// Its key.
        key: PublicKey,
        /// The only address that is its.
        address: Ipv4Addr,
        /// Where to send to, until the peer itself is heard from elsewhere.
        endpoint: Option<SocketAddrV4>,
        /// See [`Peer::keepalive`].
        keepalive: u16,
    },
    /// Forgets it.
    Remove(PublicKey),
}

/// The kernel's WireGuard.
#[derive(Debug)]
pub struct WireGuard {
    socket: Socket,
    family: u16,
}

impl WireGuard {
    /// Nothing where the kernel has none.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn open() -> Result<Option<Self>> {
        let mut socket = Socket::of_protocol(GENERIC)?;
        let mut batch = Batch::new();
        let mut request = batch.request(CONTROL, 0, "asking the kernel for WireGuard");
        request.bytes(&[GET_FAMILY, 1, 0, 0]).text(FAMILY_NAME, NAME);
        let family = socket.get(&mut batch, &[Errno::NOENT], |message| {
            message.attributes(HEADER).find_kind(FAMILY_ID)?.u16()
        })?;
        Ok(family.map(|family| Self { socket, family }))
    }

    /// The device with this index.
    ///
    /// # Errors
    /// As [`Socket::dump`]; ENODEV where there is none.
    pub fn device(&mut self, link: u32) -> Result<Device> {
        let mut batch = Batch::new();
        let mut request = batch.request(self.family, DUMP, format!("reading wireguard {link}"));
        request.bytes(&[GET, 1, 0, 0]).u32(device::IFINDEX, link);
        let family = self.family;
        let parts = self.socket.dump(&mut batch, &[], |message| read(message, family))?;
        let mut whole = Device::default();
        for part in parts {
            whole.key = part.key.or(whole.key);
            whole.port = part.port.max(whole.port);
            // A peer goes on in the next part where its addresses did not fit.
            for (key, peer) in part.peers {
                let known: &mut Peer = whole.peers.entry(key).or_default();
                known.allowed.extend(peer.allowed);
                known.keepalive = known.keepalive.max(peer.keepalive);
                known.is_known |= peer.is_known;
            }
        }
        Ok(whole)
    }

    /// Gives a device its key and its port.
    ///
    /// # Errors
    /// As [`Socket::send`]; a refusal; EADDRINUSE where the port is another program's.
    pub fn set_identity(&mut self, link: u32, key: &PrivateKey, port: u16) -> Result<()> {
        let mut batch = Batch::new();
        let about = format!("giving wireguard {link} its key and port {port}");
        let mut request = batch.request(self.family, 0, about);
        request.bytes(&[SET, 1, 0, 0]).u32(device::IFINDEX, link);
        request.attribute(device::PRIVATE_KEY, &key.0).u16(device::LISTEN_PORT, port);
        self.socket.send(&mut batch)?.into_result()
    }

    /// Changes a device's peers, in this order.
    ///
    /// # Errors
    /// As [`Socket::send`]; a refusal.
    pub fn set_peers(&mut self, link: u32, changes: &[PeerChange]) -> Result<()> {
        for changes in changes.chunks(AT_ONCE) {
            let mut batch = Batch::new();
            let about = format!("changing the peers of wireguard {link}");
            let mut request = batch.request(self.family, 0, about);
            request.bytes(&[SET, 1, 0, 0]).u32(device::IFINDEX, link);
            request.nest(device::PEERS, |list| {
                for change in changes {
                    // The types of a list's members are nothing.
                    list.nest(0, |it| change.write(it));
                }
            });
            self.socket.send(&mut batch)?.into_result()?;
        }
        Ok(())
    }
}

impl PeerChange {
    fn write(&self, to: &mut Request<'_>) {
        match self {
            Self::Remove(key) => {
                to.attribute(peer::PUBLIC_KEY, key.bytes()).u32(peer::FLAGS, peer::REMOVE);
            }
            Self::Set { key, address, endpoint, keepalive } => {
                to.attribute(peer::PUBLIC_KEY, key.bytes());
                to.u32(peer::FLAGS, peer::REPLACE_ALLOWED);
                if let Some(endpoint) = endpoint {
                    to.attribute(peer::ENDPOINT, &socket_address(*endpoint));
                }
                to.u16(peer::KEEPALIVE, *keepalive);
                to.nest(peer::ALLOWED, |list| {
                    list.nest(0, |it| {
                        it.u16(allowed::FAMILY, INET).address(allowed::ADDRESS, (*address).into());
                        it.u8(allowed::LENGTH, 32);
                    });
                });
            }
        }
    }
}

/// `struct sockaddr_in`.
fn socket_address(of: SocketAddrV4) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&INET.to_ne_bytes());
    bytes[2..4].copy_from_slice(&of.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&of.ip().octets());
    bytes
}

fn read(message: &Message<'_>, family: u16) -> Option<Device> {
    (message.kind == family).then_some(())?;
    let attributes = message.attributes(HEADER);
    let peers = attributes.find_kind(device::PEERS);
    let peers = peers.into_iter().flat_map(|list| list.nested());
    Some(Device {
        key: attributes.find_kind(device::PUBLIC_KEY).and_then(|it| key(it.value)),
        port: attributes.find_kind(device::LISTEN_PORT).and_then(|it| it.u16()).unwrap_or(0),
        peers: peers.filter_map(|it| read_peer(&it.nested())).collect(),
    })
}

fn read_peer(attributes: &Attributes<'_>) -> Option<(PublicKey, Peer)> {
    let key = key(attributes.find_kind(peer::PUBLIC_KEY)?.value)?;
    let allowed = attributes.find_kind(peer::ALLOWED);
    let allowed = allowed.into_iter().flat_map(|list| list.nested());
    // Seconds since 1970; 0 before the first one.
    let handshake = attributes.find_kind(peer::LAST_HANDSHAKE);
    let seconds = handshake.and_then(|it| array(it.value, 0)).map_or(0, i64::from_ne_bytes);
    let peer = Peer {
        allowed: allowed
            .filter_map(|it| it.nested().find_kind(allowed::ADDRESS)?.address())
            .collect(),
        keepalive: attributes.find_kind(peer::KEEPALIVE).and_then(|it| it.u16()).unwrap_or(0),
        is_known: seconds > 0,
    };
    Some((key, peer))
}

fn key(bytes: &[u8]) -> Option<PublicKey> {
    <[u8; 32]>::try_from(bytes).ok().map(PublicKey::new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: 29, flags: 0, sequence: 0, payload: &payload }, 29);
        }
    }

    #[test]
    fn a_private_key_is_not_shown() {
        assert_eq!(format!("{:?}", PrivateKey::new([7; 32])), "PrivateKey");
    }
}
