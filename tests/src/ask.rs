//! Whether the kernel has anything that a program would show: where it has not, none is started.

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};
use std::os::fd::AsRawFd;

/// Of every message (netlink(7)): length, type, flags, sequence, sender.
const HEADER: usize = 16;
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE`.
const GET_TABLE: u16 = 10 << 8 | 1;
/// Family, version and resource.
const ANY_TABLE: [u8; 4] = [0; 4];
const GET_QDISC: u16 = 38;
/// `struct tcmsg`: family and padding, interface, handle, parent, info.
const ANY_QDISC: [u8; 20] = [0; 20];
const HANDLE: usize = HEADER + 8;
const GET_LINK: u16 = 18;
/// `struct ifinfomsg` of the family of bridges, and `IFLA_EXT_MASK` with `RTEXT_FILTER_BRVLAN`.
const LINKS_WITH_VLANS: [u8; 24] =
    [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 29, 0, 2, 0, 0, 0];
const ATTRIBUTES: usize = HEADER + 16;
/// `IFLA_AF_SPEC`: there are VLANs in it.
const FOR_FAMILY: u16 = 26;

/// Whether this network namespace has a table of nftables.
pub(crate) fn has_tables() -> bool {
    any(SockProtocol::NetlinkNetFilter, GET_TABLE, &ANY_TABLE, |_| true)
}

/// Whether it has a qdisc that a program asked for: the kernel gives no number to those that it chose.
pub(crate) fn has_qdiscs() -> bool {
    let is_numbered =
        |message: &[u8]| number(message, HANDLE).is_none_or(|handle| handle >> 16 != 0);
    any(SockProtocol::NetlinkRoute, GET_QDISC, &ANY_QDISC, is_numbered)
}

/// Whether it has a bridge or a port of one with VLANs.
pub(crate) fn has_vlans() -> bool {
    any(SockProtocol::NetlinkRoute, GET_LINK, &LINKS_WITH_VLANS, |message| {
        let mut rest = message.get(ATTRIBUTES..).unwrap_or_default();
        while let Some([a, b, c, d]) = rest.first_chunk() {
            let (length, kind) = (u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*c, *d]));
            // Nested, says a bit.
            if kind & 0x3fff == FOR_FAMILY {
                return true;
            }
            let next = usize::from(length.max(4)).next_multiple_of(4);
            rest = rest.get(next..).unwrap_or_default();
        }
        false
    })
}

/// Whether `is` is true of any answer; also where the kernel refuses to say.
fn any(protocol: SockProtocol, what: u16, body: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
    let kind = SockType::Raw;
    let socket = socket(AddressFamily::Netlink, kind, SockFlag::SOCK_CLOEXEC, protocol);
    let socket = socket.expect("a netlink socket");
    let length = u32::try_from(HEADER + body.len()).expect("a short message");
    let mut asked = length.to_ne_bytes().to_vec();
    asked.extend([what, REQUEST_DUMP].map(u16::to_ne_bytes).as_flattened());
    asked.extend([0; 8]);
    asked.extend(body);
    send(socket.as_raw_fd(), &asked, MsgFlags::empty()).expect("the kernel is asked");
    let mut buffer = vec![0; 1 << 15];
    loop {
        let count = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).expect("an answer");
        let mut rest = &buffer[..count];
        while let Some(length) = number(rest, 0).filter(|length| *length as usize >= HEADER) {
            let (message, next) =
                rest.split_at(rest.len().min((length as usize).next_multiple_of(4)));
            rest = next;
            match u16::from_ne_bytes([message[4], message[5]]) {
                DONE => return false,
                ERROR => return true,
                _ if is(message) => return true,
                _ => {}
            }
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}
