//! The settings of a port of a bridge: its VLANs, its isolation, and the interface that is the
//! gateway of its VLAN.

use model::{
    Bridge, BridgePort, Error, Family, Gateway, IfName, InterfaceAddress, IpNet, Link, Mac, Mtu,
    Result, VlanId, Vlans, Wiring,
};
use sha2::{Digest, Sha256};

use super::{BridgeFacts, Facts, Step};
use crate::identity::bridge_mac;

/// The settings of a port that is on a bridge already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: IfName,
    /// Whether it exchanges nothing with other isolated ports.
    pub isolated: bool,
    /// Whether frames to addresses of the link's own protocols go by the bridge, where what it passes up is filtered.
    pub filtered: bool,
    /// Its VLANs.
    pub vlans: Vlans,
}

/// A pair in the host's namespace: one end is a port of the bridge, and the other the gateway of the
/// port's VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanGateway {
    /// The end that has the addresses.
    pub name: IfName,
    /// Its hardware address.
    pub mac: Mac,
    /// The end that is a port.
    pub port: IfName,
    /// The bridge.
    pub bridge: IfName,
    /// Of both.
    pub mtu: Option<Mtu>,
    /// The VLANs of the port.
    pub vlans: Vlans,
}

/// Which device of the host is the gateway of a bridge's ports: the bridge, or `bridge.VLAN` where
/// they are in a VLAN, as with the reference plugin.
pub(crate) fn gateway_device(bridge: &Bridge) -> Result<IfName> {
    match vlan_of_gateway(bridge) {
        None => Ok(bridge.name.clone()),
        Some(vlan) => format!("{}.{vlan}", bridge.name).parse().map_err(|_: Error| {
            Error::invalid(format!(
                "the gateway of VLAN {vlan} would be called {}.{vlan}, which is too long for an \
                 interface: choose a shorter name for the bridge",
                bridge.name
            ))
        }),
    }
}

pub(crate) fn vlan_of_gateway(bridge: &Bridge) -> Option<VlanId> {
    bridge.port.vlans.untagged.filter(|_| bridge.gateway != Gateway::None)
}

/// The name of the port of a VLAN's gateway: `vlan` and 44 bits of the gateway's name.
pub(crate) fn gateway_port(gateway: &IfName) -> Result<IfName> {
    let digest = Sha256::digest(gateway.as_str());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("vlan{}", &hex[..11]).parse().map_err(|_: Error| Error::bug("VLAN gateway's port"))
}

/// Makes the device that holds the gateway's addresses, where it is not the bridge.
pub(super) fn gateway(bridge: &Bridge, link: &Link, facts: &Facts) -> Result<Vec<Step>> {
    if vlan_of_gateway(bridge).is_none() {
        return Ok(Vec::new());
    }
    let name = gateway_device(bridge)?;
    // A pair outlives a bridge that was removed, and is no port of the next one.
    let there = facts.gateway.as_ref().filter(|_| facts.bridge.is_some());
    let made = match there {
        Some(BridgeFacts { is_up: true, .. }) => None,
        Some(_) => Some(Step::Up(name.clone())),
        None => Some(Step::VlanGateway(VlanGateway {
            mac: bridge_mac(&name),
            port: gateway_port(&name)?,
            name: name.clone(),
            bridge: bridge.name.clone(),
            mtu: link.mtu,
            vlans: bridge.port.vlans.clone(),
        })),
    };
    Ok(made.into_iter().chain([super::refuse_router_advertisements(&name)]).collect())
}

/// The device that has the gateway's addresses.
pub(super) fn holder<'a>(bridge: &Bridge, facts: &'a Facts) -> Option<&'a BridgeFacts> {
    match vlan_of_gateway(bridge) {
        Some(_) => facts.gateway.as_ref(),
        None => facts.bridge.as_ref(),
    }
}

/// Which frames the ports of a filtered bridge have switched: those to `01:80:c2:00:00:00` to `0f` but `01`.
pub(crate) const BY_BRIDGE: u16 = 0xfffd;

/// Whether what a bridge passes up to this host is filtered, by what the network's record says (`sources.rs`).
pub(crate) fn is_filtered(wiring: &Wiring) -> bool {
    wiring.fence.as_ref().is_some_and(|fence| fence.strict) || wiring.via.is_some()
}

/// The settings of the container's port, once there is one.
pub(super) fn steps(name: &IfName, port: &BridgePort, filtered: bool) -> Option<Step> {
    let isolated = port.isolated;
    (isolated || filtered || !port.vlans.is_empty()).then(|| {
        Step::Port(Port { name: name.clone(), isolated, filtered, vlans: port.vlans.clone() })
    })
}

/// The container's steps, with duplicate address detection for its IPv6 addresses if it has that.
pub(super) fn detected(
    steps: Vec<Step>,
    device: &IfName,
    addresses: &[InterfaceAddress],
) -> Vec<Step> {
    let is_v6 = |net: &IpNet| Family::of(net) == Family::V6;
    if !addresses.iter().any(|held| is_v6(&held.address)) {
        return steps;
    }
    let parameter = |key: &str| super::improve(format!("net/ipv6/conf/{device}/{key}"), "1");
    let mut all = vec![parameter("enhanced_dad"), parameter("accept_dad")];
    all.extend(steps.into_iter().map(|step| match step {
        Step::Address(name, net) if is_v6(&net) => Step::Detected(name, net),
        other => other,
    }));
    all.push(Step::Settle(device.clone()));
    all
}
