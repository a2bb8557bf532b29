//! Packets below IP, of one protocol on one link (packet(7)).
//!
//! A socket belongs to the namespace where it was made, and keeps that alive: it is held no longer
//! than a conversation lasts.

pub mod arp;
mod guest;
pub mod neighbor;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::{Error, Mac, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt};

use crate::link::{At, OperState};
use crate::outcome::refused;
use crate::socket::{ROUTE, Socket};
use crate::sys::{self, Instruction, LinkAddress};

/// The size of the receive buffer, in bytes: some dozens of packets.
const WAITING: usize = 64 << 10;
/// `ETH_P_*`.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
/// Every station of a link.
pub const EVERYBODY: Mac = Mac::new([0xff; 6]);

/// Announces to all on the link that `own` has `address` now; the calling thread is in the link's namespace.
///
/// # Errors
/// As [`PacketSocket::open`] and [`PacketSocket::send`].
pub fn announce(link: u32, own: Mac, address: IpAddr) -> Result<()> {
    match address {
        IpAddr::V4(address) => arp::announce(link, own, address),
        IpAddr::V6(address) => neighbor::announce(link, own, address),
    }
}

/// Which packets a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ARP about IPv4 (RFC 826).
    Arp,
    /// IPv4 packets with UDP for this port, whole ones only.
    Udp(u16),
    /// None: for telling IPv6 neighbours something (RFC 4861).
    Neighbor,
    /// What a machine behind a port of a bridge asks about its own interface, before the bridge has it:
    /// DHCP, DHCPv6, router solicitations.
    Guest,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes in the buffer, from the network header on; what the buffer has no room for is lost.
    pub length: usize,
    /// The sender, by the link layer; `None` where it has no such addresses.
    pub from: Option<Mac>,
}

/// A socket for packets of one kind on one link.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    link: u32,
    kind: Kind,
}

impl PacketSocket {
    /// On the link with this index in the calling thread's namespace.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_NET_RAW; where there is no such link, or the process may
    /// not open more files.
    pub fn open(link: u32, kind: Kind) -> Result<Self> {
        Self::try_open(link, kind)
            .map_err(|errno| refused(format!("opening a packet socket on link {link}"), errno))
    }

    fn try_open(link: u32, kind: Kind) -> Result<Self, Errno> {
        // Without a protocol nothing arrives before the filter stands.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        sys::attach_filter(&fd, &kind.filter())?;
        // Less is granted where less is allowed.
        let _ = sockopt::set_socket_recv_buffer_size(&fd, WAITING);
        sys::bind_link(&fd, &LinkAddress::new(link, kind.protocol()))?;
        Ok(Self { fd, link, kind })
    }

    /// Sends `packet`, from its network header on.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where the link's queue is full; where the link is down or gone.
    pub fn send(&self, to: Mac, packet: &[u8]) -> Result<()> {
        let protocol = match self.kind {
            Kind::Guest if packet.first().is_some_and(|first| first >> 4 == 6) => IPV6,
            Kind::Guest => IPV4,
            kind => kind.protocol(),
        };
        let address = LinkAddress::new(self.link, protocol).to(to);
        loop {
            match sys::send_link(&self.fd, packet, &address) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    let doing = format!("sending to {to} on link {}", self.link);
                    return Err(refused(doing, errno));
                }
            }
        }
    }

    /// Takes the next packet, without waiting; `None` where there is none.
    ///
    /// # Errors
    /// Where the link went down or away.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>> {
        loop {
            match sys::receive_link(&self.fd, buffer) {
                Ok((length, from)) => return Ok(Some(Received { length, from })),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => {
                    let doing = format!("receiving on link {}", self.link);
                    return Err(refused(doing, errno));
                }
            }
        }
    }

    /// Waits for a packet; `false` after `deadline`.
    ///
    /// # Errors
    /// Where the kernel cannot be listened to any more.
    pub fn wait(&self, deadline: Instant) -> Result<bool> {
        readable(self.fd.as_fd(), deadline)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until the link with this index carries packets, for at most `limit`: before that, what is
/// sent is lost without a word, and a link that was just set up needs some milliseconds. Whether it
/// does.
///
/// # Errors
/// [`model::Kind::Kernel`] where there is no such link.
pub fn wait_for_carrier(link: u32, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    let mut asked = Socket::route()?;
    let mut news: Option<Socket> = None;
    loop {
        let Some(found) = asked.link(At::Index(link))? else {
            return Err(Error::new(model::Kind::Kernel, format!("there is no link {link}")));
        };
        if found.flags.is_up() && matches!(found.state, OperState::Up | OperState::Unknown) {
            return Ok(true);
        }
        match &mut news {
            None => news = Some(Socket::notified(ROUTE, LINKS)?),
            Some(news) => {
                if !readable(news.as_fd(), deadline)? {
                    return Ok(false);
                }
                // Lost ones are as good: the link is asked again.
                while let Ok(Some(_)) = news.notifications() {}
            }
        }
    }
}

/// At most so many packets are let go at once: a sender can be as fast as the reader.
const DISCARDED: usize = 1024;

/// Lets what waits on `socket` go, or the first 1,024 packets of it.
pub fn discard(socket: impl AsFd) {
    let mut buffer = [0; 1];
    for _ in 0..DISCARDED {
        if recv(&socket, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC).is_err() {
            return;
        }
    }
}

pub(crate) fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> Result<bool> {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(remaining).ok();
        match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(Error::os("waiting for a packet", cause.into())),
        }
    }
}

impl Kind {
    /// `ETH_P_*`.
    fn protocol(self) -> u16 {
        match self {
            Kind::Arp => 0x0806,
            Kind::Udp(_) => IPV4,
            Kind::Neighbor => IPV6,
            // Of a bridge's port only sockets for everything see what comes in.
            Kind::Guest => 0x0003,
        }
    }

    /// Classic BPF over the packet from its network header on.
    fn filter(self) -> Vec<Instruction> {
        const LOAD_BYTE: u16 = 0x30;
        const LOAD_HALF: u16 = 0x28;
        const LOAD_HALF_BEHIND: u16 = 0x48;
        const LENGTH_OF_HEADER: u16 = 0xb1;
        const AND: u16 = 0x54;
        const EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let step = |code, value| Instruction { code, yes: 0, no: 0, value };
        let mut steps = match self {
            Kind::Guest => return guest::filter(),
            Kind::Neighbor => return vec![step(RETURN, 0)],
            Kind::Arp => vec![step(LOAD_HALF, 2), step(EQUAL, 0x0800)],
            Kind::Udp(port) => vec![
                step(LOAD_BYTE, 0),
                step(AND, 0xf0),
                step(EQUAL, 0x40),
                step(LOAD_BYTE, 9),
                step(EQUAL, 17),
                step(LOAD_HALF, 6),
                step(AND, 0x3fff),
                step(EQUAL, 0),
                step(LENGTH_OF_HEADER, 0),
                step(LOAD_HALF_BEHIND, 2),
                step(EQUAL, u32::from(port)),
            ],
        };
        let accept = steps.len();
        for (at, step) in steps.iter_mut().enumerate() {
            if step.code == EQUAL {
                step.no = u8::try_from(accept - at).unwrap_or(u8::MAX);
            }
        }
        steps.extend([step(RETURN, 0x4_0000), step(RETURN, 0)]);
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_that_fails_ends_at_the_refusal() {
        for kind in [Kind::Arp, Kind::Udp(68)] {
            let steps = kind.filter();
            for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.code == 0x15) {
                let target = &steps[at + 1 + usize::from(step.no)];
                assert_eq!((target.code, target.value), (0x06, 0), "{kind:?}");
            }
        }
    }
}
