//! What a bridge passes up to this host: packets from its subnets only, where nothing may leave past its network's rules
//! or way. The host answers whom a packet names as its source (echo, reset, unreachable), and its answers are led as
//! all that it sends: no rule about the bridge holds for them. While the packet filter is there it drops such packets;
//! this filter is of traffic control, which a flush leaves there.
//!
//! Which bridges have it follows from the rules of routing: those of strict bridges, and those that are led. So it is
//! settled again whenever these have changed, and goes with the bridge.

use model::{IfName, IpNet, Result, Wiring};
use netlink::traffic::SourceFilter;
use netlink::wire::Batch;
use netlink::{At, Errno, Link, Socket};

use crate::filter::fence;
use crate::way;

/// Makes the filter of a bridge what it should be, or takes it away. On a kernel without such filters (`cls_bpf`) there is
/// none.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn settle(bridge: &IfName) -> Result<()> {
    let mut socket = Socket::route()?;
    let Some(link) = socket.link(At::Name(bridge))? else { return Ok(()) };
    match wanted(&mut socket, &link)? {
        Some(subnets) => filter(&mut socket, &link, &SourceFilter::of(&subnets)),
        None => unfilter(&mut socket, &link),
    }
}

/// The same of the bridge that a network or an attachment has just made, if it may need one.
///
/// # Errors
/// As [`settle`].
pub(crate) fn settle_for(wiring: &Wiring) -> Result<()> {
    let is_strict = |fence: Option<&model::Fence>| fence.is_some_and(|fence| fence.strict);
    let is_any = is_strict(wiring.fence.as_ref()) || is_strict(wiring.own_fence.as_ref());
    let bridge = wiring.link.as_ref().and_then(|link| link.kind.bridge());
    match bridge.filter(|_| is_any || wiring.via.is_some()) {
        Some(bridge) => settle(&bridge.name),
        None => Ok(()),
    }
}

fn wanted(socket: &mut Socket, link: &Link) -> Result<Option<Vec<IpNet>>> {
    match way::sources(socket, link)? {
        Some(subnets) => Ok(Some(subnets)),
        None if fence::strict_bridges()?.contains(&link.name) => {
            way::own_sources(socket, link).map(Some)
        }
        None => Ok(None),
    }
}

fn filter(socket: &mut Socket, link: &Link, wanted: &SourceFilter) -> Result<()> {
    if socket.source_filter(link.index)?.as_ref() == Some(wanted) {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.filter_ingress(link.index);
    let outcome = socket.send(&mut batch)?.except(Errno::EXIST).except(Errno::NODEV);
    outcome.except(Errno::NOENT).into_result()?;
    let mut batch = Batch::new();
    batch.filter_sources(link.index, wanted);
    // The bridge may have gone meanwhile.
    let outcome = socket.send(&mut batch)?.except(Errno::NOENT).except(Errno::NODEV);
    outcome.except(Errno::INVAL).into_result()
}

/// The discipline stays with the bridge: another program may have made it its own.
fn unfilter(socket: &mut Socket, link: &Link) -> Result<()> {
    if socket.source_filter(link.index)?.is_none() {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.unfilter_sources(link.index);
    let outcome = socket.send(&mut batch)?.except(Errno::NOENT).except(Errno::NODEV);
    outcome.except(Errno::INVAL).into_result()
}
