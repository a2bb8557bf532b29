//! Objects about which only a person can decide.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{AliasId, SubnetId};

use super::Notice;
use super::live::may_be_judged;
use super::snapshot::Snapshot;
use super::store_view::{DockerRecords, HeldSubnet};
use crate::api::Reach;

/// The object of the doubt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubtful {
    Network(AliasId),
    Subnet(SubnetId),
}

/// What was reported, and what is reported if it persists: each once.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    since: BTreeMap<Doubtful, (Instant, bool)>,
}

impl Doubts {
    /// What is reported now: doubts that persisted for the grace time.
    pub(super) fn mature(
        &mut self,
        current: Vec<(Doubtful, Notice)>,
        now: Instant,
        grace: Duration,
    ) -> Vec<Notice> {
        let mut since = BTreeMap::new();
        let mut mature = Vec::new();
        for (id, notice) in current {
            let (first, reported) = self.since.get(&id).copied().unwrap_or((now, false));
            let is_ripe = now.saturating_duration_since(first) >= grace;
            if is_ripe && !reported {
                mature.push(notice);
            }
            since.insert(id, (first, reported || is_ripe));
        }
        self.since = since;
        mature
    }
}

/// Where the store and the engines contradict each other.
pub(super) fn doubts(
    held: &DockerRecords,
    snapshot: &Snapshot,
    driver: &str,
) -> Vec<(Doubtful, Notice)> {
    let mut doubts = Vec::new();
    for (id, sighting) in &snapshot.networks {
        let network = &sighting.network;
        let is_held = held.networks.iter().any(|known| known.id == *id);
        if is_ours(&network.driver, driver) && network.reach == Reach::Local && !is_held {
            let name = network.name.clone();
            let about = Doubtful::Network(id.clone());
            doubts.push((about, Notice::Unknown { network: id.clone(), name }));
        }
    }
    for known in &held.networks {
        if !known.is_of(&snapshot.engines) && !snapshot.networks.contains_key(&known.id) {
            let (network, name) = (known.id.clone(), known.network.clone());
            let about = Doubtful::Network(network.clone());
            let is_used = known.is_used;
            doubts.push((about, Notice::Unclaimed { network, name, is_used }));
        }
    }
    for known in held.subnets.iter().filter(|known| is_unlisted(known, held, snapshot)) {
        let (subnet, network) = (known.id.clone(), known.network.clone());
        let about = Doubtful::Subnet(subnet.clone());
        doubts.push((about, Notice::Unlisted { subnet, network }));
    }
    doubts
}

/// Whether no engine has listed a network of the subnet; one that is in the store is reported
/// separately.
fn is_unlisted(subnet: &HeldSubnet, held: &DockerRecords, snapshot: &Snapshot) -> bool {
    subnet.id.space.has_networks()
        && !may_be_judged(subnet, held, snapshot)
        && snapshot.users(&subnet.id).next().is_none()
        && !held.networks.iter().any(|known| known.network == subnet.network)
}

/// A managed plugin's driver carries a tag.
pub(super) fn is_ours(driver: &str, ours: &str) -> bool {
    driver == ours || driver.strip_prefix(ours).is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::super::store_view::HeldNetwork;
    use super::*;

    #[test]
    fn tells_once_what_stays() {
        let id = |id: &str| id.parse::<AliasId>().unwrap();
        let unknown = |name: &str| {
            (
                Doubtful::Network(id(name)),
                Notice::Unknown { network: id(name), name: name.parse().ok() },
            )
        };
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let mut doubts = Doubts::default();
        let mut reported = |at: u64, current: &[&str]| -> usize {
            let current = current.iter().map(|name| unknown(name)).collect();
            doubts.mature(current, start + Duration::from_secs(at), grace).len()
        };
        assert_eq!(reported(0, &["a"]), 0);
        assert_eq!(reported(29, &["a", "b"]), 0);
        assert_eq!(reported(30, &["a", "b"]), 1);
        assert_eq!(reported(60, &["a"]), 0, "b went away, a was reported");
        assert_eq!(reported(70, &["a", "b"]), 0);
        assert_eq!(reported(99, &["b"]), 0);
        assert_eq!(reported(100, &["b"]), 1);
    }

    /// Its removal detaches what another runtime, or an engine that is not asked, has on it.
    #[test]
    fn removal_is_advised_where_nothing_is_attached() {
        let said = |is_used| {
            let network = HeldNetwork {
                id: "n1".parse().unwrap(),
                network: "shop".parse().unwrap(),
                title: None,
                lister: None,
                is_used,
            };
            let held = DockerRecords { networks: vec![network], ..DockerRecords::default() };
            let found = doubts(&held, &Snapshot::default(), "spoke");
            let [(_, notice)] = found.as_slice() else { panic!("{found:?}") };
            notice.to_string()
        };
        assert!(said(false).ends_with("spoke network rm --force shop"), "{}", said(false));
        assert!(!said(true).contains("--force"), "{}", said(true));
    }

    #[test]
    fn a_managed_plugin_has_a_tag() {
        assert!(is_ours("spoke", "spoke") && is_ours("spoke:latest", "spoke"));
        assert!(!is_ours("spoke2", "spoke") && !is_ours("bridge", "spoke"));
        assert!(is_ours("example.org/spoke:1", "example.org/spoke:1"));
    }
}
