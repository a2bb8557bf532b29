//! The part of RequestPool that CreateNetwork does not repeat: `--ipam-opt`, and the pool.
//!
//! CreateNetwork names the pools that were requested for it only by their subnets. So the options
//! of those are kept until then, in memory: seconds pass between the two. Two networks with the
//! same subnet that are made at the same moment can be confused only where their options differ,
//! and that is refused.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{AliasId, Error, IpNet, ResourceId, Result};

use super::option::KuryrNetworkOptions;

/// As many as an engine has networks, generously; the oldest go first.
const MOST: usize = 4096;

/// Pools that were requested and not released.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<VecDeque<Requested>>);

#[derive(Debug)]
struct Requested {
    pool: ResourceId,
    net: IpNet,
    given: KuryrNetworkOptions,
    /// The network that was made of it.
    network: Option<AliasId>,
}

impl Pending {
    /// Keeps the options of a pool.
    pub(super) fn add(&self, pool: ResourceId, net: IpNet, given: KuryrNetworkOptions) {
        let mut all = self.all();
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Requested { pool, net, given, network: None });
    }

    /// Drops one request of a pool.
    pub(super) fn remove(&self, pool: &ResourceId) {
        let mut all = self.all();
        // A pool that networks share was requested by each: those that came to no network go first.
        let unused = all.iter().position(|one| one.pool == *pool && one.network.is_none());
        let any = || all.iter().position(|one| one.pool == *pool);
        if let Some(at) = unused.or_else(any) {
            all.remove(at);
        }
    }

    /// Whether a pool with this subnet was requested.
    pub(super) fn has(&self, net: IpNet) -> bool {
        self.all().iter().any(|one| one.net == net)
    }

    /// The options of the pool of this subnet that is for this network; the same when it is called
    /// again. Empty where none was requested from this process.
    pub(super) fn of(&self, net: IpNet, network: &AliasId) -> Result<KuryrNetworkOptions> {
        let mut all = self.all();
        if let Some(known) =
            all.iter().find(|one| one.net == net && one.network.as_ref() == Some(network))
        {
            return Ok(known.given.clone());
        }
        let mut free = all.iter_mut().filter(|one| one.net == net && one.network.is_none());
        let Some(first) = free.next() else { return Ok(KuryrNetworkOptions::default()) };
        if free.any(|other| other.given != first.given) {
            return Err(Error::try_again(format!(
                "several networks with subnet {net} are being made, with different --ipam-opt; \
                 make one after the other, or say the same with -o"
            )));
        }
        first.network = Some(network.clone());
        Ok(first.given.clone())
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Requested>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn id(text: &str) -> ResourceId {
        text.parse().unwrap()
    }

    fn network(text: &str) -> AliasId {
        text.parse().unwrap()
    }

    fn given(name: &str) -> KuryrNetworkOptions {
        let map = BTreeMap::from([("neutron.net.name".to_owned(), name.to_owned())]);
        KuryrNetworkOptions::of_pool(&map).unwrap()
    }

    #[test]
    fn each_network_gets_what_was_said_of_its_pool() {
        let (pending, net) = (Pending::default(), "10.1.0.0/24".parse().unwrap());
        assert_eq!(pending.of(net, &network("n")).unwrap(), KuryrNetworkOptions::default());
        pending.add(id("a"), net, given("x"));
        for _ in 0..2 {
            assert_eq!(pending.of(net, &network("n")).unwrap(), given("x"), "a repeated call");
        }
        pending.add(id("b"), net, given("y"));
        assert_eq!(pending.of(net, &network("m")).unwrap(), given("y"));
        pending.remove(&id("a"));
        assert!(pending.has(net));
        pending.remove(&id("b"));
        assert!(!pending.has(net));
    }

    #[test]
    fn what_could_be_confused_is_refused() {
        let (pending, net) = (Pending::default(), "10.1.0.0/24".parse().unwrap());
        pending.add(id("a"), net, given("x"));
        pending.add(id("b"), net, given("y"));
        assert!(pending.of(net, &network("n")).is_err());
        pending.remove(&id("b"));
        assert_eq!(pending.of(net, &network("n")).unwrap(), given("x"));
    }
}
