//! VXLAN devices (RFC 7348) that learn nothing, and bridge ports that are never flooded to.

use std::net::IpAddr;

use model::{IfName, Mtu, Vni};

use super::make::{created, describe};
use super::{At, NEW, ifla, info};
use crate::wire::{Batch, CREATE, EXCLUSIVE};

/// `IFLA_VXLAN_*`.
const ID: u16 = 1;
const LOCAL: u16 = 4;
const LEARNING: u16 = 7;
const PORT: u16 = 15;
const LOCAL6: u16 = 17;

/// `IFLA_BRPORT_*`, and what a port to other hosts has there: it learns nothing, nothing is flooded to
/// it, and the bridge answers for who is behind it.
const QUIET: [(u16, u8); 5] = [(8, 0), (9, 0), (27, 0), (30, 0), (32, 1)];

/// A VXLAN device without a device below it: routes say where its packets leave.
#[derive(Clone, Copy, Debug)]
pub struct NewVxlan<'a> {
    /// Its name.
    pub name: &'a IfName,
    /// The network in its packets.
    pub vni: Vni,
    /// Where its packets come from; they go to addresses of this family only.
    pub local: IpAddr,
    /// The UDP port at both ends.
    pub port: u16,
    /// The largest packet inside.
    pub mtu: Mtu,
    /// The bridge that it becomes a port of.
    pub master: u32,
}

impl Batch {
    /// Makes `vxlan`, down; returns the message's index. EEXIST if there is a link of its name, or
    /// another device with its network and port.
    pub fn new_vxlan(&mut self, vxlan: &NewVxlan<'_>) -> usize {
        let about = format!("making vxlan {} of network {}", vxlan.name, vxlan.vni);
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&created(None, false));
        describe(&mut request, vxlan.name, None, Some(vxlan.mtu));
        let local = if vxlan.local.is_ipv6() { LOCAL6 } else { LOCAL };
        request.u32(ifla::MASTER, vxlan.master).nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_KIND, "vxlan").nest(ifla::INFO_DATA, |data| {
                data.u32(ID, vxlan.vni.number()).address(local, vxlan.local);
                data.u8(LEARNING, 0).be16(PORT, vxlan.port);
            });
        });
        self.count() - 1
    }

    /// Has the bridge of the port at `at` neither flood to it nor learn from it, and answer for who is
    /// behind it; returns the message's index.
    pub fn quiet_port(&mut self, at: At<'_>) -> usize {
        let mut request = self.request(NEW, 0, format!("quieting bridge port {at}"));
        request.bytes(&info(at.index(), 0, 0));
        at.name(&mut request);
        request.nest(ifla::LINKINFO, |link| {
            link.text(ifla::INFO_SLAVE_KIND, "bridge").nest(ifla::INFO_SLAVE_DATA, |data| {
                for (kind, value) in QUIET {
                    data.u8(kind, value);
                }
            });
        });
        self.count() - 1
    }
}
