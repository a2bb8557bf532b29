//! The certificates of the hosts.

use std::collections::BTreeSet;

use model::{ClusterHost, Error, HostName, Result, Timestamp};

use super::publish::removed;
use crate::layout;
use crate::port::{Cluster, Expect, Outcome, Txn, Write};
use crate::record::{Key, Record, ServerRecord, TokenId};
use crate::trust::{CertificateRecord, Serial};
use crate::view::View;

/// A host has no more certificates than this at a time: each is renewed when a third of its life is over, and forgotten
/// one life after its end. One with a server has two, and had others before it had that.
const MOST: usize = 32;

/// A certificate, and whose it is.
#[derive(Clone, Debug)]
pub struct Certified<'a> {
    /// The host.
    pub host: &'a HostName,
    /// Its number.
    pub serial: &'a Serial,
    /// What is known of it.
    pub record: CertificateRecord,
}

impl Certified<'_> {
    /// As a part of a transaction.
    pub fn write(self) -> Write {
        let key = Key::Certificate(self.host.clone(), self.serial.clone());
        Write::Put(key, Record::Certificate(self.record), None)
    }
}

/// Makes a certificate of a member known. Where the host has too many, its oldest ones are worth nothing from then
/// on, but for the one with the digest `shown`: a host that cannot keep its certificates has only that one. Where one is
/// shown, it has to be known still when the new one is written: the view may be of before the host was removed.
///
/// # Errors
/// `NotFound` where the host is no member any more, or what it shows is worth nothing.
pub fn certify(
    cluster: &impl Cluster,
    view: &View,
    certified: Certified<'_>,
    shown: Option<&str>,
) -> Result<()> {
    let host = certified.host.clone();
    let (known, writes) = replacing(view, certified, shown)?;
    write(cluster, (&host, known), writes)
}

/// Makes a certificate known of a host that shows a token again by which it has joined, where `joined` is the cluster as it
/// was seen then: neither the host nor the token may have changed since. Another one may have its name by now.
///
/// # Errors
/// `TryAgain` where one of them has.
pub fn certify_again(
    cluster: &impl Cluster,
    joined: &View,
    certified: Certified<'_>,
    token: &TokenId,
) -> Result<()> {
    let host = certified.host.clone();
    let changed = || Error::try_again(format!("the record of host {host} changed; join it again"));
    let (_, writes) = replacing(joined, certified, None)?;
    let (Some(at), Some((_, token_at))) = (joined.epochs.get(&host), joined.tokens.get(token))
    else {
        return Err(changed());
    };
    let txn = Txn { writes, ..Txn::default() }
        .require(Key::Host(host.clone()), Expect::At(*at))
        .require(Key::Token(token.clone()), Expect::At(*token_at));
    match cluster.commit(&txn)? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(changed()),
    }
}

/// A certificate and what goes for it; and which one is shown.
fn replacing(
    view: &View,
    certified: Certified<'_>,
    shown: Option<&str>,
) -> Result<(Option<Key>, Vec<Write>)> {
    let host = certified.host.clone();
    let own = view.certificates.iter().filter(|((of, _), _)| *of == host);
    let is_shown = |(_, record): &(_, &CertificateRecord)| Some(&*record.digest) == shown;
    let (known, mut others): (Vec<_>, Vec<_>) = own.partition(is_shown);
    if shown.is_some() && known.is_empty() {
        return Err(removed(&host));
    }
    let too_many = (known.len() + others.len() + 1).saturating_sub(MOST);
    others.sort_by_key(|(_, record)| record.expires);
    let oldest = others.into_iter().take(too_many.min(Txn::MOST / 3)).flat_map(revocation);
    let writes = oldest.chain([certified.write()]).collect();
    let known =
        known.first().map(|((_, serial), _)| Key::Certificate(host.clone(), serial.clone()));
    Ok((known, writes))
}

/// What makes a certificate worth nothing.
fn revocation(((host, serial), record): (&(HostName, Serial), &CertificateRecord)) -> [Write; 2] {
    [
        Write::Put(Key::Revoked(serial.clone()), Record::Revoked(record.expires), None),
        Write::Delete(Key::Certificate(host.clone(), serial.clone())),
    ]
}

/// Says that a host runs a server of the cluster's own etcd, or is about to.
///
/// # Errors
/// `NotFound` where the host is no member any more.
pub fn put_server(cluster: &impl Cluster, host: &HostName, voter: bool) -> Result<()> {
    let record = Record::Server(ServerRecord { voter });
    write(cluster, (host, None), vec![Write::Put(Key::Server(host.clone()), record, None)])
}

/// Whether a certificate that ended then is forgotten: one more `life`, in seconds, has gone since. A host whose clock
/// is ahead would otherwise forget those that are worth something.
pub fn is_past(until: Timestamp, now: Timestamp, life: u32) -> bool {
    until.0.saturating_add(life.into()) < now.0
}

/// Forgets the certificates that have ended, one `life` after their end.
///
/// # Errors
/// As the cluster's.
pub fn prune(cluster: &impl Cluster, view: &View, now: Timestamp, life: u32) -> Result<()> {
    let all = view.certificates.iter();
    let ended = all.filter(|(_, record)| is_past(record.expires, now, life));
    let mut writes: Vec<Write> = ended
        .map(|((host, serial), _)| Write::Delete(Key::Certificate(host.clone(), serial.clone())))
        .collect();
    let revoked = view.revoked.iter().filter(|(_, until)| is_past(**until, now, life));
    writes.extend(revoked.map(|(serial, _)| Write::Delete(Key::Revoked(serial.clone()))));
    for writes in writes.chunks(Txn::MOST) {
        cluster.commit(&Txn { expect: Vec::new(), writes: writes.to_vec(), ..Txn::default() })?;
    }
    Ok(())
}

/// Makes the certificates of hosts that are no members worth nothing: one may have been signed while its host
/// was being removed.
///
/// # Errors
/// As the cluster's.
pub fn revoke_strays(cluster: &impl Cluster, view: &View) -> Result<()> {
    let hosts: BTreeSet<&HostName> = view.certificates.keys().map(|(host, _)| host).collect();
    for host in hosts.into_iter().filter(|host| !view.hosts.contains_key(*host)) {
        for writes in revoked(view, host).chunks(Txn::MOST) {
            // It may be joining again.
            let expect = vec![(Key::Host(host.clone()), Expect::Absent)];
            cluster.commit(&Txn { expect, writes: writes.to_vec(), ..Txn::default() })?;
        }
    }
    Ok(())
}

/// Forgets the servers of hosts that are no members, or not there, where etcd has no server at their address. Where the
/// record of a host cannot be read its address is not known, and its server stays.
///
/// # Errors
/// As the cluster's.
pub fn forget_servers(
    cluster: &impl Cluster,
    view: &View,
    is_server: impl Fn(&ClusterHost) -> bool,
) -> Result<()> {
    let is_silent = |name: &&HostName| !view.alive.contains(*name) && !view.is_damaged(name);
    for name in view.servers.keys().filter(is_silent) {
        if !view.hosts.get(name).is_some_and(&is_server) {
            forget_server(cluster, name)?;
        }
    }
    Ok(())
}

/// Forgets that a host runs a server.
///
/// # Errors
/// As the cluster's.
pub fn forget_server(cluster: &impl Cluster, host: &HostName) -> Result<()> {
    cluster.commit(&Txn::default().delete(Key::Server(host.clone()))).map(drop)
}

/// What is written of a host's server and certificates when it is removed, also where their records cannot be read: the
/// keys say what they are.
pub(super) fn revoked(view: &View, name: &HostName) -> Vec<Write> {
    let damaged: Vec<Key> = view.damaged.keys().filter_map(|path| layout::key(path).ok()).collect();
    let server = Key::Server(name.clone());
    let has_server = view.servers.contains_key(name) || damaged.contains(&server);
    let server = has_server.then_some(Write::Delete(server));
    let own = view.certificates.iter().filter(|((host, _), _)| host == name);
    let end = unknown_end(view);
    let damaged = damaged.into_iter().filter_map(|key| match key {
        Key::Certificate(host, serial) if host == *name => {
            let record = CertificateRecord { digest: String::new(), expires: end };
            Some(revocation((&(host, serial), &record)))
        }
        _ => None,
    });
    own.flat_map(revocation).chain(damaged.flatten()).chain(server).collect()
}

/// When a certificate ends whose record cannot be read: not before all others do.
fn unknown_end(view: &View) -> Timestamp {
    let ends = view.certificates.values().map(|record| record.expires);
    ends.max().unwrap_or(Timestamp(u32::MAX.into()))
}

/// Writes what is known of a member, while that and `shown` are there.
fn write(
    cluster: &impl Cluster,
    (host, shown): (&HostName, Option<Key>),
    writes: Vec<Write>,
) -> Result<()> {
    let there = [Key::Host(host.clone())].into_iter().chain(shown);
    let expect = there.map(|key| (key, Expect::Present)).collect();
    match cluster.commit(&Txn { expect, writes, ..Txn::default() })? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(removed(host)),
    }
}
