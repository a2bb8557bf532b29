//! The settings of a bridge, and where it sends what is for a hardware address (bridge(8),
//! `linux/if_link.h`, `linux/neighbour.h`).

use model::{Mac, Result};

use crate::link::{self, INFO, ifla};
use crate::wire::{Batch, Message, array};
use crate::{Errno, Socket};

/// `RTM_GETLINK`, `RTM_NEWNEIGH`, `RTM_GETNEIGH`.
const GET_LINK: u16 = 18;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
/// `AF_BRIDGE`.
const FAMILY: u8 = 7;
/// Length of `struct ndmsg`.
const NEIGHBOUR: usize = 12;
/// `NDA_LLADDR`, `NDA_MASTER`.
const LLADDR: u16 = 2;
const MASTER: u16 = 9;
/// `NUD_NOARP | NUD_PERMANENT`: it was set rather than learnt.
const SET: u16 = 0xc0;

/// `IFLA_BR_*`.
const VLAN_FILTERING: u16 = 7;
const CALL_IPTABLES: u16 = 36;
const CALL_IP6TABLES: u16 = 37;

/// What a bridge does besides switching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Whether it separates VLANs.
    pub filters_vlans: bool,
    /// Whether IPv4 packets that it switches pass the filter of routed ones.
    pub calls_iptables: bool,
    /// The same of IPv6.
    pub calls_ip6tables: bool,
}

/// Where a bridge sends what is for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The port; the bridge itself for its own addresses.
    pub port: u32,
    /// Whether it was set rather than learnt.
    pub is_set: bool,
}

impl Socket {
    /// The settings of the bridge with this index; `None` if there is none.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn bridge_settings(&mut self, bridge: u32) -> Result<Option<BridgeSettings>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET_LINK, 0, format!("looking up bridge {bridge}"));
        request.bytes(&link::info(bridge, 0, 0));
        self.get(&mut batch, &[Errno::NODEV], read_settings)
    }

    /// Where the bridge with this index sends what is for `mac`; `None` if it does not know, and
    /// sends it to every port.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn forwarded(&mut self, bridge: u32, mac: Mac) -> Result<Option<Forwarded>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET_NEIGHBOUR, 0, format!("asking where {mac} is"));
        let mut head = [0; NEIGHBOUR];
        head[0] = FAMILY;
        request.bytes(&head).attribute(LLADDR, &mac.octets()).u32(MASTER, bridge);
        self.get(&mut batch, &[Errno::NOENT], read_forwarded)
    }
}

fn read_settings(message: &Message<'_>) -> Option<BridgeSettings> {
    (message.kind == link::NEW).then_some(())?;
    let info = message.attributes(INFO).find_kind(ifla::LINKINFO)?.nested();
    let data = info.find_kind(ifla::INFO_DATA)?.nested();
    let is_on = |kind| data.find_kind(kind).and_then(|on| on.u8()) == Some(1);
    Some(BridgeSettings {
        filters_vlans: is_on(VLAN_FILTERING),
        calls_iptables: is_on(CALL_IPTABLES),
        calls_ip6tables: is_on(CALL_IP6TABLES),
    })
}

fn read_forwarded(message: &Message<'_>) -> Option<Forwarded> {
    (message.kind == NEW_NEIGHBOUR).then_some(())?;
    let state = u16::from_ne_bytes(array(message.payload, 8)?);
    Some(Forwarded {
        port: u32::from_ne_bytes(array(message.payload, 4)?),
        is_set: state & SET != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let link = Message { kind: link::NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read_settings(&link);
            let _ = read_forwarded(&Message { kind: NEW_NEIGHBOUR, ..link });
        }
    }
}
