//! What a daemon says of its own host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Error, HostName, NetworkName, Result, SharedEndpoint};

use super::RACES;
use crate::port::{Cluster, Expect, LeaseId, Outcome, Txn, Write, is_refusal};
use crate::record::{AliveRecord, Key, Record, Revision};
use crate::view::View;

/// Says that the daemon of a member is there, and what else `alive` has, as long as the lease is renewed; in which
/// transaction. The host's own record is written too: it marks since when nothing is taken over behind its back. What others wrote since `view`
/// was read comes by the watch: all that was taken over before is known when `view` has come to that transaction.
///
/// # Errors
/// `NotFound` where the host is no member any more; `TryAgain` where its record cannot be read.
pub fn be_alive(
    cluster: &impl Cluster,
    view: &mut View,
    host: &HostName,
    (lease, alive): (LeaseId, &AliveRecord),
) -> Result<Revision> {
    for _ in 0..RACES {
        let (Some(record), Some(at)) = (view.record(host), view.epochs.get(host)) else {
            return Err(view.unreadable(host).unwrap_or_else(|| removed(host)));
        };
        let key = Key::Host(host.clone());
        let writes = vec![
            Write::Put(key.clone(), Record::Host(record), None),
            Write::Put(Key::Alive(host.clone()), Record::Alive(alive.clone()), Some(lease)),
        ];
        let expect = vec![(key, Expect::At(*at))];
        match cluster.commit(&Txn { expect, writes, ..Txn::default() })? {
            Outcome::Done(revision) => {
                view.alive.insert(host.clone());
                return Ok(revision);
            }
            Outcome::Lost => *view = cluster.read()?,
        }
    }
    Err(Error::try_again(format!("others write the record of host {host} all the time")))
}

/// Makes the host's endpoints in the cluster those that it has, where they differ in `view`; how many
/// records were written.
///
/// # Errors
/// `NotFound` where the host is no member any more; where the cluster takes no writes, what is gone is deleted.
pub fn publish(
    cluster: &impl Cluster,
    view: &View,
    host: &HostName,
    wanted: &BTreeMap<(NetworkName, IpAddr), SharedEndpoint>,
) -> Result<usize> {
    let key = |network: &NetworkName, address: IpAddr| {
        Key::Endpoint(host.clone(), network.clone(), address)
    };
    let known = view.endpoints.iter().filter(|((of, _, _), _)| of == host);
    let known: BTreeMap<(NetworkName, IpAddr), &SharedEndpoint> =
        known.map(|((_, network, address), (it, _))| ((network.clone(), *address), it)).collect();
    let gone = known.keys().filter(|name| !wanted.contains_key(*name));
    let mut writes: Vec<Write> =
        gone.map(|(network, address)| Write::Delete(key(network, *address))).collect();
    let changed = wanted.iter().filter(|(name, it)| known.get(*name) != Some(it));
    writes.extend(changed.map(|((network, address), it)| {
        Write::Put(key(network, *address), Record::Endpoint(it.clone()), None)
    }));
    match commit_all(cluster, host, &writes) {
        // Where there is no room, what is deleted makes some, and is taken.
        Err(refused) if is_refusal(&refused) => {
            writes.retain(|write| matches!(write, Write::Delete(_)));
            commit_all(cluster, host, &writes)?;
            Err(refused)
        }
        done => done.map(|()| writes.len()),
    }
}

fn commit_all(cluster: &impl Cluster, host: &HostName, writes: &[Write]) -> Result<()> {
    writes.chunks(Txn::MOST).try_for_each(|writes| commit(cluster, host, writes.to_vec()).map(drop))
}

/// A host that was removed must not write any more.
fn commit(cluster: &impl Cluster, host: &HostName, writes: Vec<Write>) -> Result<Revision> {
    let expect = vec![(Key::Host(host.clone()), Expect::Present)];
    match cluster.commit(&Txn { expect, writes, ..Txn::default() })? {
        Outcome::Done(revision) => Ok(revision),
        Outcome::Lost => Err(removed(host)),
    }
}

/// That a host is none of the cluster any more.
pub(super) fn removed(host: &HostName) -> Error {
    Error::not_found(format!("host {host} was removed from the cluster"))
}
