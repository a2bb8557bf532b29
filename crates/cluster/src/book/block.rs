//! The blocks of a network's addresses: each host gives addresses of its own.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Error, HostName, IpNet, NetworkName, Result, SharedNetwork};

use super::RACES;
use crate::port::{Cluster, Expect, Outcome, Txn};
use crate::record::{Key, Record, Revision};
use crate::view::View;

/// One more block of the network for the host, and in which transaction it was taken: `own`, from which the host gives
/// addresses already, where that is free in `view`, or the first that no host has. Where others take that at the same
/// moment, as all hosts do of a new network, the next try is one that the host's name chooses.
///
/// # Errors
/// `Exhausted` where every block is some host's.
pub fn claim_block(
    cluster: &impl Cluster,
    view: &View,
    name: &NetworkName,
    host: &HostName,
    own: Option<IpNet>,
) -> Result<(IpNet, Revision)> {
    let mut newer: Option<View> = None;
    for race in 0..RACES {
        let view = newer.as_ref().unwrap_or(view);
        let network = view.networks.get(name);
        let network = network
            .ok_or_else(|| Error::not_found(format!("the cluster has no network {name}")))?;
        let is_free =
            |net: &IpNet| network.is_block(net) && !view.blocks.contains_key(&(name.clone(), *net));
        let block = match own.filter(is_free) {
            Some(own) => own,
            None => free_block(view, (name, network), (host, race))?,
        };
        let key = Key::Block(name.clone(), block);
        let txn = Txn::default()
            .require(Key::Host(host.clone()), Expect::Present)
            .require(Key::Network(name.clone()), Expect::Present)
            .require(key.clone(), Expect::Absent)
            .put(key, Record::Block(host.clone()));
        if let Outcome::Done(revision) = cluster.commit(&txn)? {
            return Ok((block, revision));
        }
        newer = Some(cluster.read()?);
    }
    Err(Error::try_again(format!("others take the blocks of network {name} all the time")))
}

/// The first block that no host has, or another one after a race. One with addresses that hosts have, or that were pinned, comes last:
/// its host may not have claimed it again.
fn free_block(
    view: &View,
    (name, network): (&NetworkName, &SharedNetwork),
    (host, race): (&HostName, usize),
) -> Result<IpNet> {
    let taken: BTreeSet<IpNet> =
        view.blocks.keys().filter(|(of, _)| of == name).map(|(_, net)| *net).collect();
    let endpoints = view.endpoints.keys().filter(|(_, of, _)| of == name);
    let pins = view.pins.keys().filter(|(of, _)| of == name).map(|(_, address)| *address);
    let used: BTreeSet<IpNet> = endpoints
        .map(|(_, _, address)| *address)
        .chain(pins)
        .filter_map(|address| network.block_with(address))
        .collect();
    let blocks = network.subnet.subnets(network.block);
    let blocks = blocks.map_err(|cause| Error::bug("blocks of a subnet").because(cause))?;
    let free = blocks.into_iter().filter(|net| !taken.contains(net));
    let (used, unused): (Vec<_>, Vec<_>) = free.partition(|net| used.contains(net));
    let free = if unused.is_empty() { used } else { unused };
    chosen(&free, (host, race)).ok_or_else(|| {
        Error::exhausted(format!(
            "every block of network {name} ({} in blocks of a /{}) is some host's; `spoke host ls` \
             lists hosts that may be removed",
            network.subnet, network.block
        ))
    })
}

/// The first one; after a race the one that the host's name chooses.
fn chosen(free: &[IpNet], (host, race): (&HostName, usize)) -> Option<IpNet> {
    if race == 0 {
        return free.iter().min().copied();
    }
    let mut hasher = DefaultHasher::new();
    (host.as_str(), race).hash(&mut hasher);
    let at = hasher.finish().checked_rem(u64::try_from(free.len()).ok()?)?;
    free.get(usize::try_from(at).ok()?).copied()
}

/// Gives a block of the host back, if it has it.
///
/// # Errors
/// As the cluster's.
pub fn give_up_block(
    cluster: &impl Cluster,
    name: &NetworkName,
    host: &HostName,
    block: IpNet,
) -> Result<()> {
    let view = cluster.read()?;
    let Some((holder, at)) = view.blocks.get(&(name.clone(), block)) else { return Ok(()) };
    if holder != host {
        return Ok(());
    }
    let key = Key::Block(name.clone(), block);
    // Where it changed meanwhile, it is not this host's any more.
    cluster.commit(&Txn::default().require(key.clone(), Expect::At(*at)).delete(key)).map(|_| ())
}

/// Writes again that the host has a block, as it is in `view`: that it gives it back may be written without an answer, and
/// reach the cluster later, and then finds another record. In which transaction; none where another one has it by now.
///
/// # Errors
/// As the cluster's.
pub fn keep_block(
    cluster: &impl Cluster,
    view: &View,
    name: &NetworkName,
    host: &HostName,
    block: IpNet,
) -> Result<Option<Revision>> {
    let known = view.blocks.get(&(name.clone(), block)).filter(|(holder, _)| holder == host);
    let Some((_, at)) = known else { return Ok(None) };
    let key = Key::Block(name.clone(), block);
    let txn = Txn::default().require(key.clone(), Expect::At(*at));
    Ok(match cluster.commit(&txn.put(key, Record::Block(host.clone())))? {
        Outcome::Done(at) => Some(at),
        Outcome::Lost => None,
    })
}
