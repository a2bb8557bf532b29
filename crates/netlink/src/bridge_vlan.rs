//! The VLANs of a bridge's ports (bridge(8), `linux/if_bridge.h`).

use model::{Result, VlanId, VlanRange};

use crate::link::{self, INFO, ifla};
use crate::wire::{Attributes, Batch, DUMP, Message, array};
use crate::{Errno, Socket};

/// `RTM_SETLINK`.
const SET: u16 = 19;
/// `RTM_GETLINK`.
const GET: u16 = 18;
/// `AF_BRIDGE`.
const BRIDGE: u8 = 7;
/// `IFLA_BRIDGE_VLAN_INFO`: flags and number.
const VLAN_INFO: u16 = 2;
/// `RTEXT_FILTER_BRVLAN`.
const WITH_VLANS: u32 = 2;
/// `IFLA_BR_VLAN_FILTERING`.
const FILTERING: u16 = 7;

/// `BRIDGE_VLAN_INFO_*`.
mod flag {
    pub(super) const PVID: u16 = 2;
    pub(super) const UNTAGGED: u16 = 4;
    pub(super) const BEGIN: u16 = 8;
    pub(super) const END: u16 = 16;
}

/// How a port is in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tagging {
    /// Its packets have a tag on the wire.
    Tagged,
    /// They have none, and what comes without one is in this VLAN.
    Untagged,
}

/// A VLAN that a port is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortVlan {
    /// Which.
    pub id: VlanId,
    /// How.
    pub tagging: Tagging,
}

impl Batch {
    /// Makes the bridge with this index separate VLANs; returns the message's index.
    pub fn filter_vlans(&mut self, bridge: u32) -> usize {
        let about = format!("making bridge {bridge} separate VLANs");
        let mut request = self.request(link::NEW, 0, about);
        request.bytes(&link::info(bridge, 0, 0)).nest(ifla::LINKINFO, |info| {
            info.text(ifla::INFO_KIND, "bridge").nest(ifla::INFO_DATA, |data| {
                data.u8(FILTERING, 1);
            });
        });
        self.count() - 1
    }

    /// Puts the port with this index into VLANs, all in one message; returns the message's index.
    /// EOPNOTSUPP if the kernel does not know VLANs of bridges.
    pub fn join_vlans(&mut self, port: u32, vlans: &[(VlanRange, Tagging)]) -> usize {
        let about = format!("putting port {port} into its VLANs");
        self.vlans(SET, port, vlans, about)
    }

    /// Takes the port with this index out of one VLAN; returns the message's index.
    pub fn leave_vlan(&mut self, port: u32, vlan: VlanId) -> usize {
        let about = format!("taking port {port} out of VLAN {vlan}");
        let range = VlanRange { first: vlan, last: vlan };
        self.vlans(link::DELETE, port, &[(range, Tagging::Tagged)], about)
    }

    fn vlans(
        &mut self,
        kind: u16,
        port: u32,
        vlans: &[(VlanRange, Tagging)],
        about: String,
    ) -> usize {
        let mut request = self.request(kind, 0, about);
        request.bytes(&of_bridge(port)).nest(ifla::AF_SPEC, |spec| {
            for (flags, number) in vlans.iter().flat_map(|(range, how)| described(*range, *how)) {
                let mut bytes = [0; 4];
                bytes[..2].copy_from_slice(&flags.to_ne_bytes());
                bytes[2..].copy_from_slice(&number.to_ne_bytes());
                spec.attribute(VLAN_INFO, &bytes);
            }
        });
        self.count() - 1
    }
}

impl Socket {
    /// The VLANs of the bridge port with this index, in ascending order; none where the kernel does
    /// not know any.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn port_vlans(&mut self, port: u32) -> Result<Vec<PortVlan>> {
        let mut batch = Batch::new();
        let about = format!("listing the VLANs of port {port}");
        let mut request = batch.request(GET, DUMP, about);
        request.bytes(&of_bridge(0)).u32(ifla::EXT_MASK, WITH_VLANS);
        let ports = self.dump(&mut batch, &[], |message| {
            let index = u32::from_ne_bytes(array(message.payload, 4)?);
            (message.kind == link::NEW && index == port).then(|| read(message))
        })?;
        let mut vlans: Vec<PortVlan> = ports.into_iter().flatten().collect();
        vlans.sort_unstable();
        Ok(vlans)
    }
}

impl Socket {
    /// Whether the bridge with this index separates VLANs.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn filters_vlans(&mut self, bridge: u32) -> Result<bool> {
        let mut batch = Batch::new();
        let about = format!("asking whether bridge {bridge} separates VLANs");
        batch.request(GET, 0, about).bytes(&link::info(bridge, 0, 0));
        let found = self.get(&mut batch, &[Errno::NODEV], |message| {
            (message.kind == link::NEW).then(|| read_filtering(message).unwrap_or(false))
        })?;
        Ok(found.unwrap_or(false))
    }
}

fn read_filtering(message: &Message<'_>) -> Option<bool> {
    let info = message.attributes(INFO).find_kind(ifla::LINKINFO)?.nested();
    let data = info.find_kind(ifla::INFO_DATA)?.nested();
    Some(data.find_kind(FILTERING)?.u8()? == 1)
}

fn of_bridge(index: u32) -> [u8; INFO] {
    let mut bytes = link::info(index, 0, 0);
    bytes[0] = BRIDGE;
    bytes
}

/// A range is written as its first and its last; one that comes without a tag cannot be in a range.
fn described(range: VlanRange, how: Tagging) -> Vec<(u16, u16)> {
    let [first, last] = [range.first.number(), range.last.number()];
    match how {
        Tagging::Untagged => vec![(flag::PVID | flag::UNTAGGED, first)],
        Tagging::Tagged if first == last => vec![(0, first)],
        Tagging::Tagged => vec![(flag::BEGIN, first), (flag::END, last)],
    }
}

pub(crate) fn read(message: &Message<'_>) -> Vec<PortVlan> {
    let spec = message.attributes(INFO).find_kind(ifla::AF_SPEC);
    let listed: Option<Attributes<'_>> = spec.map(|spec| spec.nested());
    let infos = listed.into_iter().flatten().filter(|attribute| attribute.kind == VLAN_INFO);
    infos.filter_map(|info| read_vlan(info.value)).collect()
}

fn read_vlan(info: &[u8]) -> Option<PortVlan> {
    let flags = u16::from_ne_bytes(array(info, 0)?);
    let id = VlanId::new(u16::from_ne_bytes(array(info, 2)?))?;
    let tagging = match flags & flag::UNTAGGED {
        0 => Tagging::Tagged,
        _ => Tagging::Untagged,
    };
    Some(PortVlan { id, tagging })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    fn vlan(number: u16) -> VlanId {
        VlanId::new(number).unwrap()
    }

    #[test]
    fn ranges_are_their_ends() {
        let range = |first, last| VlanRange { first: vlan(first), last: vlan(last) };
        let described = |range, how| described(range, how);
        assert_eq!(described(range(5, 5), Tagging::Tagged), [(0, 5)]);
        assert_eq!(described(range(5, 9), Tagging::Tagged), [(8, 5), (16, 9)]);
        assert_eq!(described(range(5, 5), Tagging::Untagged), [(6, 5)]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut batch = Batch::new();
        let range = VlanRange { first: vlan(7), last: vlan(7) };
        batch.join_vlans(3, &[(range, Tagging::Tagged), (range, Tagging::Untagged)]);
        let bytes = batch.seal(1).to_vec();
        let message = Messages::new(&bytes).next().unwrap();
        assert_eq!((message.kind, message.payload[0]), (SET, BRIDGE));
        let [tagged, untagged] =
            [Tagging::Tagged, Tagging::Untagged].map(|tagging| PortVlan { id: vlan(7), tagging });
        assert_eq!(read(&message), [tagged, untagged]);
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: link::NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
