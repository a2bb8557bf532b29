//! A Linux bridge between the container and Open vSwitch, where Neutron's agent filters with iptables.
//! It finds the devices by their names, which are those that Nova gives them.

use model::{Error, IfName, Mtu, ResourceId, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Peer, Socket, Veth};

use super::bridge::{attach, delete, ensure, found, has};
use super::{GROUP, named};

/// The name of the switch's end of the pair behind the bridge.
pub(super) fn switch_end(port: &ResourceId) -> Result<IfName> {
    named("qvo", port)
}

/// Makes the bridge between, with `end` as its port; what is to be the switch's port. What exists
/// of it is taken.
pub(super) fn make(port: &ResourceId, end: &IfName) -> Result<IfName> {
    let (bridge, near, far) = (named("qbr", port)?, named("qvb", port)?, switch_end(port)?);
    let mut socket = Socket::route()?;
    let link = found(end, &mut socket)?;
    let mtu = Mtu::new(link.mtu);
    let master = ensure(&bridge, mtu, &mut socket)?;
    let mut batch = Batch::new();
    let pair = batch.new_veth(&Veth {
        name: &near,
        index: None,
        mac: None,
        mtu,
        master: Some(master),
        group: Some(GROUP),
        up: true,
        peer: Peer { name: &far, index: None, mac: None, netns: None },
    });
    let quiet = [Change::NoIpv6Addresses];
    let silenced = [&near, &far].map(|name| batch.change_link(At::Name(name), &quiet));
    batch.change_link(At::Name(&far), &[Change::Up(true)]);
    let mut outcome = socket.send(&mut batch)?.except_at(pair, Errno::EXIST);
    for message in silenced {
        outcome = outcome.except_at(message, Errno::AFNOSUPPORT);
    }
    outcome.into_result()?;
    let there = found(&near, &mut socket)?;
    if there.kind.as_deref() != Some("veth") || there.group != GROUP {
        return Err(Error::conflict(format!("{near} is there already, and is of another program")));
    }
    attach(&there, master, &mut socket)?;
    attach(&link, master, &mut socket)?;
    Ok(far)
}

/// Whether the bridge between connects `end` with the switch's end.
pub(super) fn connects(port: &ResourceId, end: &IfName) -> Result<bool> {
    let (bridge, near) = (named("qbr", port)?, named("qvb", port)?);
    Ok(has(&bridge, end)? && has(&bridge, &near)?)
}

/// Removes what was made here.
pub(super) fn remove(port: &ResourceId) -> Result<()> {
    let mut socket = Socket::route()?;
    for name in [named("qvb", port)?, named("qbr", port)?] {
        if let Some(link) = socket.link(At::Name(&name))?.filter(|link| link.group == GROUP) {
            delete(&link, &mut socket)?;
        }
    }
    Ok(())
}
