//! Strict networks: of what comes in by their bridge nothing is routed without a mark, which the fence's table
//! gives. It is a rule of routing, which a flush of the packet filter leaves there, and which no container can
//! remove.

use model::{Family, IfName, Result};
use netlink::wire::Batch;
use netlink::{Errno, Socket, Unmarked};

use super::Fenced;

/// Behind the rule of this host's own addresses, which is the first, and before all others.
const PRIORITY: u32 = 1;

/// Of the families that this host has: it may be booted without IPv6.
fn rules(bridge: &IfName) -> impl Iterator<Item = Unmarked> {
    let there = |family: &Family| netlink::probe::has_family(*family);
    let rule = |family| Unmarked { family, input: bridge.clone(), priority: PRIORITY };
    [Family::V4, Family::V6].into_iter().filter(there).map(rule)
}

fn there(socket: &mut Socket) -> Result<Vec<Unmarked>> {
    let mut all = socket.unmarked(Family::V4)?;
    all.extend(socket.unmarked(Family::V6)?);
    Ok(all)
}

/// Whether these networks have their rules, and no others have any.
///
/// # Errors
/// Where the kernel cannot be asked.
pub(super) fn is_kept(all: &[Fenced]) -> Result<bool> {
    let there = there(&mut Socket::route()?)?;
    Ok(all.iter().all(|fenced| {
        rules(&fenced.bridge).all(|rule| there.contains(&rule) == fenced.fence.strict)
    }))
}

/// Makes the rules of a network that is strict, and removes those of another one. It comes after the table:
/// what is marked is routed.
///
/// # Errors
/// Where the process may not change rules.
pub(super) fn keep(fenced: &Fenced) -> Result<()> {
    change(&fenced.bridge, fenced.fence.strict)
}

/// Removes the rules of a bridge. It comes before the table: what is not marked any more is routed.
///
/// # Errors
/// As [`keep`].
pub(super) fn forget(bridge: &IfName) -> Result<()> {
    change(bridge, false)
}

fn change(bridge: &IfName, is_strict: bool) -> Result<()> {
    let mut socket = Socket::route()?;
    let there = there(&mut socket)?;
    let mut batch = Batch::new();
    for rule in rules(bridge) {
        match (is_strict, there.contains(&rule)) {
            (true, false) => drop(batch.drop_unmarked(&rule)),
            (false, true) => drop(batch.route_unmarked(&rule)),
            (true, true) | (false, false) => {}
        }
    }
    if batch.count() == 0 {
        return Ok(());
    }
    let outcome = socket.send(&mut batch)?;
    outcome.except(Errno::EXIST).except(Errno::NOENT).into_result()
}
