//! The certificates of the hosts.

use model::{Error, HostName, Kind, Result, Timestamp};

use crate::port::{Cluster, Expect, Key, Outcome, Record, ServerRecord, Txn, Write};
use crate::trust::{CertificateRecord, Serial};
use crate::view::View;

/// A host has no more certificates than this at a time: each is renewed when a third of its life is over.
const MOST: usize = 16;

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

/// Makes a certificate of a member known.
///
/// # Errors
/// `NotFound` where the host is no member any more; `Exhausted` where it has too many.
pub fn certify(cluster: &impl Cluster, view: &View, certified: Certified<'_>) -> Result<()> {
    let host = certified.host.clone();
    let known = view.certificates.keys().filter(|(of, _)| *of == host).count();
    if known >= MOST {
        return Err(Error::new(
            Kind::Exhausted,
            format!("host {host} has {known} certificates already"),
        ));
    }
    write(cluster, &host, vec![certified.write()])
}

/// Says that a host runs a server of the cluster's own etcd, or is about to.
///
/// # Errors
/// `NotFound` where the host is no member any more.
pub fn put_server(cluster: &impl Cluster, host: &HostName, voter: bool) -> Result<()> {
    let record = Record::Server(ServerRecord { voter });
    write(cluster, host, vec![Write::Put(Key::Server(host.clone()), record, None)])
}

/// Forgets the certificates that have ended.
///
/// # Errors
/// As the cluster's.
pub fn prune(cluster: &impl Cluster, view: &View, now: Timestamp) -> Result<()> {
    let ended = view.certificates.iter().filter(|(_, record)| record.expires < now);
    let mut writes: Vec<Write> = ended
        .map(|((host, serial), _)| Write::Delete(Key::Certificate(host.clone(), serial.clone())))
        .collect();
    let revoked = view.revoked.iter().filter(|(_, until)| **until < now);
    writes.extend(revoked.map(|(serial, _)| Write::Delete(Key::Revoked(serial.clone()))));
    for writes in writes.chunks(Txn::MOST) {
        cluster.commit(&Txn { expect: Vec::new(), writes: writes.to_vec() })?;
    }
    Ok(())
}

/// What is written of a host's server and certificates when it is removed.
pub(super) fn revoked(view: &View, name: &HostName) -> Vec<Write> {
    let server = view.servers.contains_key(name).then(|| Write::Delete(Key::Server(name.clone())));
    let own = view.certificates.iter().filter(|((host, _), _)| host == name);
    let revoked = own.flat_map(|((host, serial), record)| {
        let until = Record::Revoked(record.expires);
        [
            Write::Put(Key::Revoked(serial.clone()), until, None),
            Write::Delete(Key::Certificate(host.clone(), serial.clone())),
        ]
    });
    revoked.chain(server).collect()
}

fn write(cluster: &impl Cluster, host: &HostName, writes: Vec<Write>) -> Result<()> {
    let expect = vec![(Key::Host(host.clone()), Expect::Present)];
    match cluster.commit(&Txn { expect, writes })? {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost => Err(Error::not_found(format!("host {host} was removed from the cluster"))),
    }
}
