//! Which addresses the containers of this host have, and which are leased, as the store says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ::names::Entry;
use engine::port::{Key, Prefix, Record};
use model::{
    Attachment, Holder, InterfaceNamespace, Layer, Mac, NetworkName, OwnerName, Phase, Result,
    Runtime, SharedName, Space,
};
use store::Changed;

use crate::Daemon;
use crate::hosts::{Attached, Hosts};

/// How long the store's watch waits before it looks whether the daemon stops.
const GLANCE: Duration = Duration::from_millis(500);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a host of no cluster waits before it looks whether the daemon stops.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps [`crate::hosts::State::attached`] until the daemon stops, while this host is a member of a cluster.
pub(in crate::hosts) fn follow(daemon: &Daemon, hosts: &Hosts) {
    while !daemon.sleep(Duration::ZERO) {
        if !hosts.wait(IDLE, |state| state.member.is_some()) {
            continue;
        }
        if let Err(error) = follow_until_lost(daemon, hosts) {
            daemon.journal.failed("watching the store for the other hosts", &error);
            if daemon.sleep(PAUSE) {
                return;
            }
        }
    }
}

fn follow_until_lost(daemon: &Daemon, hosts: &Hosts) -> Result<()> {
    let store = host::host_context::open_store(daemon.context_pool.config())?;
    let mut watch = store.watch(&[Prefix::Attachments, Prefix::AllLeases])?;
    let (mut known, mut leases) = (AttachedLinks::new(), BTreeMap::new());
    // The first time it is all that there is, and that may be nothing.
    let mut changes = watch.wait(Duration::ZERO)?;
    let mut is_published = false;
    while !daemon.sleep(Duration::ZERO) && hosts.lock().member.is_some() {
        if !changes.is_empty() || !is_published {
            for change in changes {
                match change.key {
                    Key::Lease(..) => lease(&mut leases, change),
                    _ => learn(&mut known, change),
                }
            }
            let attached = attached(&known, leases.values().cloned().collect());
            hosts.set(|state| state.attached = Some(attached));
            hosts.nudge();
            is_published = true;
        }
        changes = watch.wait(GLANCE)?;
    }
    hosts.set(|state| state.attached = None);
    Ok(())
}

/// What an attachment has, and what its container is called.
struct Link {
    addresses: Vec<(NetworkName, IpAddr, Mac)>,
    names: Vec<SharedName>,
    runtime: Runtime,
    /// What its engine calls a container of Docker's.
    called: Option<OwnerName>,
}

type AttachedLinks = BTreeMap<Key, Link>;

fn attached(known: &AttachedLinks, leases: BTreeSet<(NetworkName, IpAddr)>) -> Attached {
    let mut attached = Attached { leases, ..Attached::default() };
    for Link { addresses, names, runtime, called } in known.values() {
        for (network, address, mac) in addresses {
            let place = (network.clone(), *address);
            if !names.is_empty() {
                attached.names.insert(place.clone(), (names.clone(), *runtime));
            }
            if let Some(called) = called {
                attached.called.insert(place.clone(), called.clone());
            }
            attached.macs.insert(place, *mac);
        }
    }
    attached
}

fn lease(leases: &mut BTreeMap<Key, (NetworkName, IpAddr)>, change: Changed) {
    let held = match change.now.map(|now| now.record) {
        Some(Record::Lease(holder)) => held(&holder),
        Some(_) | None => None,
    };
    match held {
        Some(held) => drop(leases.insert(change.key, held)),
        None => drop(leases.remove(&change.key)),
    }
}

fn held(holder: &Holder) -> Option<(NetworkName, IpAddr)> {
    let pool = holder.lease.pool.as_ref().filter(|_| holder.lease.space == Space::Host)?;
    Some((pool.network.clone(), holder.lease.address.addr()))
}

fn learn(known: &mut AttachedLinks, change: Changed) {
    let Some(Record::Attachment(attachment)) = change.now.map(|now| now.record) else {
        return drop(known.remove(&change.key));
    };
    let addresses = addresses_of(&attachment);
    match addresses.is_empty() {
        true => drop(known.remove(&change.key)),
        false => {
            let (names, runtime) = (Entry::names_of(&attachment), attachment.runtime);
            let called = attachment.owner.filter(|_| runtime == Runtime::Docker);
            known.insert(change.key, Link { addresses, names, runtime, called });
        }
    }
}

/// The addresses of a container's interface that is there.
fn addresses_of(attachment: &Attachment) -> Vec<(NetworkName, IpAddr, Mac)> {
    let Phase::Attached(attached) = &attachment.phase else { return Vec::new() };
    if attachment.layer != Layer::Link {
        return Vec::new();
    }
    let inside =
        attached.interfaces.iter().find(|interface| interface.place == InterfaceNamespace::Sandbox);
    let last = inside.or(attached.interfaces.last());
    let addresses = attached.addresses.iter().filter_map(|held| {
        let named = held.interface.and_then(|at| attached.interfaces.get(at));
        let mac = named.or(last)?.mac?;
        Some((attachment.id.network.clone(), held.address.addr(), mac))
    });
    addresses.collect()
}
