//! Containers of other hosts. They are found by their names, and ask at their own hosts only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use model::{HostName, Mac, NamedElsewhere, NetworkName};

use super::Entry;

/// Which container it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RemoteId {
    network: NetworkName,
    host: HostName,
    mac: Mac,
}

/// What hosts say of their containers.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    entries: BTreeMap<RemoteId, Entry>,
    by_name: HashMap<NetworkName, HashMap<String, BTreeSet<RemoteId>>>,
    by_address: HashMap<NetworkName, HashMap<IpAddr, RemoteId>>,
}

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
            self.entries.iter().filter(is_other).map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.forget(id));
        for (id, entry) in wanted {
            if !self.entries.contains_key(&id) {
                self.remember(id, entry);
            }
        }
    }

    /// All of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Those of a network that have a name.
    pub(super) fn find<'a>(
        &'a self,
        network: &NetworkName,
        name: &str,
    ) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let ids = self.by_name.get(network).and_then(|names| names.get(name));
        ids.into_iter().flatten().filter_map(|id| self.entries.get(id))
    }

    /// The one that has an address on a network.
    pub(super) fn at(&self, network: &NetworkName, address: IpAddr) -> Option<&Entry> {
        self.entries.get(self.by_address.get(network)?.get(&address)?)
    }

    fn remember(&mut self, id: RemoteId, entry: Entry) {
        let names = self.by_name.entry(id.network.clone()).or_default();
        for name in entry.names() {
            names.entry(name.clone()).or_default().insert(id.clone());
        }
        let addresses = self.by_address.entry(id.network.clone()).or_default();
        for address in &entry.addresses {
            addresses.insert(*address, id.clone());
        }
        self.entries.insert(id, entry);
    }

    fn forget(&mut self, id: &RemoteId) {
        let Some(entry) = self.entries.remove(id) else { return };
        if let Some(names) = self.by_name.get_mut(&id.network) {
            for name in entry.names() {
                let Some(ids) = names.get_mut(name) else { continue };
                ids.remove(id);
                if ids.is_empty() {
                    names.remove(name);
                }
            }
        }
        if let Some(addresses) = self.by_address.get_mut(&id.network) {
            for address in &entry.addresses {
                // Another one may have it by now.
                if addresses.get(address) == Some(id) {
                    addresses.remove(address);
                }
            }
        }
    }
}
