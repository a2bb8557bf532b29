//! The links between the hosts of a cluster.
//!
//! Each network has a VXLAN device that is a port of its bridge. It learns nothing and nothing is
//! flooded to it: where an address is, the cluster says. A forwarding entry leads from a hardware address
//! to a host, and a neighbour from an IP address to the hardware address, for which the bridge answers
//! ARP and neighbour discovery. Packets for the VXLAN port are taken from members only.
//!
//! The packets of an encrypted network go through a WireGuard device: its forwarding entries name that device, and
//! its port of UDP is taken, and left for, through such a device only.
//!
//! Where hosts share a segment, a network may do without: see `route`.
//!
//! [`Overlay`] is what there should be; [`Overlay::apply`] compares it with the kernel and changes what
//! differs. All of it survives the daemon.

mod apply;
mod entries;
mod guard;
mod identity;
mod kernel_device;
mod outcome;
mod packet_filter;
mod route;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tampered;
mod tunnel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{IfName, IpNet, Mac, Mtu, NetworkName, Vni};

pub use guard::{Guard, is_guard};
pub use identity::{device, gateway_mac};
pub use kernel_device::underlay_mtu;
pub use netlink::wireguard::PrivateKey;
pub use outcome::Outcome;
pub use route::{RouteFilter, RoutedNetwork, Routes, Underlay, underlay};
pub use tunnel::{TUNNEL_OVERHEAD, Tunnel, refuse_clear};

/// The UDP port (RFC 7348 §5).
pub const PORT: u16 = 4789;
/// The port of encrypted networks, at which packets are taken from a tunnel only.
pub const ENCRYPTED_PORT: u16 = 4794;
/// What VXLAN puts around a packet, in bytes: Ethernet inside, VXLAN, UDP. IP comes to that.
const OVERHEAD: u32 = 14 + 8 + 8;

/// What there should be on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Where packets of this host come from.
    pub local: IpAddr,
    /// The addresses of the other members, of the same family.
    pub members: BTreeSet<IpAddr>,
    /// The networks of this host whose packets are encapsulated.
    pub networks: Vec<OverlayNetwork>,
    /// What its encrypted networks go through: one, or two while all hosts change their keys, the newer one last.
    pub tunnels: Vec<Tunnel>,
    /// Its networks whose packets are not encapsulated.
    pub routes: Routes,
}

/// A network of many hosts, on one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayNetwork {
    /// Its name.
    pub name: NetworkName,
    /// Its number in packets.
    pub vni: Vni,
    /// Its bridge, which is there or not.
    pub bridge: IfName,
    /// The bridge's own hardware address: it is another one on each host.
    pub mac: Mac,
    /// Its addresses: at most one subnet of each family.
    pub subnets: Vec<IpNet>,
    /// Of all its devices.
    pub mtu: Mtu,
    /// Whether its packets go through a tunnel.
    pub encrypted: bool,
    /// The hardware addresses of others' addresses, and the addresses of their hosts.
    pub endpoints: BTreeMap<IpAddr, (Mac, IpAddr)>,
}

impl OverlayNetwork {
    /// The port of UDP of its packets.
    pub(crate) fn port(&self) -> u16 {
        if self.encrypted { ENCRYPTED_PORT } else { PORT }
    }
}

/// What is put around a network's packets between hosts with such addresses as `local`, in bytes.
pub fn overhead(local: IpAddr, encrypted: bool) -> u32 {
    let ip = if local.is_ipv6() { 40 } else { 20 };
    OVERHEAD + ip + if encrypted { TUNNEL_OVERHEAD } else { 0 }
}
