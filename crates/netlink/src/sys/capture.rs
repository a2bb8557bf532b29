//! Receiving whole packets, with what the kernel says of each (packet(7)).

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;

use super::{last, set_option};
use crate::wire::array;

/// `PACKET_OUTGOING`.
const OUTGOING: u8 = 4;
/// `PACKET_STATISTICS`, `PACKET_AUXDATA`.
const STATISTICS: libc::c_int = 6;
const AUXDATA: libc::c_int = 8;
/// `TP_STATUS_VLAN_VALID`, `TP_STATUS_VLAN_TPID_VALID`.
const TAGGED: u32 = 1 << 4;
const TAG_KIND: u32 = 1 << 6;
/// `ETH_P_8021Q`.
const VLAN: u16 = 0x8100;
/// Room for a time and a `struct tpacket_auxdata`, both with their headers.
const CONTROL: usize = 128;

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Described {
    /// How many bytes of the buffer are the packet's.
    pub(crate) copied: usize,
    /// How many it had.
    pub(crate) length: usize,
    /// When the kernel saw it, since 1970.
    pub(crate) at: Duration,
    /// Whether this namespace sent it.
    pub(crate) is_outgoing: bool,
    /// The tag that the kernel took out of it: the kind and the number.
    pub(crate) tag: Option<(u16, u16)>,
}

/// Lets the kernel say when it saw each packet and which tag it took out.
pub(crate) fn describe_packets(socket: impl AsFd) -> Result<(), Errno> {
    set_option(&socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1)?;
    set_option(&socket, (libc::SOL_PACKET, AUXDATA), 1)
}

/// How many packets the socket has received, and how many there was no room for, since the last call.
#[allow(unsafe_code)]
pub(crate) fn statistics(socket: impl AsFd) -> Result<[u32; 2], Errno> {
    let mut numbers = [0u32; 2];
    let mut length = libc::socklen_t::try_from(size_of_val(&numbers)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel writes at most `length`
    // bytes into `numbers` (`struct tpacket_stats`), which is that long and not shared.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            STATISTICS,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(numbers) } else { Err(last()) }
}

/// Takes the next packet, without waiting.
#[allow(unsafe_code)]
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Described, Errno> {
    let mut control = [0u64; CONTROL / 8];
    // SAFETY: both are plain numbers and pointers, for which all zeroes are valid.
    let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = super::LINK_ADDRESS;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the descriptor is borrowed for the whole call; the kernel writes within the lengths of
    // the address, the buffer and the control data, all of which are alive and not shared.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    let length = usize::try_from(received).map_err(|_| last())?;
    let mut described = Described {
        copied: length.min(buffer.len()),
        length,
        is_outgoing: from.sll_pkttype == OUTGOING,
        ..Described::default()
    };
    // Its type is not the same in every C library.
    let filled = CONTROL.min(message.msg_controllen as _);
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).take(filled).collect();
    read_control(&bytes, &mut described);
    Ok(described)
}

/// The parts of control data are headers with their length, level and kind, each aligned as a `usize`
/// (cmsg(3)).
fn read_control(bytes: &[u8], described: &mut Described) {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = WORD + 8;
    let mut rest = bytes;
    while let Some(length) = array(rest, 0).map(usize::from_ne_bytes) {
        let kinds = array(rest, WORD).zip(array(rest, WORD + 4));
        let (Some((level, kind)), Some(value)) = (kinds, rest.get(HEADER..length)) else { return };
        match (i32::from_ne_bytes(level), i32::from_ne_bytes(kind)) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => read_time(value, described),
            (libc::SOL_PACKET, AUXDATA) => read_auxiliary(value, described),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(WORD)..).unwrap_or_default();
    }
}

fn read_time(value: &[u8], described: &mut Described) {
    let number =
        |at| array(value, at).map(i64::from_ne_bytes).and_then(|it| u64::try_from(it).ok());
    if let (Some(seconds), Some(nanoseconds)) = (number(0), number(8)) {
        described.at = Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
    }
}

/// `struct tpacket_auxdata`.
fn read_auxiliary(value: &[u8], described: &mut Described) {
    let half = |at| array(value, at).map(u16::from_ne_bytes);
    let status = array(value, 0).map_or(0, u32::from_ne_bytes);
    if status & TAGGED != 0
        && let (Some(tag), Some(kind)) = (half(16), half(18))
    {
        described.tag = Some((if status & TAG_KIND == 0 { VLAN } else { kind }, tag));
    }
}
