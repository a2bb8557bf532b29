//! Filters by source what a bridge passes up to this host, so that the host's replies leave no network past its rules or
//! way: packets from subnets inside this host only. The host answers whom a packet names as its source (echo, reset, unreachable), and its answers are led as
//! all that it sends: no rule about the bridge holds for them. While the packet filter is there it drops such packets;
//! this filter is of traffic control, which a flush leaves there.
//!
//! The bridges of networks that are strict or led have it, unless a container there forwards for another network. Any subnet
//! inside this host may be a source: a container may be on several networks, and what is sent to it goes nowhere else. So a
//! bridge that is strict for one container only has none: its neighbours may be routers. It is settled again whenever the
//! rules of routing have changed, and goes with the bridge.
//!
//! Frames to addresses of the link's own protocols a bridge hands to the host as those of the port, behind which there is no
//! filter. So Spoke's ports of such a bridge have these switched as any other frame: one that another program added may lead
//! to a link that needs them. Pause frames (`01`) the kernel drops at each port.

use model::{IfName, Result, Wiring};
use netlink::traffic::SourceFilter;
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Link, Links, Outcome, Socket};

use crate::filter::fence;
use crate::identity::GROUP;
use crate::plan::port::{BY_BRIDGE, is_filtered};
use crate::way::{self, Sources};

/// What makes a bridge strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictBy {
    /// The rules of its network.
    Network,
    /// The rules of single containers alone, or nothing.
    Others,
    /// The caller does not know: the filter of a strict bridge stays as it is.
    Unknown,
}

/// Makes the filter of a bridge what it should be, or takes it away. On a kernel without such filters (`cls_bpf`) there is
/// none.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn settle(bridge: &IfName, strict: StrictBy) -> Result<()> {
    settle_with(bridge, strict, Ports::All)
}

/// Which ports are to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ports {
    All,
    /// The port that was just made has what it needs, and the others have unless the filter is new.
    OfNewFilter,
}

fn settle_with(bridge: &IfName, strict: StrictBy, ports: Ports) -> Result<()> {
    let mut socket = Socket::route()?;
    let Some(link) = socket.link(At::Name(bridge))? else { return Ok(()) };
    let is_filtered = match way::sources(&mut socket, &link)? {
        Sources::OfAnybody => false,
        Sources::Inside => true,
        Sources::Undecided if !fence::strict_bridges()?.contains(&link.name) => false,
        Sources::Undecided => match strict {
            StrictBy::Network => true,
            StrictBy::Others => false,
            StrictBy::Unknown => return Ok(()),
        },
    };
    if !is_filtered {
        unfilter(&mut socket, &link)?;
        return switch_reserved(&mut socket, &link, false);
    }
    let inside = way::inside(&mut socket, &link)?;
    let before = socket.source_filter(link.index)?;
    if before.is_none() || ports == Ports::All {
        switch_reserved(&mut socket, &link, true)?;
    }
    match SourceFilter::of(&inside) {
        wanted if before.as_ref() == Some(&wanted) => Ok(()),
        wanted => filter(&mut socket, &link, &wanted),
    }
}

/// The same of the bridge that a network or an attachment has just made, if it may need one.
///
/// # Errors
/// As [`settle`].
pub(crate) fn settle_for(wiring: &Wiring) -> Result<()> {
    let is_strict = wiring.fence.as_ref().is_some_and(|fence| fence.strict);
    let bridge = wiring.bridge();
    let strict = if is_strict { StrictBy::Network } else { StrictBy::Unknown };
    match bridge.filter(|_| is_filtered(wiring)) {
        Some(bridge) => settle_with(&bridge.name, strict, Ports::OfNewFilter),
        None => Ok(()),
    }
}

/// Has ports switch what is sent to addresses of the link's own protocols, or hand it to the host again. What another
/// program has chosen of these stays where none has to be switched.
fn switch_reserved(socket: &mut Socket, bridge: &Link, by_bridge: bool) -> Result<()> {
    let ports = match socket.links(Links { master: Some(bridge.index), kind: None }) {
        Err(_) if socket.link(At::Index(bridge.index))?.is_none() => return Ok(()),
        ports => ports?,
    };
    let mut batch = Batch::new();
    for port in ports.into_iter().filter(|port| port.group == GROUP) {
        let now = port.port.map(|port| port.group_forward);
        let wanted = match by_bridge {
            true if now != Some(BY_BRIDGE) => BY_BRIDGE,
            false if now == Some(BY_BRIDGE) => 0,
            _ => continue,
        };
        batch.change_link(At::Index(port.index), &[Change::GroupForward(wanted)]);
    }
    if batch.count() == 0 {
        return Ok(());
    }
    // A port may have gone meanwhile, or left the bridge.
    unless_absent(socket.send(&mut batch)?).into_result()
}

fn filter(socket: &mut Socket, link: &Link, wanted: &SourceFilter) -> Result<()> {
    let mut batch = Batch::new();
    batch.filter_ingress(link.index);
    unless_absent(socket.send(&mut batch)?).except(Errno::EXIST).into_result()?;
    let mut batch = Batch::new();
    batch.filter_sources(link.index, wanted);
    unless_absent(socket.send(&mut batch)?).except(Errno::INVAL).into_result()
}

/// The discipline stays with the bridge: another program may have made it its own.
fn unfilter(socket: &mut Socket, link: &Link) -> Result<()> {
    if socket.source_filter(link.index)?.is_none() {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.unfilter_sources(link.index);
    unless_absent(socket.send(&mut batch)?).except(Errno::INVAL).into_result()
}

/// The bridge may have gone meanwhile, and the kernel may have no such filters.
fn unless_absent(outcome: Outcome) -> Outcome {
    outcome.except(Errno::NOENT).except(Errno::NODEV).except(Errno::OPNOTSUPP)
}
