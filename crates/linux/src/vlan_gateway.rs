//! The end of what the VLANs of a bridge had for all their containers.

use model::{Bridge, Result};
use netlink::wire::Batch;
use netlink::{At, Errno, Link, Links, Socket};

use crate::identity::{GROUP, VLAN_GATEWAY};
use crate::plan::port::{gateway_device, gateway_port, vlan_of_gateway};

/// The ports of a bridge that are in use.
pub(crate) fn used_ports(bridge: &Link, socket: &mut Socket) -> Result<Vec<Link>> {
    let ports = socket.links(Links { kind: None, master: Some(bridge.index) })?;
    Ok(ports.into_iter().filter(|port| port.group != VLAN_GATEWAY).collect())
}

/// Removes every VLAN's gateway of a bridge of Spoke's.
pub(crate) fn remove_all(bridge: &Link, socket: &mut Socket) -> Result<()> {
    let ports = socket.links(Links { kind: None, master: Some(bridge.index) })?;
    let mut batch = Batch::new();
    for port in ports.iter().filter(|port| port.group == VLAN_GATEWAY) {
        batch.delete_link(At::Index(port.index));
    }
    socket.send(&mut batch)?.except(Errno::NODEV).into_result()
}

/// Removes the gateway of a network's VLAN from a third party's bridge, once no container of
/// Spoke's is behind it.
pub(crate) fn remove_own(wanted: &Bridge, bridge: &Link, socket: &mut Socket) -> Result<()> {
    if vlan_of_gateway(wanted).is_none() {
        return Ok(());
    }
    if used_ports(bridge, socket)?.iter().any(|port| port.group == GROUP) {
        return Ok(());
    }
    let name = gateway_port(&gateway_device(wanted)?)?;
    match socket.link(At::Name(&name))? {
        Some(port) if port.group == VLAN_GATEWAY => {
            let mut batch = Batch::new();
            batch.delete_link(At::Index(port.index));
            socket.send(&mut batch)?.except(Errno::NODEV).into_result()
        }
        Some(_) | None => Ok(()),
    }
}
