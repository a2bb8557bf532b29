//! The part of a runtime's requests that is in no answer of Neutron's: the pool of which a network
//! will be made, and the pool's settings before there is a subnet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Error, IpNet, ResourceId, Result};

use crate::api::SubnetResource;

/// As many pools as are remembered.
const MOST: usize = 4096;

/// So long a network is waited for that is being made with the same subnet.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A network that has not been made by then never will be.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Where a pool's addresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolSubnet {
    pub(crate) subnet: SubnetResource,
    /// The subnets of the runtime's network, of either family.
    pub(crate) siblings: BTreeSet<ResourceId>,
}

/// The settings of a pool without a network.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) net: IpNet,
    /// The part of it from which any address is chosen.
    pub(crate) part: Option<IpNet>,
    /// Addresses that are never allocated.
    pub(crate) auxiliary: BTreeSet<IpAddr>,
    /// The operator's pool that the subnet is to be taken from.
    pub(crate) source: Option<ResourceId>,
    /// A subnet that exists already.
    pub(crate) subnet: Option<ResourceId>,
    pub(crate) since: Instant,
}

impl Note {
    /// Of a pool with these addresses.
    pub(crate) fn new(net: IpNet) -> Self {
        let (part, source, subnet) = (None, None, None);
        Self { net, part, auxiliary: BTreeSet::new(), source, subnet, since: Instant::now() }
    }
}

/// The memory of this process.
#[derive(Debug, Default)]
pub(crate) struct PoolMemory {
    places: Mutex<BTreeMap<ResourceId, (Instant, Arc<PoolSubnet>)>>,
    notes: Mutex<BTreeMap<ResourceId, Note>>,
    /// Subnets that Neutron refused to take from an operator's pool.
    refused: Mutex<BTreeSet<(ResourceId, IpNet)>>,
    /// The pool of which a network with this subnet is being made.
    turns: Mutex<BTreeMap<IpNet, (ResourceId, Instant)>>,
    ended: Condvar,
}

impl PoolMemory {
    /// Where the pool's addresses are, if that is known.
    pub(crate) fn place(&self, pool: &ResourceId) -> Option<Arc<PoolSubnet>> {
        lock(&self.places).get(pool).map(|(_, place)| Arc::clone(place))
    }

    /// Remembers where the pool's addresses are.
    pub(crate) fn put(&self, pool: ResourceId, place: PoolSubnet) -> Arc<PoolSubnet> {
        let place = Arc::new(place);
        let mut places = lock(&self.places);
        if places.len() >= MOST {
            let oldest = places.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(oldest) = oldest.map(|(pool, _)| pool.clone()) {
                places.remove(&oldest);
            }
        }
        places.insert(pool, (Instant::now(), Arc::clone(&place)));
        place
    }

    /// Drops where the pool's addresses were.
    pub(crate) fn misplace(&self, pool: &ResourceId) {
        lock(&self.places).remove(pool);
    }

    /// Keeps the settings of a pool.
    pub(crate) fn note(&self, pool: ResourceId, note: Note) {
        let mut notes = lock(&self.notes);
        if notes.len() >= MOST {
            let oldest = notes.iter().min_by_key(|(_, note)| note.since);
            if let Some(oldest) = oldest.map(|(pool, _)| pool.clone()) {
                notes.remove(&oldest);
            }
        }
        notes.insert(pool, note);
    }

    /// The settings of the pool.
    pub(crate) fn noted(&self, pool: &ResourceId) -> Option<Note> {
        lock(&self.notes).get(pool).cloned()
    }

    /// Keeps an address of a pool from being allocated, once there is a subnet.
    pub(crate) fn keep_back(&self, pool: &ResourceId, net: IpNet, address: IpAddr) {
        let mut notes = lock(&self.notes);
        let note = notes.entry(pool.clone()).or_insert_with(|| Note::new(net));
        // A runtime keeps back a few.
        if note.auxiliary.len() < MOST {
            note.auxiliary.insert(address);
        }
    }

    /// The opposite.
    pub(crate) fn let_go(&self, pool: &ResourceId, address: IpAddr) {
        if let Some(note) = lock(&self.notes).get_mut(pool) {
            note.auxiliary.remove(&address);
        }
    }

    /// The pool of which a network with this subnet is to be made: that whose turn it is, or the
    /// youngest. `subnet` is the one that exists already.
    pub(crate) fn pool_for(
        &self,
        net: &IpNet,
        subnet: Option<&ResourceId>,
    ) -> Option<(ResourceId, Note)> {
        let next_pool = lock(&self.turns).get(net).map(|(pool, _)| pool.clone());
        let notes = lock(&self.notes);
        let fits = |note: &Note| {
            note.net == *net && (note.subnet.is_none() || note.subnet.as_ref() == subnet)
        };
        let found = next_pool.and_then(|pool| notes.get_key_value(&pool));
        if let Some((pool, note)) = found.filter(|(_, note)| fits(note)) {
            return Some((pool.clone(), note.clone()));
        }
        let of_net = notes.iter().filter(|(_, note)| fits(note));
        let youngest = of_net.max_by_key(|(_, note)| note.since);
        youngest.map(|(pool, note)| (pool.clone(), note.clone()))
    }

    /// The subnets that networks are going to take from the operator's pool, or that it refused.
    pub(crate) fn taken_from(&self, source: &ResourceId) -> Vec<IpNet> {
        let notes = lock(&self.notes);
        let of_source = notes.values().filter(|note| note.source.as_ref() == Some(source));
        let refused = lock(&self.refused);
        let bad = refused.iter().filter(|(pool, _)| pool == source).map(|(_, net)| *net);
        of_source.map(|note| note.net).chain(bad).collect()
    }

    /// Remembers that the operator's pool does not have this subnet to give.
    pub(crate) fn refuse(&self, source: ResourceId, net: IpNet) {
        let mut refused = lock(&self.refused);
        if refused.len() >= MOST {
            refused.clear();
        }
        refused.insert((source, net));
    }

    /// Drops the refusals of the operator's pool: some of it may be free again.
    pub(crate) fn forgive(&self, source: &ResourceId) {
        lock(&self.refused).retain(|(pool, _)| pool != source);
    }

    /// Waits until no other network with this subnet is being made: nothing but the subnet says then
    /// which pool is whose.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where that takes too long.
    pub(crate) fn take_turn(&self, pool: &ResourceId, net: IpNet) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        let mut turns = lock(&self.turns);
        loop {
            match turns.get(&net) {
                Some((other, since)) if other != pool && since.elapsed() < FORGOTTEN => {}
                _ => {
                    turns.insert(net, (pool.clone(), Instant::now()));
                    return Ok(());
                }
            }
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(Error::try_again(format!(
                    "another network with subnet {net} is being made on this host: try again"
                )));
            }
            let waited = self.ended.wait_timeout(turns, remaining);
            turns = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A network was made of the pool, or never will be.
    pub(crate) fn settle(&self, pool: &ResourceId) {
        lock(&self.notes).remove(pool);
        lock(&self.turns).retain(|_, (other, _)| other != pool);
        self.ended.notify_all();
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ResourceId {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_made_of_the_pool_whose_turn_it_is() {
        let (memory, net) = (PoolMemory::default(), "10.0.0.0/24".parse().unwrap());
        memory.note(id("a"), Note::new(net));
        memory.take_turn(&id("a"), net).unwrap();
        memory.note(id("b"), Note::new(net));
        assert_eq!(memory.pool_for(&net, None).unwrap().0, id("a"));
        memory.settle(&id("a"));
        assert_eq!(memory.pool_for(&net, None).unwrap().0, id("b"));
    }

    #[test]
    fn one_waits_for_the_other() {
        let (memory, net) = (PoolMemory::default(), "10.0.0.0/24".parse().unwrap());
        memory.take_turn(&id("a"), net).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| memory.take_turn(&id("b"), net));
            memory.take_turn(&id("a"), net).unwrap();
            memory.settle(&id("a"));
            other.join().unwrap().unwrap();
        });
        memory.take_turn(&id("c"), "10.1.0.0/24".parse().unwrap()).unwrap();
    }
}
