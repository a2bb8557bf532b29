//! Changes of links that exist, and their end.

use std::os::fd::{AsRawFd, BorrowedFd};

use model::{IfName, Mac, Mtu};

use super::{At, DELETE, NEW, iff, ifla, info};
use crate::wire::{Batch, Request};

/// `AF_INET6`, as a type in `IFLA_AF_SPEC`.
const INET6: u16 = 10;
/// `IFLA_INET6_ADDR_GEN_MODE`.
const ADDR_GEN_MODE: u16 = 8;
/// `IN6_ADDR_GEN_MODE_NONE`.
const ADDR_GEN_NONE: u8 = 1;

/// A change of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set up or down.
    Up(bool),
    /// Receive every packet, or not.
    Promiscuous(bool),
    /// Receive every multicast packet, or not.
    AllMulticast(bool),
    /// Its MTU.
    Mtu(Mtu),
    /// Its address.
    Mac(Mac),
    /// The bridge that it is a port of; `None` for none.
    Master(Option<u32>),
    /// The length of its transmit queue in packets.
    TxQueue(u32),
    /// Its name, with [`At::Index`] only; it must be down, or the kernel new enough (6.2).
    Name(IfName),
    /// Its group.
    Group(u32),
    /// Free text about it; none if empty.
    Alias(String),
    /// Its own IPv6 addresses are not made, which halves what it costs on a bridge of hundreds.
    NoIpv6Addresses,
    /// Its bridge sends packets back to where they came from. Its master must be a bridge before
    /// this message.
    Hairpin(bool),
    /// Its bridge exchanges its packets only with ports that are not isolated. Its master must be
    /// a bridge before this message.
    Isolated(bool),
    /// Its bridge switches frames of it to these addresses of the link's own protocols as any other frame
    /// ([`super::BridgePort::group_forward`]). EINVAL with bit 1: nothing switches a pause of the link. Its master must be
    /// a bridge before this message.
    GroupForward(u16),
}

impl Batch {
    /// Changes the link at `at`, all in one message; returns the message's index. ENODEV if there
    /// is no such link.
    pub fn change_link(&mut self, at: At<'_>, changes: &[Change]) -> usize {
        let mut request = self.request(NEW, 0, format!("setting {at} to {changes:?}"));
        let (flags, mask) = flags(changes);
        request.bytes(&info(at.index(), flags, mask));
        at.name(&mut request);
        for change in changes {
            write(&mut request, change);
        }
        write_port(&mut request, changes);
        self.count() - 1
    }

    /// Moves the link with this index into the namespace `to`, under `name`, and leaves it down;
    /// returns the message's index. EEXIST if `to` has a link of that name: it may be there by then,
    /// under its old one.
    pub fn move_link(&mut self, index: u32, to: BorrowedFd<'_>, name: &IfName) -> usize {
        self.move_and_change_link(index, to, name, &[])
    }

    /// As [`Batch::move_link`], and changes it on its arrival, in the same message. The kernel does
    /// one thing after the other (the move, the hardware address, the MTU, the group, the name, the
    /// alias) and stops at the first that fails.
    pub fn move_and_change_link(
        &mut self,
        index: u32,
        to: BorrowedFd<'_>,
        name: &IfName,
        changes: &[Change],
    ) -> usize {
        let mut request = self.request(NEW, 0, format!("moving link {index} to {name}"));
        request.bytes(&info(index, 0, iff::UP));
        request.attribute(ifla::NET_NS_FD, &to.as_raw_fd().to_ne_bytes());
        request.text(ifla::IFNAME, name.as_str());
        for change in changes {
            write(&mut request, change);
        }
        self.count() - 1
    }

    /// Deletes the link at `at`; returns the message's index. ENODEV if there is no such link.
    /// The acknowledgement comes only after an RCU barrier of some 15 ms.
    pub fn delete_link(&mut self, at: At<'_>) -> usize {
        let mut request = self.request(DELETE, 0, format!("deleting {at}"));
        request.bytes(&info(at.index(), 0, 0));
        at.name(&mut request);
        self.count() - 1
    }
}

/// The flags that are wanted, and those that are meant.
fn flags(changes: &[Change]) -> (u32, u32) {
    changes.iter().fold((0, 0), |(flags, mask), change| {
        let (bit, on) = match change {
            Change::Up(on) => (iff::UP, *on),
            Change::Promiscuous(on) => (iff::PROMISC, *on),
            Change::AllMulticast(on) => (iff::ALLMULTI, *on),
            _ => return (flags, mask),
        };
        (if on { flags | bit } else { flags & !bit }, mask | bit)
    })
}

fn write(request: &mut Request<'_>, change: &Change) {
    match change {
        Change::Mtu(mtu) => request.u32(ifla::MTU, mtu.bytes()),
        Change::Mac(mac) => request.attribute(ifla::ADDRESS, &mac.octets()),
        Change::Master(master) => request.u32(ifla::MASTER, master.unwrap_or(0)),
        Change::TxQueue(packets) => request.u32(ifla::TXQLEN, *packets),
        Change::Name(name) => request.text(ifla::IFNAME, name.as_str()),
        Change::Group(group) => request.u32(ifla::GROUP, *group),
        Change::Alias(text) => request.attribute(ifla::IFALIAS, text.as_bytes()),
        Change::NoIpv6Addresses => request.nest(ifla::AF_SPEC, |families| {
            families.nest(INET6, |inet6| {
                inet6.u8(ADDR_GEN_MODE, ADDR_GEN_NONE);
            });
        }),
        Change::Up(_)
        | Change::Promiscuous(_)
        | Change::AllMulticast(_)
        | Change::Hairpin(_)
        | Change::Isolated(_)
        | Change::GroupForward(_) => request,
    };
}

fn write_port(request: &mut Request<'_>, changes: &[Change]) {
    let port = |change: &Change| match change {
        Change::Hairpin(on) => Some((ifla::PORT_HAIRPIN, vec![u8::from(*on)])),
        Change::Isolated(on) => Some((ifla::PORT_ISOLATED, vec![u8::from(*on)])),
        Change::GroupForward(mask) => {
            Some((ifla::PORT_GROUP_FWD_MASK, mask.to_ne_bytes().to_vec()))
        }
        _ => None,
    };
    let changes: Vec<_> = changes.iter().filter_map(port).collect();
    if changes.is_empty() {
        return;
    }
    request.nest(ifla::LINKINFO, |link| {
        link.text(ifla::INFO_SLAVE_KIND, "bridge").nest(ifla::INFO_SLAVE_DATA, |data| {
            for (kind, value) in changes {
                data.attribute(kind, &value);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_is_meant() {
        assert_eq!(flags(&[Change::TxQueue(1)]), (0, 0));
        assert_eq!(flags(&[Change::Up(true)]), (iff::UP, iff::UP));
        let both = [Change::Up(false), Change::Promiscuous(true)];
        assert_eq!(flags(&both), (iff::PROMISC, iff::UP | iff::PROMISC));
    }
}
