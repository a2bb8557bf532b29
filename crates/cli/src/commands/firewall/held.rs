//! What published ports obey in the kernel: where no daemon follows the firewall, that is not what the firewall says now.

use host::follow::FollowRecord;
use linux::follow::{self, Judgement};
use model::Result;
use netlink::Socket;

use super::state::FirewallState;

/// What the kernel does with new connections to published ports.
pub(super) enum Held {
    /// What the followed firewall says now, or said last; also where none is followed.
    Current,
    /// What it said before; not known where its rules were read from files, which are others now.
    Former(Option<Box<Judgement>>),
    /// Nothing: the table is gone, and the ports are open.
    Nothing,
}

/// What the kernel holds them to.
///
/// # Errors
/// Where the kernel cannot be asked.
pub(super) fn held(
    kept: Option<&FollowRecord>,
    seen: &[FirewallState],
    withdrawn: bool,
    socket: &mut Socket,
) -> Result<Held> {
    let Some(kept) = kept.filter(|_| !withdrawn) else { return Ok(Held::Current) };
    if !follow::is_loaded(socket)? {
        return Ok(Held::Nothing);
    }
    let is_meant = |it: &&FirewallState| {
        kept.follow == it.judgement.by && matches!(it.state, "on" | "off" | "unknown")
    };
    let Some(now) = seen.iter().find(is_meant) else { return Ok(Held::Current) };
    if follow::is_kept(socket, &now.judgement)? {
        return Ok(Held::Current);
    }
    let Some(last) = &kept.last else { return Ok(Held::Former(None)) };
    let is_last = follow::is_kept(socket, last)?;
    Ok(Held::Former(is_last.then(|| Box::new(last.clone()))))
}
