//! New links of one end, each complete in one message and in its namespace from the start: moving one
//! costs 15 ms under the kernel's lock, and renaming it costs too.

use std::os::fd::{AsRawFd, BorrowedFd};

use model::{IfName, IpvlanMode, Mac, MacvlanMode, Mtu, VlanTag};

use super::make::{created, describe};
use super::{NEW, ifla};
use crate::wire::{Batch, CREATE, EXCLUSIVE, Request};

/// `IFLA_MACVLAN_*`.
pub(super) mod macvlan {
    pub(crate) const MODE: u16 = 1;
    pub(super) const BROADCAST_QUEUE: u16 = 7;

    pub(super) const PRIVATE: u32 = 1;
    pub(super) const VEPA: u32 = 2;
    pub(super) const BRIDGE: u32 = 4;
    pub(super) const PASSTHRU: u32 = 8;
}

/// `IFLA_IPVLAN_MODE`.
pub(super) const IPVLAN_MODE: u16 = 1;
/// `IFLA_VLAN_ID`.
pub(super) const VLAN_ID: u16 = 1;

/// A device of one end.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// Its driver.
    pub kind: DeviceKind,
    /// The index of the device below it, in the socket's namespace.
    pub parent: Option<u32>,
    /// Its address; the driver's choice if `None`.
    pub mac: Option<Mac>,
    /// Its MTU; its parent's, or the driver's choice, if `None`.
    pub mtu: Option<Mtu>,
    /// Its group; 0 if `None`.
    pub group: Option<u32>,
    /// Whether it is set up at once.
    pub up: bool,
    /// The namespace where it comes into being; the socket's if `None`.
    pub netns: Option<BorrowedFd<'a>>,
}

/// The driver of a [`NewDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// `macvlan`.
    Macvlan {
        /// Which other devices of its parent it reaches.
        mode: MacvlanMode,
        /// How many received broadcasts may wait, in packets; the driver's choice if `None`.
        broadcast_queue: Option<u32>,
    },
    /// `ipvlan`.
    Ipvlan(IpvlanMode),
    /// `vlan`, of IEEE 802.1Q.
    Vlan(VlanTag),
    /// `dummy`.
    Dummy,
}

impl DeviceKind {
    /// The kernel's name of the driver.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Macvlan { .. } => "macvlan",
            DeviceKind::Ipvlan(_) => "ipvlan",
            DeviceKind::Vlan(_) => "vlan",
            DeviceKind::Dummy => "dummy",
        }
    }
}

impl Batch {
    /// Makes `device`; returns the message's index. EEXIST if there is a link of its name,
    /// EOPNOTSUPP if the kernel lacks its driver, EBUSY if its parent has another use.
    pub fn new_device(&mut self, device: &NewDevice<'_>) -> usize {
        let about = format!("making {} {}", device.kind.name(), device.name);
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&created(None, device.up));
        describe(&mut request, device.name, device.mac, device.mtu);
        if let Some(group) = device.group {
            request.u32(ifla::GROUP, group);
        }
        if let Some(netns) = device.netns {
            request.attribute(ifla::NET_NS_FD, &netns.as_raw_fd().to_ne_bytes());
        }
        if let Some(parent) = device.parent {
            request.u32(ifla::LINK, parent);
        }
        request.nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_KIND, device.kind.name());
            write_kind(link, device.kind);
        });
        self.count() - 1
    }
}

fn write_kind(link: &mut Request<'_>, kind: DeviceKind) {
    let data = |link: &mut Request<'_>, fill: &dyn Fn(&mut Request<'_>)| {
        link.nest(ifla::INFO_DATA, |data| fill(data));
    };
    match kind {
        DeviceKind::Macvlan { mode, broadcast_queue } => data(link, &|data| {
            data.u32(macvlan::MODE, macvlan_mode(mode));
            if let Some(packets) = broadcast_queue {
                data.u32(macvlan::BROADCAST_QUEUE, packets);
            }
        }),
        DeviceKind::Ipvlan(mode) => data(link, &|data| {
            data.u16(IPVLAN_MODE, ipvlan_mode(mode));
        }),
        DeviceKind::Vlan(id) => data(link, &|data| {
            data.u16(VLAN_ID, id.number());
        }),
        DeviceKind::Dummy => {}
    }
}

/// `MACVLAN_MODE_*`.
fn macvlan_mode(mode: MacvlanMode) -> u32 {
    match mode {
        MacvlanMode::Bridge => macvlan::BRIDGE,
        MacvlanMode::Private => macvlan::PRIVATE,
        MacvlanMode::Vepa => macvlan::VEPA,
        MacvlanMode::Passthru => macvlan::PASSTHRU,
    }
}

/// The mode of this `MACVLAN_MODE_*`; `None` for one that Spoke does not make.
pub(super) fn macvlan_mode_of(number: u32) -> Option<MacvlanMode> {
    use MacvlanMode::{Bridge, Passthru, Private, Vepa};
    [Bridge, Private, Vepa, Passthru].into_iter().find(|mode| macvlan_mode(*mode) == number)
}

/// `IPVLAN_MODE_*`.
fn ipvlan_mode(mode: IpvlanMode) -> u16 {
    match mode {
        IpvlanMode::L2 => 0,
        IpvlanMode::L3 => 1,
        IpvlanMode::L3s => 2,
    }
}

/// The mode of this `IPVLAN_MODE_*`.
pub(super) fn ipvlan_mode_of(number: u16) -> Option<IpvlanMode> {
    let modes = [IpvlanMode::L2, IpvlanMode::L3, IpvlanMode::L3s];
    modes.into_iter().find(|mode| ipvlan_mode(*mode) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn body(kind: DeviceKind, parent: Option<u32>) -> Vec<u8> {
        let name = "eth0".parse().unwrap();
        let mut batch = Batch::new();
        batch.new_device(&NewDevice {
            name: &name,
            kind,
            parent,
            mac: None,
            mtu: None,
            group: Some(9),
            up: false,
            netns: None,
        });
        batch.seal(1)[16..].to_vec()
    }

    fn expected(parent: Option<u32>, info: &[Vec<u8>]) -> Vec<u8> {
        let parent = parent.map(|index| attribute(5, &index.to_ne_bytes())).unwrap_or_default();
        let head = [vec![0; 16], attribute(3, b"eth0\0"), attribute(27, &9u32.to_ne_bytes())];
        [head.concat(), parent, attribute(0x8012, &info.concat())].concat()
    }

    #[test]
    fn each_kind_is_these_bytes() {
        let macvlan = DeviceKind::Macvlan { mode: MacvlanMode::Passthru, broadcast_queue: Some(7) };
        let data = [attribute(1, &8u32.to_ne_bytes()), attribute(7, &7u32.to_ne_bytes())].concat();
        let info = [attribute(1, b"macvlan\0"), attribute(0x8002, &data)];
        assert_eq!(body(macvlan, Some(3)), expected(Some(3), &info));

        let data = attribute(1, &2u16.to_ne_bytes());
        let info = [attribute(1, b"ipvlan\0"), attribute(0x8002, &data)];
        assert_eq!(body(DeviceKind::Ipvlan(IpvlanMode::L3s), Some(3)), expected(Some(3), &info));

        let data = attribute(1, &4094u16.to_ne_bytes());
        let info = [attribute(1, b"vlan\0"), attribute(0x8002, &data)];
        let vlan = DeviceKind::Vlan(VlanTag::new(4094).unwrap());
        assert_eq!(body(vlan, Some(3)), expected(Some(3), &info));

        let info = [attribute(1, b"dummy\0")];
        assert_eq!(body(DeviceKind::Dummy, None), expected(None, &info));
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in [MacvlanMode::Bridge, MacvlanMode::Private, MacvlanMode::Vepa] {
            assert_eq!(macvlan_mode_of(macvlan_mode(mode)), Some(mode));
        }
        assert_eq!(macvlan_mode_of(16), None);
        assert_eq!(ipvlan_mode_of(1), Some(IpvlanMode::L3));
        assert_eq!(ipvlan_mode_of(9), None);
    }
}
