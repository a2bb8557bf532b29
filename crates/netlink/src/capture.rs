//! Whole packets of one link, both directions (packet(7)).
//!
//! The socket belongs to the namespace where it was made and keeps that alive. A caller that must not
//! outlive a container watches the container, and drops the socket with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use model::Result;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::outcome::refused;
use crate::sys::{self, LinkAddress};

/// `ETH_P_ALL`.
const EVERYTHING: u16 = 3;
/// The size of the receive buffer, in bytes: what a fast link brings while the file is written.
const WAITING: usize = 16 << 20;
/// A tag of a VLAN, and where it is: behind both Ethernet addresses.
const TAG: usize = 4;
const TAG_AT: usize = 12;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// How many bytes of the buffer are the packet's, from the link layer's header on.
    pub copied: usize,
    /// How many it had on the link.
    pub length: usize,
    /// When the kernel saw it, since 1970.
    pub at: Duration,
    /// Whether the link's namespace sent it.
    pub is_outgoing: bool,
}

/// What the socket has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that came, with those that there was no room for.
    pub seen: u64,
    /// Packets that there was no room for.
    pub lost: u64,
}

/// A socket that receives everything of one link.
#[derive(Debug)]
pub struct Capture {
    fd: OwnedFd,
    link: u32,
    totals: Totals,
}

impl Capture {
    /// On the link with this index in the calling thread's namespace.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_NET_RAW; where there is no such link, or the process may not
    /// open more files.
    pub fn open(link: u32) -> Result<Self> {
        Self::try_open(link)
            .map_err(|errno| refused(format!("opening a packet socket on link {link}"), errno))
    }

    fn try_open(link: u32) -> Result<Self, Errno> {
        // Without a protocol nothing arrives before it is bound to the link.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        sys::capture::describe_packets(&fd)?;
        // Less is granted where less is allowed.
        let _ = sockopt::set_socket_recv_buffer_size_force(&fd, WAITING);
        sys::bind_link(&fd, &LinkAddress::new(link, EVERYTHING))?;
        Ok(Self { fd, link, totals: Totals::default() })
    }

    /// Takes the next packet, without waiting; `None` where there is none. Of a longer packet than
    /// `buffer` the first bytes are there. The kernel's own form of a VLAN's tag is put back.
    ///
    /// # Errors
    /// Where the link went down or away.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Captured>> {
        loop {
            match sys::capture::receive(&self.fd, buffer) {
                Ok(described) => return Ok(Some(with_tag(described, buffer))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => {
                    let doing = format!("capturing on link {}", self.link);
                    return Err(refused(doing, errno));
                }
            }
        }
    }

    /// How many packets came so far, and how many were lost.
    pub fn totals(&mut self) -> Totals {
        // The kernel starts again at zero each time.
        if let Ok([seen, lost]) = sys::capture::statistics(&self.fd) {
            self.totals.seen += u64::from(seen);
            self.totals.lost += u64::from(lost);
        }
        self.totals
    }

    /// The index of the link.
    pub fn link(&self) -> u32 {
        self.link
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn with_tag(described: sys::capture::Described, buffer: &mut [u8]) -> Captured {
    let mut captured = Captured {
        copied: described.copied,
        length: described.length,
        at: described.at,
        is_outgoing: described.is_outgoing,
    };
    let Some((kind, number)) = described.tag.filter(|_| described.copied >= TAG_AT) else {
        return captured;
    };
    captured.length += TAG;
    captured.copied = (described.copied + TAG).min(buffer.len());
    if captured.copied < TAG_AT + TAG {
        captured.copied = described.copied;
        return captured;
    }
    buffer.copy_within(TAG_AT..captured.copied - TAG, TAG_AT + TAG);
    buffer[TAG_AT..TAG_AT + 2].copy_from_slice(&kind.to_be_bytes());
    buffer[TAG_AT + 2..TAG_AT + TAG].copy_from_slice(&number.to_be_bytes());
    captured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_put_back_behind_the_addresses() {
        let described = |copied| sys::capture::Described {
            copied,
            length: copied,
            tag: Some((0x8100, 20)),
            ..sys::capture::Described::default()
        };
        let packet: Vec<u8> = (0..20).collect();
        let mut buffer = [packet.as_slice(), &[0; 12]].concat();
        let captured = with_tag(described(20), &mut buffer);
        assert_eq!((captured.copied, captured.length), (24, 24));
        let tagged = [&packet[..12], &[0x81, 0, 0, 20], &packet[12..]].concat();
        assert_eq!(buffer[..24], tagged);
        // Where there is no more room the end is lost, and nothing else.
        let mut full = packet.clone();
        assert_eq!(with_tag(described(20), &mut full).copied, 20);
        assert_eq!(full, tagged[..20]);
        for short in 0..20 {
            let mut few = packet[..short].to_vec();
            assert!(with_tag(described(short), &mut few).copied <= short);
        }
    }
}
