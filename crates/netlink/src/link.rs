//! Links: what the kernel calls network devices (rtnetlink(7), `linux/if_link.h`).

use std::fmt;

use model::{IfName, IpvlanMode, Mac, MacvlanMode, Result, VlanTag};
use rustix::io::Errno;
use rustix::net::netdevice;

use crate::Socket;
use crate::outcome::refused;
use crate::wire::{Attributes, Batch, DUMP, Message, Request, array};

mod change;
mod device;
mod function;
mod make;
mod tap;
mod vxlan;
mod wireguard;

pub use change::Change;
pub use device::{DeviceKind, NewDevice};
pub use function::Function;
pub use make::{NewBridge, Peer, Veth};
pub use tap::{NewTap, Tap};
pub use vxlan::NewVxlan;

pub(crate) const NEW: u16 = 16;
pub(crate) const DELETE: u16 = 17;
pub(crate) const GET: u16 = 18;

/// Length of `struct ifinfomsg`.
pub(crate) const INFO: usize = 16;

/// `IFLA_*`.
pub(crate) mod ifla {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const IFNAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const LINK: u16 = 5;
    pub(crate) const MASTER: u16 = 10;
    pub(crate) const TXQLEN: u16 = 13;
    pub(crate) const OPERSTATE: u16 = 16;
    pub(crate) const LINKINFO: u16 = 18;
    pub(crate) const IFALIAS: u16 = 20;
    pub(crate) const AF_SPEC: u16 = 26;
    pub(crate) const GROUP: u16 = 27;
    pub(crate) const NET_NS_FD: u16 = 28;
    pub(crate) const EXT_MASK: u16 = 29;
    pub(crate) const NUM_TX_QUEUES: u16 = 31;
    pub(crate) const NUM_RX_QUEUES: u16 = 32;
    pub(crate) const LINK_NETNSID: u16 = 37;

    pub(crate) const INFO_KIND: u16 = 1;
    pub(crate) const INFO_DATA: u16 = 2;
    pub(crate) const INFO_SLAVE_KIND: u16 = 4;
    pub(crate) const INFO_SLAVE_DATA: u16 = 5;

    pub(crate) const PORT_STATE: u16 = 1;
    pub(crate) const PORT_HAIRPIN: u16 = 4;
    pub(crate) const PORT_UNICAST_FLOOD: u16 = 9;
    pub(crate) const PORT_BCAST_FLOOD: u16 = 30;
    pub(crate) const PORT_GROUP_FWD_MASK: u16 = 31;
    pub(crate) const PORT_ISOLATED: u16 = 33;
    pub(crate) const PORT_LOCKED: u16 = 39;
}

/// `IFF_*` (netdevice(7)).
pub(crate) mod iff {
    pub(crate) const UP: u32 = 0x1;
    pub(crate) const LOOPBACK: u32 = 0x8;
    pub(crate) const POINT_TO_POINT: u32 = 0x10;
    pub(crate) const NO_ARP: u32 = 0x80;
    pub(crate) const PROMISC: u32 = 0x100;
    pub(crate) const ALLMULTI: u32 = 0x200;
    pub(crate) const LOWER_UP: u32 = 0x1_0000;
}

/// `RTEXT_FILTER_SKIP_STATS`: counters are not needed.
pub(crate) const SKIP_STATS: u32 = 8;

/// Which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// The one with this index.
    Index(u32),
    /// The one with this name.
    Name(&'a IfName),
}

impl At<'_> {
    pub(crate) fn index(self) -> u32 {
        match self {
            At::Index(index) => index,
            At::Name(_) => 0,
        }
    }

    pub(crate) fn name(self, request: &mut Request<'_>) {
        if let At::Name(name) = self {
            request.text(ifla::IFNAME, name.as_str());
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Index(index) => write!(f, "link {index}"),
            At::Name(name) => name.fmt(f),
        }
    }
}

/// A link as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: IfName,
    /// Its Ethernet address; `None` for a tunnel without one.
    pub mac: Option<Mac>,
    /// Its MTU in bytes; the loopback device's exceeds what [`model::Mtu`] allows.
    pub mtu: u32,
    /// Its flags.
    pub flags: Flags,
    /// Its driver, as in `veth` or `bridge`; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// The other end of a veth, the device below a VLAN; an index in [`Link::peer_netns`].
    pub peer: Option<u32>,
    /// The namespace of [`Link::peer`] by the number that this namespace has for it; `None` if
    /// it is this one.
    pub peer_netns: Option<i32>,
    /// Its group; 0 by default.
    pub group: u32,
    /// Free text about it.
    pub alias: Option<String>,
    /// The length of its transmit queue in packets.
    pub tx_queue: u32,
    /// Whether it can carry packets.
    pub state: OperState,
    /// Its settings as a port, if its master is a bridge.
    pub port: Option<BridgePort>,
    /// How it shares its parent, if it does.
    pub sharing: Option<Sharing>,
}

/// How a link shares the device below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By hardware addresses (`macvlan`).
    Macvlan(MacvlanMode),
    /// By addresses (`ipvlan`).
    Ipvlan(IpvlanMode),
    /// By tags (`vlan`).
    Vlan(VlanTag),
}

/// A link's flags (`IFF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// The administrator wants it to work.
    pub fn is_up(self) -> bool {
        self.0 & iff::UP != 0
    }

    /// It is a loopback device.
    pub fn is_loopback(self) -> bool {
        self.0 & iff::LOOPBACK != 0
    }

    /// It leads to one neighbour, or asks for no hardware address: packets need no gateway there.
    pub fn needs_no_gateway(self) -> bool {
        self.0 & (iff::POINT_TO_POINT | iff::NO_ARP) != 0
    }

    /// It asks for the hardware addresses of its neighbours, and answers who asks for its own.
    pub fn resolves(self) -> bool {
        self.0 & iff::NO_ARP == 0
    }

    /// It receives every packet.
    pub fn is_promiscuous(self) -> bool {
        self.0 & iff::PROMISC != 0
    }

    /// It receives every multicast packet.
    pub fn is_all_multicast(self) -> bool {
        self.0 & iff::ALLMULTI != 0
    }

    /// It has a carrier.
    pub fn has_carrier(self) -> bool {
        self.0 & iff::LOWER_UP != 0
    }
}

/// Whether a link can carry packets (RFC 2863 §3.1.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperState {
    /// It does not say; loopback devices never do.
    Unknown,
    /// Part of it is missing.
    NotPresent,
    /// No.
    Down,
    /// No, because the link below it is down.
    LowerLayerDown,
    /// In a test.
    Testing,
    /// Not yet: it waits for something outside.
    Dormant,
    /// Yes.
    Up,
}

impl From<u8> for OperState {
    fn from(number: u8) -> Self {
        match number {
            1 => OperState::NotPresent,
            2 => OperState::Down,
            3 => OperState::LowerLayerDown,
            4 => OperState::Testing,
            5 => OperState::Dormant,
            6 => OperState::Up,
            _ => OperState::Unknown,
        }
    }
}

/// A port of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Whether it forwards (`BR_STATE_FORWARDING`).
    pub forwards: bool,
    /// Whether it sends packets back to where they came from.
    pub hairpin: bool,
    /// Whether it exchanges packets only with ports that are not isolated.
    pub isolated: bool,
    /// Whether broadcast of other ports is sent out of it: questions of ARP.
    pub floods_broadcast: bool,
    /// Whether what is for hardware addresses that the bridge does not know is sent out of it.
    pub floods_unicast: bool,
    /// Whether it takes packets only from hardware addresses that the bridge knows to be there (IEEE 802.1X).
    pub locked: bool,
    /// Which frames to addresses of the link's own protocols (`01:80:c2:00:00:00` to `0f`, IEEE 802.1Q, table 8-1) it
    /// has switched as any other frame, a bit each (`group_fwd_mask`).
    pub group_forward: u16,
}

/// Which links to list; everything by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links<'a> {
    /// Only those of this driver.
    pub kind: Option<&'a str>,
    /// Only the ports of this link.
    pub master: Option<u32>,
}

impl Socket {
    /// The link at `at`; `None` if there is none.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn link(&mut self, at: At<'_>) -> Result<Option<Link>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET, 0, format!("looking up {at}"));
        request.bytes(&info(at.index(), 0, 0)).u32(ifla::EXT_MASK, SKIP_STATS);
        at.name(&mut request);
        self.get(&mut batch, &[Errno::NODEV], read)
    }

    /// The index of the link of this name; `None` if there is none. It does not wait for processes
    /// that change links, and is for links that should exist (netdevice(7), `SIOCGIFINDEX`): for
    /// another name the kernel searches a driver.
    ///
    /// # Errors
    /// A refusal.
    pub fn link_index(&self, name: &IfName) -> Result<Option<u32>> {
        match netdevice::name_to_index(self, name.as_str()) {
            Ok(index) => Ok(Some(index)),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => Err(refused(format!("looking up {name}"), errno)),
        }
    }

    /// Every link that `which` selects.
    ///
    /// # Errors
    /// As [`Socket::dump`]; [`model::Kind::Kernel`] if `which` names a master that is not there.
    pub fn links(&mut self, which: Links<'_>) -> Result<Vec<Link>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET, DUMP, "listing links");
        request.bytes(&info(0, 0, 0)).u32(ifla::EXT_MASK, SKIP_STATS);
        if let Some(master) = which.master {
            request.u32(ifla::MASTER, master);
        }
        if let Some(kind) = which.kind {
            request.nest(ifla::LINKINFO, |info| {
                info.text(ifla::INFO_KIND, kind);
            });
        }
        let selected = |link: &Link| {
            which.master.is_none_or(|master| link.master == Some(master))
                && which.kind.is_none_or(|kind| link.kind.as_deref() == Some(kind))
        };
        self.dump(&mut batch, &[], |message| read(message).filter(selected))
    }
}

/// `struct ifinfomsg` of the link with `index`, or of one named by an attribute if that is zero.
pub(crate) fn info(index: u32, flags: u32, change: u32) -> [u8; INFO] {
    let mut bytes = [0; INFO];
    let fields = [(4, index), (8, flags), (12, change)];
    for (at, value) in fields {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// Reads an `RTM_NEWLINK`.
pub(crate) fn read(message: &Message<'_>) -> Option<Link> {
    if message.kind != NEW {
        return None;
    }
    let mut link = Link {
        index: u32::from_ne_bytes(array(message.payload, 4)?),
        name: message.attributes(INFO).find_kind(ifla::IFNAME)?.text()?.parse().ok()?,
        flags: Flags(u32::from_ne_bytes(array(message.payload, 8)?)),
        mac: None,
        mtu: 0,
        kind: None,
        master: None,
        peer: None,
        peer_netns: None,
        group: 0,
        alias: None,
        tx_queue: 0,
        state: OperState::Unknown,
        port: None,
        sharing: None,
    };
    for attribute in message.attributes(INFO) {
        match attribute.kind {
            ifla::ADDRESS => link.mac = attribute.mac(),
            ifla::MTU => link.mtu = attribute.u32()?,
            ifla::MASTER => link.master = attribute.u32(),
            ifla::LINK => link.peer = attribute.u32(),
            ifla::LINK_NETNSID => link.peer_netns = attribute.i32(),
            ifla::GROUP => link.group = attribute.u32()?,
            ifla::IFALIAS => link.alias = attribute.text().map(str::to_owned),
            ifla::TXQLEN => link.tx_queue = attribute.u32()?,
            ifla::OPERSTATE => link.state = attribute.u8()?.into(),
            ifla::LINKINFO => read_kind(&mut link, &attribute.nested()),
            _ => {}
        }
    }
    Some(link)
}

fn read_kind(link: &mut Link, info: &Attributes<'_>) {
    let text = |kind| info.find_kind(kind).and_then(|attribute| attribute.text());
    link.kind = text(ifla::INFO_KIND).map(str::to_owned);
    let data = info.find_kind(ifla::INFO_DATA).map(|data| data.nested());
    link.sharing = data.and_then(|data| read_sharing(link.kind.as_deref()?, &data));
    if text(ifla::INFO_SLAVE_KIND) == Some("bridge") {
        link.port = info.find_kind(ifla::INFO_SLAVE_DATA).map(|data| read_port(&data.nested()));
    }
}

fn read_sharing(kind: &str, data: &Attributes<'_>) -> Option<Sharing> {
    match kind {
        "macvlan" => {
            let mode = data.find_kind(device::macvlan::MODE)?.u32()?;
            device::macvlan_mode_of(mode).map(Sharing::Macvlan)
        }
        "ipvlan" => {
            let mode = data.find_kind(device::IPVLAN_MODE)?.u16()?;
            device::ipvlan_mode_of(mode).map(Sharing::Ipvlan)
        }
        "vlan" => VlanTag::new(data.find_kind(device::VLAN_ID)?.u16()?).map(Sharing::Vlan),
        _ => None,
    }
}

fn read_port(data: &Attributes<'_>) -> BridgePort {
    const FORWARDING: u8 = 3;
    let number = |kind| data.find_kind(kind).and_then(|attribute| attribute.u8());
    BridgePort {
        forwards: number(ifla::PORT_STATE) == Some(FORWARDING),
        hairpin: number(ifla::PORT_HAIRPIN) == Some(1),
        isolated: number(ifla::PORT_ISOLATED) == Some(1),
        floods_broadcast: number(ifla::PORT_BCAST_FLOOD) != Some(0),
        floods_unicast: number(ifla::PORT_UNICAST_FLOOD) != Some(0),
        locked: number(ifla::PORT_LOCKED) == Some(1),
        group_forward: data
            .find_kind(ifla::PORT_GROUP_FWD_MASK)
            .and_then(|attribute| attribute.u16())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn reads_what_it_needs() {
        let mut batch = Batch::new();
        let mut request = batch.request(NEW, 0, "test");
        request.bytes(&info(7, iff::UP | iff::PROMISC, 0)).text(ifla::IFNAME, "vethx");
        request.attribute(ifla::ADDRESS, &[2, 0, 0, 0, 0, 1]).u32(ifla::MTU, 1400);
        request.u32(ifla::MASTER, 3).u32(ifla::LINK, 2).u32(ifla::LINK_NETNSID, 0);
        request.u8(ifla::OPERSTATE, 6).nest(ifla::LINKINFO, |info| {
            info.text(ifla::INFO_KIND, "veth").text(ifla::INFO_SLAVE_KIND, "bridge");
            info.nest(ifla::INFO_SLAVE_DATA, |data| {
                data.u8(ifla::PORT_STATE, 3).u8(ifla::PORT_HAIRPIN, 1);
                data.u8(ifla::PORT_BCAST_FLOOD, 0).u8(ifla::PORT_LOCKED, 1);
                data.attribute(ifla::PORT_GROUP_FWD_MASK, &0x4000u16.to_ne_bytes());
            });
        });
        let bytes = batch.seal(1).to_vec();
        let link = read(&Messages::new(&bytes).next().unwrap()).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.mtu), (7, "vethx", 1400));
        assert_eq!((link.master, link.peer, link.peer_netns), (Some(3), Some(2), Some(0)));
        assert!(link.flags.is_up() && link.flags.is_promiscuous() && !link.flags.is_loopback());
        assert_eq!((link.kind.as_deref(), link.state), (Some("veth"), OperState::Up));
        let port = BridgePort {
            forwards: true,
            hairpin: true,
            isolated: false,
            floods_broadcast: false,
            floods_unicast: true,
            locked: true,
            group_forward: 0x4000,
        };
        assert_eq!(link.port, Some(port));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..512)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
