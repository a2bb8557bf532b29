//! How the cluster changes its authority: one phase after another, each when every host has confirmed the one before.

use std::collections::BTreeSet;

use model::{Error, HostName, Result};

use super::RACES;
use crate::layout;
use crate::port::{Cluster, Expect, Outcome, Txn};
use crate::record::{Key, Record};
use crate::trust::{AuthorityRecord, Phase, Standing, Successor};
use crate::view::View;

/// Refuses to begin a change that could not come to its end.
///
/// # Errors
/// `Conflict` where one goes on, hosts still trust the authority of one that was given up, or a host is not there that is
/// not in `without`; `Unsupported` where a host runs a program that cannot do it; `NotFound` where one of `without` is no
/// member.
pub fn refuse_rotation(view: &View, without: &BTreeSet<HostName>) -> Result<()> {
    if let Some(why) = rotating(view) {
        return Err(Error::conflict(why));
    }
    refuse_left_out(view, without)?;
    let lost: BTreeSet<HostName> = members(view)
        .filter(|host| !view.alive.contains(host) && !without.contains(host))
        .collect();
    if !lost.is_empty() {
        let lost = listed(&lost);
        return Err(Error::conflict(format!(
            "host {lost} is not there, and would not get a certificate of the new authority: start its daemon, or leave it \
             out with --without; it has to join again then"
        )));
    }
    let earlier = members(view)
        .filter(|host| !view.standings.contains_key(host) && !without.contains(host))
        .collect::<BTreeSet<_>>();
    match earlier.is_empty() {
        true => refuse_unfinished(view, without),
        false => Err(Error::unsupported(format!(
            "host {} runs an earlier version of Spoke, which cannot change the authority: install this one there",
            listed(&earlier)
        ))),
    }
}

/// Refuses another change while hosts still trust the authority of one that was given up: nothing would have them cease to.
fn refuse_unfinished(view: &View, without: &BTreeSet<HostName>) -> Result<()> {
    let abandoned = |(record, _): &&(AuthorityRecord, _)| record.phase == Phase::Abandoned;
    let Some((record, _)) = view.authority.as_ref().filter(abandoned) else { return Ok(()) };
    // A record that names the authority of now is anybody's, and nothing to wait for.
    let awaits = |host: &HostName| {
        view.standings.get(host).is_some_and(|it| it.may_trust_still(record.next.digest()))
    };
    let waiting = members(view)
        .filter(|host| !without.contains(host) && awaits(host))
        .collect::<BTreeSet<_>>();
    match waiting.is_empty() {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "host {} still trusts the authority of the change that was given up; try it again once `spoke host ca ls` says \
             ready of every host",
            listed(&waiting)
        ))),
    }
}

/// Refuses to leave out who is there, or is no member.
fn refuse_left_out(view: &View, without: &BTreeSet<HostName>) -> Result<()> {
    for host in without {
        if !members(view).any(|member| member == *host) {
            return Err(Error::not_found(format!("no host {host}; `spoke host ls` lists them")));
        }
        if view.alive.contains(host) {
            return Err(Error::conflict(format!(
                "host {host} is there, and so gets a certificate of the new authority: leave it out only where it is lost"
            )));
        }
    }
    Ok(())
}

/// Begins a change. A host that joins at the same moment is seen by one of the two.
///
/// # Errors
/// As [`refuse_rotation`].
pub fn begin_rotation(cluster: &impl Cluster, record: &AuthorityRecord) -> Result<()> {
    change(cluster, |view| {
        refuse_rotation(view, &record.without)?;
        Ok(record.clone())
    })
}

/// Does not wait for these hosts any more.
///
/// # Errors
/// `Conflict` where one is there, or no change goes on; `NotFound` where one is no member.
pub fn leave_out(cluster: &impl Cluster, without: &BTreeSet<HostName>) -> Result<()> {
    change(cluster, |view| {
        refuse_left_out(view, without)?;
        let mut record = going_on(view)?.clone();
        record.without.extend(without.iter().cloned());
        Ok(record)
    })
}

/// Gives a change up before anything is signed; and in every phase one to an authority that no host can have followed: `is_ours`
/// says of it that this host trusts it, or one that has signed it.
///
/// # Errors
/// `Conflict` where none goes on, or hosts have certificates of the new authority.
pub fn abandon_rotation(
    cluster: &impl Cluster,
    is_ours: impl Fn(&Successor) -> bool,
) -> Result<()> {
    change(cluster, |view| {
        let record = going_on(view)?;
        let abandoned = || AuthorityRecord { phase: Phase::Abandoned, ..record.clone() };
        let has_next = |it: &Standing| it.issuer.as_deref() == Some(record.next.digest());
        match record.phase {
            // In an older state of etcd the phase is one before.
            Phase::Trust if !view.standings.values().any(has_next) => Ok(abandoned()),
            _ if !is_ours(&record.next) => Ok(abandoned()),
            phase => Err(Error::conflict(format!(
                "hosts have certificates of the new authority already (phase {}): it has to go on; `spoke host ca ls` \
                 says what is in the way",
                phase.as_str()
            ))),
        }
    })
}

/// Goes on to the next phase where every host has confirmed this one.
///
/// # Errors
/// As the cluster's.
pub fn advance_rotation(cluster: &impl Cluster, view: &View) -> Result<()> {
    let Some((record, _)) = &view.authority else { return Ok(()) };
    let next = match record.phase {
        Phase::Trust => Phase::Sign,
        Phase::Sign => Phase::Drop,
        Phase::Drop => Phase::Done,
        Phase::Done | Phase::Abandoned => return Ok(()),
    };
    if !unconfirmed(view).is_empty() {
        return Ok(());
    }
    let record = AuthorityRecord { phase: next, ..record.clone() };
    // Another host may have done it: what it wrote is heard.
    cluster.commit(&written(view, record)).map(drop)
}

/// The hosts that a change waits for.
pub fn unconfirmed(view: &View) -> BTreeSet<HostName> {
    let Some((record, _)) = &view.authority else { return BTreeSet::new() };
    let confirms = |host: &HostName| {
        view.alive.contains(host)
            && view
                .standings
                .get(host)
                .is_some_and(|it| it.confirms(record.phase, record.next.digest()))
    };
    members(view).filter(|host| !record.without.contains(host) && !confirms(host)).collect()
}

/// Whether every host that is there says that it does not trust an authority: then none of them has a certificate of it, or
/// gets one of a change that was given up.
pub fn is_trusted_by_none(view: &View, digest: &str) -> bool {
    let standing = |host: &HostName| view.standings.get(host);
    let distrusts = |it: &Standing| it.confirms(Phase::Abandoned, digest);
    members(view)
        .filter(|host| view.alive.contains(host))
        .all(|host| standing(&host).is_some_and(distrusts))
}

/// Whether what the cluster holds of a change cannot be read, so that one may go on.
fn is_unknown(view: &View) -> bool {
    view.damaged.contains_key(&layout::path(&Key::Authority))
}

/// Whether a host with the authority's key may still need that of the next one, where `own` is the digest of that by which
/// it signs.
pub fn needs_next(view: &View, own: &str) -> bool {
    match &view.authority {
        Some((record, _)) if record.phase == Phase::Done => record.next.digest() != own,
        Some((record, _)) => record.phase.is_going_on(),
        None => is_unknown(view),
    }
}

/// What is to be said while a change goes on.
pub fn rotating(view: &View) -> Option<String> {
    let (record, _) = view.authority.as_ref().filter(|(record, _)| record.phase.is_going_on())?;
    let waiting = unconfirmed(view);
    let waits = match waiting.is_empty() {
        true => String::new(),
        false => format!(", and waits for host {}", listed(&waiting)),
    };
    let phase = record.phase.as_str();
    Some(format!(
        "the cluster changes its authority (phase {phase}){waits}; `spoke host ca ls` says how far it is"
    ))
}

/// Refuses what needs to know by which authority certificates are signed, before that is certain.
///
/// # Errors
/// `Conflict` while a change goes on.
pub fn refuse_while_rotating(view: &View) -> Result<()> {
    let is_before = |(record, _): &&(AuthorityRecord, _)| record.phase < Phase::Drop;
    match view.authority.as_ref().filter(is_before).and_then(|_| rotating(view)) {
        Some(why) => Err(Error::conflict(format!("{why}; try it again when that is over"))),
        None => Ok(()),
    }
}

fn going_on(view: &View) -> Result<&AuthorityRecord> {
    let known = view.authority.as_ref().map(|(record, _)| record);
    known
        .filter(|record| record.phase.is_going_on())
        .ok_or_else(|| Error::conflict("the cluster does not change its authority now"))
}

/// All hosts, also those whose records cannot be read.
fn members(view: &View) -> impl Iterator<Item = HostName> + '_ {
    view.hosts.keys().cloned().chain(view.damaged_hosts())
}

fn listed(hosts: &BTreeSet<HostName>) -> String {
    hosts.iter().map(HostName::as_str).collect::<Vec<_>>().join(", ")
}

fn change(cluster: &impl Cluster, wanted: impl Fn(&View) -> Result<AuthorityRecord>) -> Result<()> {
    for _ in 0..RACES {
        let view = cluster.read()?;
        let record = wanted(&view)?;
        if let Outcome::Done(_) = cluster.commit(&written(&view, record))? {
            return Ok(());
        }
    }
    Err(Error::try_again("others join, or declare networks of the cluster, all the time"))
}

/// Hosts that join take the turn too, so that none is overlooked. What cannot be read is replaced.
fn written(view: &View, record: AuthorityRecord) -> Txn {
    let at = match &view.authority {
        Some((_, at)) => Expect::At(*at),
        None if is_unknown(view) => Expect::Present,
        None => Expect::Absent,
    };
    Txn::default()
        .require(Key::Authority, at)
        .require(Key::Turn, view.turn.map_or(Expect::Absent, Expect::At))
        .put(Key::Turn, Record::Mark)
        .put(Key::Authority, Record::Authority(record))
}
