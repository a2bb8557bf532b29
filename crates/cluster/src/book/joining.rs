//! Tokens, and how hosts become members by them.

use model::{ClusterHost, Error, HostName, Result, Timestamp};

use super::RACES;
use super::authority::refuse_while_rotating;
use super::layout::refuse_other_layout;
use super::member::refuse_taken;
use super::unanswered::Unanswered;
use crate::port::{Cluster, Expect, LeaseId, Outcome, Txn, Write};
use crate::record::{Key, Record, TokenId, TokenRecord, TokenUse};
use crate::token::{JoinToken, Secret};
use crate::view::View;

/// A token that a host shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Which one.
    pub id: &'a TokenId,
    /// Its secret.
    pub secret: &'a Secret,
    /// By what the host is known where it shows the token again: an answer can be lost behind the use.
    pub by: &'a str,
}

/// A host that has joined.
#[derive(Debug)]
pub struct Joined {
    /// The cluster as it was before.
    pub view: View,
    /// Whether it had joined before, by the same token.
    pub is_again: bool,
}

/// Makes `name` a member by a token. From then on that is worth something to this very host only, which may ask again
/// until it is heard of: it may not know that it is a member.
///
/// # Errors
/// `Denied` where the token is unknown, used or expired; `Conflict` as [`form`](super::form).
pub fn join(
    cluster: &impl Cluster,
    token: &JoinToken,
    name: &HostName,
    host: &ClusterHost,
) -> Result<()> {
    let by = format!("{name} {}", host.address);
    let shown = Shown { id: &token.id, secret: &token.secret, by: &by };
    join_with(cluster, shown, (name, host), Vec::new()).map(drop)
}

/// The same, and writes what else is to be known of the host, unless it had joined before.
///
/// # Errors
/// As [`join`].
pub fn join_with(
    cluster: &impl Cluster,
    shown: Shown<'_>,
    (name, host): (&HostName, &ClusterHost),
    more: Vec<Write>,
) -> Result<Joined> {
    let (mut lease, mut unanswered) = (None, Unanswered::default());
    for _ in 0..RACES {
        let view = cluster.read()?;
        refuse_other_layout(&view)?;
        // Its certificate would be of an authority that is trusted no more in a moment.
        refuse_while_rotating(&view)?;
        let known = view.tokens.get(shown.id);
        refuse_token(shown, known.map(|(known, _)| known), host.since)?;
        let Some((known, at)) = known else { return Err(refused(USED)) };
        if let Some(used) = &known.used {
            refuse_another(&view, used, (name, host))?;
            return Ok(Joined { view, is_again: true });
        }
        refuse_taken(&view, name, host)?;
        // The record goes with its end, as before.
        let lease = match lease {
            Some(lease) => lease,
            None => *lease.insert(cluster.grant(rest(known, host.since))?),
        };
        let mut txn = Txn::new_member(&view, name, host);
        txn.expect.push((Key::Token(shown.id.clone()), Expect::At(*at)));
        txn.writes.push(used(shown, known, (name, host, lease)));
        txn.writes.extend(more.iter().cloned());
        if let Outcome::Done(_) = unanswered.heed(cluster.commit(&txn))? {
            return Ok(Joined { view, is_again: false });
        }
    }
    Err(Error::try_again("others join, or declare networks of the cluster, all the time"))
}

/// How long a token is kept, in seconds.
fn rest(known: &TokenRecord, now: Timestamp) -> u32 {
    let rest = known.expires.0.saturating_sub(now.0).max(1);
    u32::try_from(rest).unwrap_or(u32::MAX)
}

fn used(
    shown: Shown<'_>,
    known: &TokenRecord,
    (name, host, lease): (&HostName, &ClusterHost, LeaseId),
) -> Write {
    let used = TokenUse { host: name.clone(), since: host.since };
    let digest = shown.secret.digest_of(shown.by);
    let record = TokenRecord { digest, expires: known.expires, used: Some(used) };
    Write::Put(Key::Token(shown.id.clone()), Record::Token(record), Some(lease))
}

const USED: &str = "was used, was removed or has expired";

/// Refuses a token that is not the one that is known.
///
/// # Errors
/// `Denied`.
pub fn refuse_token(shown: Shown<'_>, known: Option<&TokenRecord>, now: Timestamp) -> Result<()> {
    let Some(known) = known else { return Err(refused(USED)) };
    let is_shown = match known.used {
        Some(_) => known.digest == shown.secret.digest_of(shown.by),
        None => known.digest == shown.secret.digest(),
    };
    match is_shown {
        false if known.used.is_some() => Err(refused(USED)),
        false => Err(refused("is none of this cluster's")),
        true if known.expires < now => Err(refused("has expired")),
        true => Ok(()),
    }
}

/// Refuses a host that is not the one that joined by the token, or that is there and so has its answer.
fn refuse_another(
    view: &View,
    used: &TokenUse,
    (name, host): (&HostName, &ClusterHost),
) -> Result<()> {
    let known = view.hosts.get(name).filter(|known| known.since == used.since);
    let is_same = used.host == *name && known.is_some_and(|known| known.address == host.address);
    match is_same && !view.alive.contains(name) {
        true => Ok(()),
        false => Err(refused(USED)),
    }
}

fn refused(why: &str) -> Error {
    Error::new(
        model::Kind::Denied,
        format!("this token {why}; `spoke host token create` on a host of the cluster makes one"),
    )
}

/// Makes a token known that is worth something for `seconds` from `now` on.
///
/// # Errors
/// As the cluster's.
pub fn create_token(
    cluster: &impl Cluster,
    token: &JoinToken,
    now: Timestamp,
    seconds: u32,
) -> Result<()> {
    let expires = Timestamp(now.0.saturating_add(seconds.into()));
    let lease = cluster.grant(seconds)?;
    let record = TokenRecord { digest: token.secret.digest(), expires, used: None };
    let key = Key::Token(token.id.clone());
    let put = Write::Put(key.clone(), Record::Token(record), Some(lease));
    let txn = Txn { expect: vec![(key, Expect::Absent)], writes: vec![put], ..Txn::default() };
    match cluster.commit(&txn)? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(Error::bug("two tokens of one name")),
    }
}

/// Makes a token worth nothing.
///
/// # Errors
/// `NotFound` where there is none.
pub fn remove_token(cluster: &impl Cluster, id: &TokenId) -> Result<()> {
    let key = Key::Token(id.clone());
    match cluster.commit(&Txn::default().require(key.clone(), Expect::Present).delete(key))? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(Error::not_found(format!(
            "no token {}; `spoke host token ls` lists them",
            id.as_str()
        ))),
    }
}
