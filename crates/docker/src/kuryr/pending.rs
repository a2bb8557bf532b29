//! The part of RequestPool that CreateNetwork does not repeat: `--ipam-opt`, and the pool.
//!
//! CreateNetwork names the pools that were requested for it only by their subnets. So the options
//! of those are kept until then, in a file that goes with the boot: the daemon may be started again
//! between the two. Two networks with the same subnet that are made at the same moment can be
//! confused only where their options differ, and that is refused.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{AliasId, Error, IpNet, ResourceId, Result};
use serde::{Deserialize, Serialize};

use super::option::KuryrNetworkOptions;

/// As many as an engine has networks, generously; the oldest go first.
const MOST: usize = 4096;

/// A larger file is none of ours, in bytes.
const LARGEST: u64 = 16 << 20;

/// What `--ipam-opt` said.
pub(super) type Options = BTreeMap<String, String>;

/// Pools that were requested and not released.
#[derive(Debug, Default)]
pub(super) struct Pending {
    all: Mutex<VecDeque<Requested>>,
    /// Where they are kept.
    file: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Requested {
    pool: ResourceId,
    net: IpNet,
    options: Options,
    /// The network that was made of it.
    network: Option<AliasId>,
}

impl Pending {
    /// Those that an earlier process kept in this file, and from now on what this one keeps there.
    pub(super) fn kept_in(file: PathBuf) -> Self {
        // Without them, networks that are being made right now lose their options.
        let kept = file::read(&file, LARGEST).ok();
        let all = kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default();
        Self { all: Mutex::new(all), file: Some(file) }
    }

    fn keep(&self, all: &VecDeque<Requested>) {
        let Some(file) = &self.file else { return };
        let with_options: Vec<_> = all.iter().filter(|one| !one.options.is_empty()).collect();
        // Where this fails they are lost only if this process is killed.
        let _ = if with_options.is_empty() {
            std::fs::remove_file(file)
        } else {
            serde_json::to_vec(&with_options)
                .map_err(std::io::Error::from)
                .and_then(|text| file::replace(file, &file.with_extension("new"), &text))
        };
    }

    /// Keeps the options of a pool.
    pub(super) fn add(&self, pool: ResourceId, net: IpNet, options: Options) {
        let mut all = self.all();
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Requested { pool, net, options, network: None });
        self.keep(&all);
    }

    /// Drops one request of a pool.
    pub(super) fn remove(&self, pool: &ResourceId) {
        let mut all = self.all();
        // A pool that networks share was requested by each: those that came to no network go first.
        let unused = all.iter().position(|one| one.pool == *pool && one.network.is_none());
        let any = || all.iter().position(|one| one.pool == *pool);
        if let Some(at) = unused.or_else(any) {
            all.remove(at);
            self.keep(&all);
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
            return KuryrNetworkOptions::of_pool(&known.options);
        }
        let mut free = all.iter_mut().filter(|one| one.net == net && one.network.is_none());
        let Some(first) = free.next() else { return Ok(KuryrNetworkOptions::default()) };
        if free.any(|other| other.options != first.options) {
            return Err(Error::try_again(format!(
                "several networks with subnet {net} are being made, with different --ipam-opt; \
                 make one after the other, or say the same with -o"
            )));
        }
        first.network = Some(network.clone());
        let given = KuryrNetworkOptions::of_pool(&first.options);
        self.keep(&all);
        given
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Requested>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ResourceId {
        text.parse().unwrap()
    }

    fn network(text: &str) -> AliasId {
        text.parse().unwrap()
    }

    fn options(name: &str) -> Options {
        BTreeMap::from([("neutron.net.name".to_owned(), name.to_owned())])
    }

    fn given(name: &str) -> KuryrNetworkOptions {
        KuryrNetworkOptions::of_pool(&options(name)).unwrap()
    }

    #[test]
    fn a_daemon_that_was_started_again_knows_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pools");
        let net = "10.1.0.0/24".parse().unwrap();
        let pending = Pending::kept_in(file.clone());
        pending.add(id("a"), net, options("x"));
        pending.add(id("b"), "10.2.0.0/24".parse().unwrap(), options("y"));
        pending.remove(&id("b"));
        let later = Pending::kept_in(file.clone());
        assert_eq!(later.of(net, &network("n")).unwrap(), given("x"));
        let latest = Pending::kept_in(file.clone());
        assert_eq!(latest.of(net, &network("n")).unwrap(), given("x"), "a repeated call");
        assert_eq!(latest.of(net, &network("m")).unwrap(), KuryrNetworkOptions::default());
        std::fs::write(&file, "{").unwrap();
        assert!(!Pending::kept_in(file.clone()).has(net));
        latest.add(id("c"), net, Options::new());
        latest.remove(&id("a"));
        assert!(latest.has(net) && !file.exists(), "nothing was said of what is left");
    }

    #[test]
    fn each_network_gets_what_was_said_of_its_pool() {
        let (pending, net) = (Pending::default(), "10.1.0.0/24".parse().unwrap());
        assert_eq!(pending.of(net, &network("n")).unwrap(), KuryrNetworkOptions::default());
        pending.add(id("a"), net, options("x"));
        for _ in 0..2 {
            assert_eq!(pending.of(net, &network("n")).unwrap(), given("x"), "a repeated call");
        }
        pending.add(id("b"), net, options("y"));
        assert_eq!(pending.of(net, &network("m")).unwrap(), given("y"));
        pending.remove(&id("a"));
        assert!(pending.has(net));
        pending.remove(&id("b"));
        assert!(!pending.has(net));
    }

    #[test]
    fn what_could_be_confused_is_refused() {
        let (pending, net) = (Pending::default(), "10.1.0.0/24".parse().unwrap());
        pending.add(id("a"), net, options("x"));
        pending.add(id("b"), net, options("y"));
        assert!(pending.of(net, &network("n")).is_err());
        pending.remove(&id("b"));
        assert_eq!(pending.of(net, &network("n")).unwrap(), given("x"));
    }
}
