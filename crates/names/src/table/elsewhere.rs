//! Containers of other hosts. They are found by their names, and ask at their own hosts only.

use std::collections::BTreeMap;

use model::{HostName, Mac, NamedElsewhere, NetworkName};

use super::Entry;
use super::index::Index;

/// Which container it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteId {
    network: NetworkName,
    host: HostName,
    mac: Mac,
}

/// What hosts say of their containers.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(Index<RemoteId>);

impl Elsewhere {
    /// These are all.
    pub(super) fn put(&mut self, all: &[NamedElsewhere]) {
        let mut wanted: BTreeMap<RemoteId, Entry> = BTreeMap::new();
        for it in all {
            let (network, host, mac) = (it.network.clone(), it.host.clone(), it.mac);
            wanted.insert(RemoteId { network, host, mac }, Entry::elsewhere(it));
        }
        let is_other = |(id, entry): &(&RemoteId, &Entry)| wanted.get(*id) != Some(*entry);
        let gone: Vec<RemoteId> =
            self.0.iter().filter(is_other).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.0.remove(&id.network, &id);
        }
        for (id, entry) in wanted {
            if self.0.get(&id).is_none() {
                self.0.add(&id.network.clone(), id, entry);
            }
        }
    }

    pub(super) fn index(&self) -> &Index<RemoteId> {
        &self.0
    }
}
