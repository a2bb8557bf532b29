//! Devices that the links of a network share in the host, besides a bridge: a device for a VLAN of their
//! parent, and the host's own device on their segment.

use model::{IfName, InterfaceNamespace, LinkKind, Macvlan, NetworkName, Parent, Result, VlanId};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, HostLock, Links, Socket};

use crate::identity::{GROUP, Users, shim_link};

/// Works on a link, or on what its network shares, while no other process of Spoke works on one
/// that shares a VLAN's device: its users are read and written in two steps.
pub(crate) fn with_lock<T>(
    lock: &HostLock,
    kind: &LinkKind,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if shared_vlan(kind).is_none() {
        return work();
    }
    lock.with(work)
}

/// The parent, and the VLAN of it that has a device of its own in the host.
fn shared_vlan(kind: &LinkKind) -> Option<(&Parent, VlanId)> {
    let parent = kind.parent().filter(|parent| parent.place == InterfaceNamespace::Host)?;
    parent.vlan.map(|vlan| (parent, vlan))
}

/// Removes it, if it is Spoke's and no other network uses it.
pub(crate) fn remove(
    network: &NetworkName,
    kind: &LinkKind,
    lock: &HostLock,
    delete: &dyn Fn(&[IfName]) -> Result<()>,
) -> Result<()> {
    with_lock(lock, kind, || remove_alone(network, kind, delete))
}

fn remove_alone(
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
    if shared_vlan(kind).is_some() {
        doomed.extend(unused_vlans(network, &mut socket)?);
    }
    if doomed.is_empty() { Ok(()) } else { delete(&doomed) }
}

/// The devices of VLANs that only this network still used. They are found by their users: the
/// default parent may be another one by now.
fn unused_vlans(network: &NetworkName, socket: &mut Socket) -> Result<Vec<IfName>> {
    let mut unused = Vec::new();
    let mut batch = Batch::new();
    for link in socket.links(Links { kind: Some("vlan"), master: None })? {
        let users = Users::read(link.alias.as_deref());
        if link.group != GROUP || !users.has(network) {
            continue;
        }
        match users.without(network) {
            None => unused.push(link.name),
            Some(others) => {
                let others = Change::Alias(others.to_string());
                batch.change_link(At::Index(link.index), &[others]);
            }
        }
    }
    socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
    Ok(unused)
}
