//! New links, each complete in one message: a veth costs a third of a millisecond, and moving or
//! renaming one costs more than making it.

use std::os::fd::{AsRawFd, BorrowedFd};

use model::{IfName, Mac, Mtu};

use super::{NEW, iff, ifla, info};
use crate::wire::{Batch, CREATE, EXCLUSIVE, Request};

/// `VETH_INFO_PEER`.
const VETH_PEER: u16 = 1;
/// `IFLA_BR_VLAN_FILTERING`.
const VLAN_FILTERING: u16 = 7;

/// A pair of devices that are each other's wire. This describes the end in the socket's namespace.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Its index; the kernel's choice if `None`. The peer's is honoured only together with this.
    pub index: Option<u32>,
    /// Its address; random if `None`.
    pub mac: Option<Mac>,
    /// Of both ends; the kernel's default if `None`.
    pub mtu: Option<Mtu>,
    /// The bridge that it becomes a port of.
    pub master: Option<u32>,
    /// Its group, by which its maker finds it; the peer's too, where that is in the same namespace.
    pub group: Option<u32>,
    /// Whether it is set up at once.
    pub up: bool,
    /// The other end. The kernel cannot set that up in the same message.
    pub peer: Peer<'a>,
}

/// The other end of a [`Veth`].
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Its index; the kernel's choice if `None`.
    pub index: Option<u32>,
    /// Its address; random if `None`.
    pub mac: Option<Mac>,
    /// The namespace where it comes into being; the socket's if `None`.
    pub netns: Option<BorrowedFd<'a>>,
}

/// A bridge.
#[derive(Clone, Copy, Debug)]
pub struct NewBridge<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Its address, which then no longer follows its ports; random if `None`.
    pub mac: Option<Mac>,
    /// Its MTU, which then no longer follows its ports.
    pub mtu: Option<Mtu>,
    /// Whether it separates VLANs.
    pub vlan_filtering: bool,
    /// Whether it is set up at once.
    pub up: bool,
}

impl Batch {
    /// Makes both ends of `veth`; returns the message's index. EEXIST if there is one of either
    /// name.
    pub fn new_veth(&mut self, veth: &Veth<'_>) -> usize {
        let about = format!("making veth {} with peer {}", veth.name, veth.peer.name);
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&created(veth.index, veth.up));
        describe(&mut request, veth.name, veth.mac, veth.mtu);
        single_queue(&mut request);
        if let Some(group) = veth.group {
            request.u32(ifla::GROUP, group);
        }
        if let Some(master) = veth.master {
            request.u32(ifla::MASTER, master);
        }
        request.nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_KIND, "veth").nest(ifla::INFO_DATA, |data| {
                data.nest(VETH_PEER, |peer| describe_peer(peer, veth));
            });
        });
        self.count() - 1
    }

    /// Makes `bridge`; returns the message's index. EEXIST if there is a link of its name.
    pub fn new_bridge(&mut self, bridge: &NewBridge<'_>) -> usize {
        let about = format!("making bridge {}", bridge.name);
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&created(None, bridge.up));
        describe(&mut request, bridge.name, bridge.mac, bridge.mtu);
        request.nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_KIND, "bridge");
            if bridge.vlan_filtering {
                link.nest(ifla::INFO_DATA, |data| {
                    data.u8(VLAN_FILTERING, 1);
                });
            }
        });
        self.count() - 1
    }
}

pub(super) fn created(index: Option<u32>, up: bool) -> [u8; super::INFO] {
    let flags = if up { iff::UP } else { 0 };
    info(index.unwrap_or(0), flags, flags)
}

pub(super) fn describe(
    request: &mut Request<'_>,
    name: &IfName,
    mac: Option<Mac>,
    mtu: Option<Mtu>,
) {
    request.text(ifla::IFNAME, name.as_str());
    if let Some(mac) = mac {
        request.attribute(ifla::ADDRESS, &mac.octets());
    }
    if let Some(mtu) = mtu {
        request.u32(ifla::MTU, mtu.bytes());
    }
}

fn describe_peer(request: &mut Request<'_>, veth: &Veth<'_>) {
    let peer = &veth.peer;
    request.bytes(&created(peer.index, false));
    describe(request, peer.name, peer.mac, veth.mtu);
    single_queue(request);
    match (peer.netns, veth.group) {
        (Some(netns), _) => {
            request.attribute(ifla::NET_NS_FD, &netns.as_raw_fd().to_ne_bytes());
        }
        (None, Some(group)) => {
            request.u32(ifla::GROUP, group);
        }
        (None, None) => {}
    }
}

/// One queue per processor, the default, costs an RCU grace period and half as much again.
fn single_queue(request: &mut Request<'_>) {
    request.u32(ifla::NUM_TX_QUEUES, 1).u32(ifla::NUM_RX_QUEUES, 1);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn number(value: u32) -> [u8; 4] {
        value.to_ne_bytes()
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_veth_is_these_bytes() {
        let (host, inner) = ("vethhost".parse().unwrap(), "eth0".parse().unwrap());
        let stdin = std::io::stdin();
        let (mac, mtu) = (Mac::new([2, 0, 0, 0, 0, 1]), Mtu::new(1400).unwrap());
        let netns = Some(stdin.as_fd());
        let peer = Peer { name: &inner, index: Some(2), mac: Some(mac), netns };
        let mut batch = Batch::new();
        batch.new_veth(&Veth {
            name: &host,
            index: Some(1000),
            mac: None,
            mtu: Some(mtu),
            master: Some(3),
            group: Some(9),
            up: true,
            peer,
        });
        let queues = [attribute(31, &number(1)), attribute(32, &number(1))].concat();
        let peer = [
            [[0; 4], number(2), number(0), number(0)].concat(),
            attribute(3, b"eth0\0"),
            attribute(1, &[2, 0, 0, 0, 0, 1]),
            attribute(4, &number(1400)),
            queues.clone(),
            attribute(28, &number(0)),
        ];
        let data = attribute(0x8001, &peer.concat());
        let kind = [attribute(1, b"veth\0"), attribute(0x8002, &data)].concat();
        let body = [
            [[0; 4], number(1000), number(1), number(1)].concat(),
            attribute(3, b"vethhost\0"),
            attribute(4, &number(1400)),
            queues,
            attribute(27, &number(9)),
            attribute(10, &number(3)),
            attribute(0x8012, &kind),
        ]
        .concat();
        let length = number(u32::try_from(16 + body.len()).unwrap());
        let types = [16u16.to_ne_bytes(), 0x601u16.to_ne_bytes()].concat();
        let header = [&length[..], &types, &number(77), &number(0)].concat();
        assert_eq!(batch.seal(77), [header, body].concat());
    }
}
