//! The MTU of devices that are in use. What a limit lets through at once depends on it, so limits are
//! set again after it.

use model::{Attachment, Error, Handoff, LinkKind, Mtu, Network, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Link, Netns, Socket};

use crate::plan;

/// Gives both ends of an attachment's pair the MTU of `after`. The container's end sends nothing that its
/// other end would not take: it grows last and shrinks first.
pub(crate) fn revise(before: &Attachment, after: &Attachment) -> Result<()> {
    let (Some(was), Some(is)) = (&before.wiring.link, &after.wiring.link) else { return Ok(()) };
    let Some(mtu) = is.mtu.filter(|_| is_pair(is)) else { return Ok(()) };
    let socket = &mut Socket::route()?;
    let name = plan::host_end(after)?;
    let Some(outer) = socket.link(At::Name(&name))? else {
        return Err(Error::not_found(format!("{name}, the host's end of {}, is gone", after.id)));
    };
    // Where both say the same, a container that cannot be entered had it when that was recorded.
    let required = |done: Result<()>| if is.mtu == was.mtu { Ok(()) } else { done };
    if after.tap().is_some() {
        // The machine gets it when it renews its lease.
        return set(socket, &outer, mtu);
    }
    if outer.mtu < mtu.bytes() {
        set(socket, &outer, mtu)?;
        return required(inner(socket, after, &outer, mtu));
    }
    required(inner(socket, after, &outer, mtu))?;
    set(socket, &outer, mtu)
}

/// Whether the MTU of a network in use can change: that of others is their parent's, or their maker's.
fn is_pair(link: &model::Link) -> bool {
    matches!(link.kind, LinkKind::Bridge(_) | LinkKind::Ptp(_))
}

/// Gives the network's bridge its MTU, and the device of its gateway where that is another one.
pub(crate) fn retune(network: &Network) -> Result<()> {
    let Some(link) = &network.wiring.link else { return Ok(()) };
    let (Some(mtu), Some(bridge)) = (link.mtu, link.kind.bridge()) else { return Ok(()) };
    let socket = &mut Socket::route()?;
    let mut names = vec![bridge.name.clone()];
    let gateway = plan::port::gateway_device(bridge)?;
    names.extend((gateway != bridge.name).then_some(gateway));
    for name in names {
        if let Some(there) = socket.link(At::Name(&name))? {
            set(socket, &there, mtu)?;
        }
    }
    Ok(())
}

/// The container's end, whatever its runtime calls it.
fn inner(socket: &mut Socket, attachment: &Attachment, outer: &Link, mtu: Mtu) -> Result<()> {
    if outer.peer_netns.is_none() {
        return set_peer(socket, attachment, outer, mtu);
    }
    let Some(sandbox) = &attachment.sandbox else {
        return Err(Error::unsupported(format!(
            "{}: its runtime does not say where its namespace is",
            attachment.id
        )));
    };
    let netns = Netns::open(&sandbox.path)?;
    // A runtime that completes interfaces may name the path before the namespace is there.
    let is_meant = netns.inode() == sandbox.inode || attachment.handoff == Handoff::Caller;
    if !is_meant {
        let path = sandbox.path.display();
        return Err(Error::not_found(format!("{path} is another network namespace by now")));
    }
    netns.enter(|| set_peer(&mut Socket::route()?, attachment, outer, mtu))?
}

/// Only the device whose other end is the host's, where `socket` is in its namespace.
fn set_peer(socket: &mut Socket, attachment: &Attachment, outer: &Link, mtu: Mtu) -> Result<()> {
    let index = outer.peer.unwrap_or_default();
    let is_pair = |it: &Link| it.kind == outer.kind && it.peer == Some(outer.index);
    match socket.link(At::Index(index))?.filter(is_pair) {
        Some(end) => set(socket, &end, mtu),
        None => Err(Error::not_found(format!(
            "the other end of {} is not in the namespace of {}",
            outer.name, attachment.id
        ))),
    }
}

fn set(socket: &mut Socket, link: &Link, mtu: Mtu) -> Result<()> {
    if link.mtu == mtu.bytes() {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.change_link(At::Index(link.index), &[Change::Mtu(mtu)]);
    // What is gone has no MTU.
    let sent = socket.send(&mut batch)?.except(Errno::NODEV).into_result();
    sent.map_err(|error| error.context(format!("setting MTU {mtu} of {}", link.name)))
}
