//! The keys of hosts' tunnels.
//!
//! All hosts change their keys together, in turns: while a turn is new each host has its old key and its new one,
//! and so no packet waits for a key.

use model::{Error, HostName, PublicKey, Result};

use crate::port::{Cluster, Expect, Outcome, Txn};
use crate::record::{Key, Record};
use crate::view::View;

/// Says with which key a host is reached in a turn.
///
/// # Errors
/// `NotFound` where the host is no member any more.
pub fn publish_key(
    cluster: &impl Cluster,
    (host, turn): (&HostName, u32),
    key: PublicKey,
) -> Result<()> {
    let txn = Txn::default().put(Key::Tunnel(host.clone(), turn), Record::Tunnel(key));
    commit(cluster, host, txn)
}

/// Forgets the key of a turn.
///
/// # Errors
/// As [`publish_key`].
pub fn forget_key(cluster: &impl Cluster, host: &HostName, turn: u32) -> Result<()> {
    commit(cluster, host, Txn::default().delete(Key::Tunnel(host.clone(), turn)))
}

fn commit(cluster: &impl Cluster, host: &HostName, txn: Txn) -> Result<()> {
    match cluster.commit(&txn.require(Key::Host(host.clone()), Expect::Present))? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(Error::not_found(format!("host {host} was removed from the cluster"))),
    }
}

/// Has all hosts change their keys.
///
/// # Errors
/// `TryAgain` while a host still has a key of the turn before, or another one asks for it at this moment.
pub fn rotate_keys(cluster: &impl Cluster) -> Result<()> {
    let view = cluster.read()?;
    let (turn, at) = view.key_turn;
    if let Some(late) = late(&view) {
        return Err(Error::try_again(format!(
            "host {late} has not finished the last change of keys; if it is lost for good, remove it with \
             `spoke host remove {late}`"
        )));
    }
    let next = turn.checked_add(1).ok_or_else(|| Error::exhausted("no turn of keys is left"))?;
    let txn = Txn::default()
        .require(Key::KeyTurn, at.map_or(Expect::Absent, Expect::At))
        .put(Key::KeyTurn, Record::KeyTurn(next));
    match cluster.commit(&txn)? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => {
            Err(Error::try_again("another host has asked for new keys at this moment"))
        }
    }
}

/// A member that has a key of an earlier turn.
fn late(view: &View) -> Option<&HostName> {
    let (turn, _) = view.key_turn;
    let mut members = view.tunnels.keys().filter(|(host, _)| view.hosts.contains_key(host));
    members.find(|(_, of)| *of < turn).map(|(host, _)| host)
}
