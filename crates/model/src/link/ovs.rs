//! A segment of an Open vSwitch bridge of this host.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::VlanId;
use crate::{IfName, NetworkName, Result, Vni};

/// A VLAN of a bridge that the host's administrator made, and the tunnels by which it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ovs {
    /// The bridge.
    pub bridge: IfName,
    /// The VLAN; what has no tag where none is given.
    pub vlan: Option<VlanId>,
    /// To other hosts.
    pub tunnel: Option<Tunnel>,
    /// The switch's database: `unix:PATH` or `tcp:HOST:PORT`.
    pub database: String,
    /// Whether containers leave checksums to their interface: a switch that runs as a program takes
    /// frames as they are.
    pub offload: bool,
}

/// VXLAN (RFC 7348) to each of the other hosts that have the segment. What comes from one of them is
/// not passed on to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// The same on all hosts.
    pub vni: Vni,
    /// The other hosts' addresses.
    pub remotes: Vec<IpAddr>,
}

impl Tunnel {
    /// What the port of the network's tunnel to `remote` is called: `vx` and 48 bits.
    ///
    /// # Errors
    /// None, as it is short enough.
    pub fn device(network: &NetworkName, remote: &IpAddr) -> Result<IfName> {
        let digest = Sha256::digest(format!("{network}/{remote}").as_bytes());
        let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("vx{hex}").parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tunnel_has_a_device() {
        let device = |network: &str, remote: &str| {
            Tunnel::device(&network.parse().unwrap(), &remote.parse().unwrap()).unwrap()
        };
        assert_ne!(device("a", "192.0.2.1"), device("b", "192.0.2.1"));
        assert_ne!(device("a", "192.0.2.1"), device("a", "192.0.2.2"));
    }
}
