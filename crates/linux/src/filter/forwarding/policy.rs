//! The policy of `FORWARD` on a host that forwards because of Spoke.
//!
//! Up to version 27 Docker keeps strangers from what its containers do not publish by nothing but that policy, and
//! dockerd makes it DROP only where it turns forwarding on itself. Where Spoke did that before dockerd, Spoke sets the
//! policy too. It does so once: an administrator may have `FORWARD` accept again. A chain without rules remembers it.

use model::{Family, Result};
use netlink::Socket;
use netlink::nft::{self, Base, Chain, Policy, Table, Transaction};

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
        let forward = nft::chain(socket, table, FORWARD)?;
        if open(socket, table, forward.as_ref())?.is_some() {
            found.push(family);
        }
    }
    Ok(found)
}

/// How `FORWARD` is called, where it leaves Docker's containers open and was not closed before.
pub(super) fn open(
    socket: &mut Socket,
    table: Table<'_>,
    forward: Option<&Chain>,
) -> Result<Option<Base>> {
    let accepting = forward.filter(|chain| !drops(chain));
    let Some(base) = accepting.and_then(|chain| chain.base) else { return Ok(None) };
    let is_dockers = nft::chain_exists(socket, table, DOCKER_ISOLATION)?
        && !nft::chain_exists(socket, table, DOCKER_FORWARD)?;
    Ok((is_dockers && !nft::chain_exists(socket, table, CLOSED)?).then_some(base))
}

/// Makes the policy what dockerd would have made it. Whether it was not.
pub(super) fn close(socket: &mut Socket, table: Table<'_>) -> Result<bool> {
    let plan = |socket: &mut Socket, change: &mut Transaction| {
        let forward = nft::chain(socket, table, FORWARD)?;
        if let Some(base) = open(socket, table, forward.as_ref())? {
            change.add_chain(table, CLOSED, None, false);
            set_policy(change, table, base, Policy::Drop);
        }
        Ok(())
    };
    edit(socket, table, plan)?.done()
}

/// Remembers no more that [`close`] set the policy. It becomes `policy`, where forwarding ends; where an administrator has
/// the host forward by now, it stays.
pub(crate) fn forget_policy(socket: &mut Socket, policy: Option<Policy>) -> Result<()> {
    for (_, table) in TABLES {
        let plan = |socket: &mut Socket, change: &mut Transaction| {
            if !nft::chain_exists(socket, table, CLOSED)? {
                return Ok(());
            }
            let base = nft::chain(socket, table, FORWARD)?.and_then(|chain| chain.base);
            if let Some((base, policy)) = base.zip(policy) {
                set_policy(change, table, base, policy);
            }
            change.delete_chain(table, CLOSED);
            Ok(())
        };
        edit(socket, table, plan)?.done()?;
    }
    Ok(())
}

fn set_policy(change: &mut Transaction, table: Table<'_>, base: Base, policy: Policy) {
    change.add_chain(table, FORWARD, Some(&Base { policy, ..base }), false);
}
