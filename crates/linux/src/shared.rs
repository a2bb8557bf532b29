//! What the links of a network share in the host, besides a bridge: a device for a VLAN of their
//! parent, and the host's own device on their segment.

use model::{IfName, LinkKind, Macvlan, NetworkName, Parent, Place, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Socket};

use crate::facts::default_device;
use crate::identity::{GROUP, Users, shim_link};
use crate::plan::parent::vlan_device;

/// Removes it, as far as it is ours and no other network uses it.
pub(crate) fn remove(
    network: &NetworkName,
    kind: &LinkKind,
    delete: &dyn Fn(&[IfName]) -> Result<()>,
) -> Result<()> {
    let mut socket = Socket::route()?;
    let mut doomed = Vec::new();
    if let LinkKind::Macvlan(Macvlan { host_access: true, .. }) = kind {
        let shim = socket.link(At::Name(&shim_link(network)?))?;
        doomed.extend(shim.filter(|link| link.group == GROUP).map(|link| link.name));
    }
    if let Some(parent) = kind.parent() {
        doomed.extend(left_vlan(network, parent, &mut socket)?);
    }
    if doomed.is_empty() { Ok(()) } else { delete(&doomed) }
}

/// The device of the parent's VLAN, where this was the last network that used it.
fn left_vlan(
    network: &NetworkName,
    parent: &Parent,
    socket: &mut Socket,
) -> Result<Option<IfName>> {
    let (Some(vlan), Place::Host) = (parent.vlan, parent.place) else { return Ok(None) };
    let base = match &parent.name {
        Some(name) => name.clone(),
        // Where it has gone, what was on it went along.
        None => match default_device(socket) {
            Ok(name) => name,
            Err(_) => return Ok(None),
        },
    };
    let there = socket.link(At::Name(&vlan_device(&base, vlan)?))?;
    let Some(link) = there.filter(|link| link.group == GROUP) else { return Ok(None) };
    match Users::read(link.alias.as_deref()).without(network) {
        None => Ok(Some(link.name)),
        Some(others) => {
            let mut batch = Batch::new();
            batch.change_link(At::Index(link.index), &[Change::Alias(others.to_string())]);
            socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
            Ok(None)
        }
    }
}
