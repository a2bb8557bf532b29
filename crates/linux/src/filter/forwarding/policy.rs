//! The policy of `FORWARD` on a host that forwards because of Spoke.
//!
//! Up to version 27 Docker keeps strangers from what its containers do not publish by nothing but that policy, and
//! dockerd makes it DROP only where it turns forwarding on itself. Where Spoke did that before dockerd, Spoke sets the
//! policy too. It does so once: an administrator may have `FORWARD` accept again. A chain without rules remembers it.

use model::{Family, Result};
use netlink::Socket;
use netlink::nft::{self, Base, Policy, Table, Transaction};

use super::{DOCKER_ISOLATION, FORWARD, TABLES, drops, edit};

/// The chain that remembers it.
const CLOSED: &str = "SPOKE-POLICY";
/// From 28 on Docker has this chain, and drops by rules what is not published.
const DOCKER_FORWARD: &str = "DOCKER-FORWARD";

/// Those of these families, which Spoke makes the host forward, in which strangers reach all of Docker's containers.
///
/// # Errors
/// As [`nft::chains`].
pub fn left_open(socket: &mut Socket, ours: &[Family]) -> Result<Vec<Family>> {
    let mut found = Vec::new();
    for (family, table) in TABLES.into_iter().filter(|(family, _)| ours.contains(family)) {
        if open(socket, table)?.is_some() {
            found.push(family);
        }
    }
    Ok(found)
}

/// The chain `FORWARD`, where it leaves Docker's containers open and was not closed before.
fn open(socket: &mut Socket, table: Table<'_>) -> Result<Option<Base>> {
    let forward = nft::chain(socket, table, FORWARD)?.filter(|chain| !drops(chain));
    let Some(base) = forward.and_then(|chain| chain.base) else { return Ok(None) };
    let is_dockers = nft::chain_exists(socket, table, DOCKER_ISOLATION)?
        && !nft::chain_exists(socket, table, DOCKER_FORWARD)?;
    Ok((is_dockers && !nft::chain_exists(socket, table, CLOSED)?).then_some(base))
}

/// Makes the policy what dockerd would have made it. Whether it was not.
pub(super) fn close(socket: &mut Socket, table: Table<'_>) -> Result<bool> {
    let plan = |socket: &mut Socket, change: &mut Transaction| {
        if let Some(base) = open(socket, table)? {
            change.add_chain(table, CLOSED, None, false);
            set_policy(change, table, base, Policy::Drop);
        }
        Ok(())
    };
    edit(socket, table, plan)?.done()
}

/// Gives the policy back with the host's forwarding, where [`close`] set it.
pub(crate) fn reopen(socket: &mut Socket) -> Result<()> {
    for (_, table) in TABLES {
        let plan = |socket: &mut Socket, change: &mut Transaction| {
            if !nft::chain_exists(socket, table, CLOSED)? {
                return Ok(());
            }
            if let Some(base) = nft::chain(socket, table, FORWARD)?.and_then(|chain| chain.base) {
                set_policy(change, table, base, Policy::Accept);
            }
            change.delete_chain(table, CLOSED);
            Ok(())
        };
        edit(socket, table, plan)?.done()?;
    }
    Ok(())
}

/// The policy stays, and is no longer Spoke's: an administrator has the host forward.
pub(crate) fn leave(socket: &mut Socket) -> Result<()> {
    for (_, table) in TABLES {
        let plan = |socket: &mut Socket, change: &mut Transaction| {
            if nft::chain_exists(socket, table, CLOSED)? {
                change.delete_chain(table, CLOSED);
            }
            Ok(())
        };
        edit(socket, table, plan)?.done()?;
    }
    Ok(())
}

fn set_policy(change: &mut Transaction, table: Table<'_>, base: Base, policy: Policy) {
    change.add_chain(table, FORWARD, Some(&Base { policy, ..base }), false);
}
