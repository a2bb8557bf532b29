//! Addresses that names keep: the pin says for which name, and which host has it, or had it last.

use std::net::IpAddr;

use model::{AddressPin, HostName, NetworkName, OwnerName, PinState, Result};

use super::pin::{PinRequest, asked_at};
use crate::port::{Cluster, Expect, Outcome, Txn};
use crate::record::{Key, Record, Revision};
use crate::view::View;

/// So many are published in one transaction: each expects two records, and etcd takes 128 conditions.
const AT_ONCE: usize = 60;

/// An address that a name keeps on a host.
pub type KeptAddress = (NetworkName, IpAddr, OwnerName);

/// A record that was written, by its place, and in which transaction.
pub type Written = ((NetworkName, IpAddr), (AddressPin, Revision));

/// The addresses of a network that other hosts keep for a name, those that were written last first.
pub fn kept_elsewhere(
    view: &View,
    (network, name): (&NetworkName, &OwnerName),
    host: &HostName,
) -> Vec<IpAddr> {
    let of_name = view.pins.iter().filter(|((of, _), (pin, _))| {
        of == network
            && pin.name.as_ref() == Some(name)
            && pin.host != *host
            && pin.state == PinState::Granted
    });
    let mut found: Vec<_> = of_name.map(|((_, address), (_, at))| (*at, *address)).collect();
    found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    found.into_iter().map(|(_, address)| address).collect()
}

/// Tells the others which addresses names keep on a host, where `view` does not have that: those of its blocks, and those
/// that they gave to it. What was written, which others may have prevented: then it is tried again with what they wrote.
///
/// # Errors
/// As the cluster's.
pub fn publish_kept(
    cluster: &impl Cluster,
    view: &View,
    host: &HostName,
    kept: &[KeptAddress],
) -> Result<Vec<Written>> {
    let new: Vec<_> = kept.iter().filter_map(|kept| record_of(view, host, kept)).collect();
    let mut written = Vec::new();
    for some in new.chunks(AT_ONCE) {
        match publish_some(cluster, host, some)? {
            Some(at) => written.extend(noted(some, at)),
            // One of them is not as it was read: the others are written without it.
            None if some.len() > 1 => {
                for one in some.chunks(1) {
                    let at = publish_some(cluster, host, one)?;
                    written.extend(at.map(|at| noted(one, at)).into_iter().flatten());
                }
            }
            None => {}
        }
    }
    Ok(written)
}

fn noted(some: &[New], at: Revision) -> Vec<Written> {
    some.iter().map(|(key, _, pin)| (key.clone(), (pin.clone(), at))).collect()
}

/// Writes these in one transaction; `None` where one of them is not as it was read.
fn publish_some(cluster: &impl Cluster, host: &HostName, some: &[New]) -> Result<Option<Revision>> {
    let mut txn = Txn::default().require(Key::Host(host.clone()), Expect::Present);
    for (key, expect, pin) in some {
        txn.expect.extend(expect.iter().cloned());
        txn = txn.put(Key::Pin(key.0.clone(), key.1), Record::Pin(pin.clone()));
    }
    Ok(match cluster.commit(&txn)? {
        Outcome::Done(at) => Some(at),
        Outcome::Lost => None,
    })
}

/// A record that is to be written, and on which conditions.
type New = ((NetworkName, IpAddr), Vec<(Key, Expect)>, AddressPin);

fn record_of(view: &View, host: &HostName, (network, address, name): &KeptAddress) -> Option<New> {
    let place = (network.clone(), *address);
    let key = Key::Pin(network.clone(), *address);
    let (expect, pin) = match view.pins.get(&place) {
        Some((pin, at)) => {
            let is_own = pin.host == *host && pin.state == PinState::Granted;
            let is_new = is_own && pin.name.as_ref() != Some(name);
            is_new.then_some(())?;
            let (expect, again) = written_again(view, key, (pin, *at));
            (expect, AddressPin { name: Some(name.clone()), ..again })
        }
        None => {
            let (block, holder, taken) = view.taken_block(network, *address)?;
            let block = (Key::Block(network.clone(), block), Expect::At(taken));
            (holder == host).then_some(())?;
            let (address, by) = (*address, name.as_str());
            let wanted = PinRequest { network, address, host, by, name: Some(name) };
            (vec![(key, Expect::Absent), block], wanted.pin(PinState::Granted, None))
        }
    };
    Some((place, expect, pin))
}

/// A record of `at` as it is written again, and on which conditions: that it is still this one, and whose the address was then decides who loses it. A
/// host from which it was taken over is named only as long as it is not heard of: a later record of that would be one of
/// a later takeover.
pub(super) fn written_again(
    view: &View,
    key: Key,
    (pin, at): (&AddressPin, Revision),
) -> (Vec<(Key, Expect)>, AddressPin) {
    let is_lost = |host: &HostName| {
        let epoch = view.epochs.get(host);
        !view.alive.contains(host) && epoch.is_some_and(|epoch| at > *epoch)
    };
    let over = pin.over.clone().filter(is_lost);
    let alive = over.iter().map(|host| (Key::Alive(host.clone()), Expect::Absent));
    let expect = alive.chain([(key, Expect::At(at))]).collect();
    (expect, AddressPin { over, asked: Some(asked_at(pin, at).0), ..pin.clone() })
}

/// Answers a host that wants an address which a name keeps on this one: it has it, or not. `at` is the record. What was
/// written; nothing where that changed meanwhile, or that host is no member or not there. One in the block of a third host is
/// asked of that one as well.
///
/// # Errors
/// As the cluster's.
pub fn answer_kept(
    cluster: &impl Cluster,
    view: &View,
    (network, address): (&NetworkName, IpAddr),
    (pin, at): (&AddressPin, Revision),
    is_given: bool,
) -> Result<Option<(AddressPin, Revision)>> {
    let Some(wanted) = &pin.wanted else { return Ok(None) };
    let key = Key::Pin(network.clone(), address);
    let (mut expect, again) = written_again(view, key.clone(), (pin, at));
    let answer = match is_given {
        true => {
            let Some((state, more)) = passed(view, (network, address), (&pin.host, wanted)) else {
                return Ok(None);
            };
            expect.extend(more);
            expect.push((Key::Host(wanted.clone()), Expect::Present));
            expect.push((Key::Alive(wanted.clone()), Expect::Present));
            AddressPin { host: wanted.clone(), state, wanted: None, ..again }
        }
        false => AddressPin { wanted: None, ..again },
    };
    let txn = Txn { expect, ..Txn::default() };
    match cluster.commit(&txn.put(key, Record::Pin(answer.clone())))? {
        Outcome::Done(revision) => Ok(Some((answer, revision))),
        Outcome::Lost => Ok(None),
    }
}

/// As what an address goes from one host to another, and on which conditions. The host of its block keeps it for the
/// one that has it: a third one that is there answers, as it does to everybody. One that is lost keeps it until it hears
/// for whom.
fn passed(
    view: &View,
    (network, address): (&NetworkName, IpAddr),
    (from, to): (&HostName, &HostName),
) -> Option<(PinState, Vec<(Key, Expect)>)> {
    let block = view.networks.get(network)?.block_with(address)?;
    let key = Key::Block(network.clone(), block);
    let Some((holder, taken)) = view.blocks.get(&(network.clone(), block)) else {
        return Some((PinState::Granted, vec![(key, Expect::Absent)]));
    };
    let is_as_seen = (key, Expect::At(*taken));
    Some(match holder {
        holder if holder == from || holder == to => (PinState::Granted, vec![is_as_seen]),
        holder if view.alive.contains(holder) => (PinState::Asked, vec![is_as_seen]),
        holder => {
            let is_lost = (Key::Alive(holder.clone()), Expect::Absent);
            (PinState::Granted, vec![is_as_seen, is_lost])
        }
    })
}
