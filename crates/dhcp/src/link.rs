//! A client's link, and the sockets on it. A socket keeps a namespace alive, so that none is held but
//! while an answer may come.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use model::{Error, IpNet, Mac, Result};
use netlink::link::OperState;
use netlink::packet::{EVERYBODY, Kind, PacketSocket};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Existing, Link, Links, Netns, NewAddress, Route, Socket};

use crate::locator::ContainerLocator;
use crate::packet::{CLIENT, LONGEST, Message, SERVER, Terms, unwrap, wrap};
use crate::{Heading, Subject};

/// How many packets are read for one message.
const PACKETS: usize = 32;

/// A link, and the namespace that it is in now.
pub(crate) struct LocatedLink {
    netns: Netns,
    link: Link,
    pub(crate) mac: Mac,
}

/// Sockets on a link.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) packets: PacketSocket,
    /// Holds the port, so that the kernel does not answer servers that it is closed.
    port: Option<UdpSocket>,
}

/// Finds the link of `subject`: in the namespace that it came with, in the one where its container is
/// now, or in the host's; `None` where it is in none of them. `known` is its hardware address, where
/// that was given or read before.
///
/// A VLAN, an ipvlan and a macvlan of mode passthru have the hardware address of their parent, which
/// is in the host's namespace: there an address that was only read from a link says nothing.
pub(crate) fn find(
    subject: &Subject,
    known: Option<Mac>,
    places: &dyn ContainerLocator,
) -> Result<Option<LocatedLink>> {
    let named = Some(subject.netns.clone()).filter(|path| !path.as_os_str().is_empty());
    let sandbox = places.sandbox(&subject.id).filter(|path| Some(path) != named.as_ref());
    let in_named = named.map(|path| (path, false));
    // It was moved there, and may have another name since.
    let in_sandbox = sandbox.map(|path| (path, true));
    let mut tried = None;
    for (path, is_moved) in [in_named, in_sandbox].into_iter().flatten() {
        match Netns::open(&path) {
            Ok(netns) => match inspect(netns, subject, known, is_moved)? {
                Some(found) => return Ok(Some(found)),
                None => tried = tried.or(Some(Error::invalid(absent(subject, &path)))),
            },
            Err(error) => tried = tried.or(Some(error)),
        }
    }
    match (known, tried) {
        (None, Some(error)) => Err(error),
        _ => in_host(subject, known, places),
    }
}

/// The link before its container has it, and after: Docker moves it there and back.
fn in_host(
    subject: &Subject,
    known: Option<Mac>,
    places: &dyn ContainerLocator,
) -> Result<Option<LocatedLink>> {
    if subject.mac.is_none() && !subject.netns.as_os_str().is_empty() {
        return Ok(None);
    }
    let own = Netns::open(Path::new("/proc/self/ns/net"))?;
    let found = inspect(own, subject, known, false)?;
    // What is not Spoke's is not changed, whatever its name and its hardware address are.
    Ok(found.filter(|found| places.is_link_of(&subject.id, found.link.group)))
}

fn absent(subject: &Subject, path: &Path) -> String {
    format!("there is no interface {} in {}", subject.id.ifname, path.display())
}

/// The link of its name, and of the hardware address that is known. Under another name it is found by
/// the address that was given for it; or, where it `is_moved`, by one that only one link has.
fn inspect(
    netns: Netns,
    subject: &Subject,
    known: Option<Mac>,
    is_moved: bool,
) -> Result<Option<LocatedLink>> {
    let link = netns.enter(|| {
        let mut socket = Socket::route()?;
        let is_it = |link: &Link| known.is_none_or(|mac| link.mac == Some(mac));
        let named = socket.link(At::Name(&subject.id.ifname))?.filter(|link| is_it(link));
        if named.is_some() || known.is_none() || !(is_moved || subject.mac.is_some()) {
            return Ok(named);
        }
        let links = socket.links(Links::default())?.into_iter();
        let mut same = links.filter(|link| is_it(link) && !link.flags.is_loopback());
        // A VLAN has the address of the link below it: that one is not meant.
        let first = same.next();
        let is_clear = subject.mac.is_some() || same.next().is_none();
        Ok(first.filter(|_| is_clear))
    })??;
    Ok(link.and_then(|link| Some(LocatedLink { netns, mac: link.mac?, link })))
}

impl LocatedLink {
    /// Its MTU, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.link.mtu
    }

    /// Whether it carries packets. It is set up where it is not.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        if !self.link.flags.is_up() {
            let mut batch = Batch::new();
            batch.change_link(At::Index(self.link.index), &[Change::Up(true)]);
            self.netns.enter(|| Socket::route()?.send(&mut batch)?.into_result())??;
            return Ok(false);
        }
        Ok(matches!(self.link.state, OperState::Up | OperState::Unknown))
    }

    /// Listens on it, for a client that has `address`, or none yet.
    pub(crate) fn listen(&self, address: Option<Ipv4Addr>) -> Result<Sockets> {
        self.netns.enter(|| {
            let packets = PacketSocket::open(self.link.index, Kind::Udp(CLIENT))?;
            // Where the container has a client of its own, that has the port.
            let port = address.and_then(|address| UdpSocket::bind((address, CLIENT)).ok());
            if let Some(port) = &port {
                let _ = port.set_nonblocking(true);
            }
            Ok(Sockets { packets, port })
        })?
    }

    /// Listens on it for holders of an address.
    pub(crate) fn listen_to_arp(&self) -> Result<PacketSocket> {
        self.netns.enter(|| PacketSocket::open(self.link.index, Kind::Arp))?
    }

    /// Takes an address away that may not be used any more; it may be gone already.
    pub(crate) fn strip(&self, terms: &Terms) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_address(self.link.index, IpNet::V4(terms.address));
        self.netns.enter(|| {
            Socket::route()?.send(&mut batch)?.except(Errno::ADDRNOTAVAIL).into_result()
        })?
    }

    /// Puts on it what was given in place of an address that was lost: the kernel took the routes
    /// with that. What exists already stays.
    pub(crate) fn dress(&self, terms: &Terms, priority: Option<u32>) -> Result<()> {
        let link = self.link.index;
        let mtu = terms.mtu.map(u32::from).filter(|mtu| *mtu < self.link.mtu);
        let mut batch = Batch::new();
        batch.add_address(&NewAddress::new(link, IpNet::V4(terms.address)));
        for (dst, via) in &terms.routes {
            let via = Some(IpAddr::V4(*via)).filter(|via| !via.is_unspecified());
            let route = Route::new(IpNet::V4(*dst), via, Some(link));
            batch.add_route(&Route { priority, mtu, ..route }, Existing::Refuse);
        }
        self.netns
            .enter(|| Socket::route()?.send(&mut batch)?.except(Errno::EXIST).into_result())?
    }
}

impl Sockets {
    /// Sends a message of a client's.
    pub(crate) fn send(&self, message: &Message, heading: Heading, on_link: bool) -> Result<()> {
        let bytes = message.encode();
        let none = Ipv4Addr::UNSPECIFIED;
        match heading {
            Heading::Everybody => {
                let packet = wrap(message.client, Ipv4Addr::BROADCAST, &bytes);
                self.packets.send(EVERYBODY, &packet)
            }
            Heading::Server(server, station) => {
                // Behind a router the kernel knows the way, if it has the address.
                let routed = self.port.as_ref().filter(|_| !on_link || station.is_none());
                if routed.is_some_and(|port| port.send_to(&bytes, (server, SERVER)).is_ok()) {
                    return Ok(());
                }
                debug_assert_ne!(server, none);
                let packet = wrap(message.client, server, &bytes);
                self.packets.send(station.unwrap_or(EVERYBODY), &packet)
            }
        }
    }

    /// The next message of a server's, and which station sent it; `None` where none waits, or where
    /// much else came before it.
    pub(crate) fn hear(&self) -> Result<Option<(Message, Option<Mac>)>> {
        let mut buffer = [0; LONGEST];
        for _ in 0..PACKETS {
            let Some(received) = self.packets.receive(&mut buffer)? else { break };
            let packet = buffer.get(..received.length).unwrap_or_default();
            let message = unwrap(packet).and_then(|(_, bytes)| Message::decode(bytes));
            if let Some(message) = message {
                return Ok(Some((message, received.from)));
            }
        }
        Ok(None)
    }
}
