//! Containers of networks by their names and addresses.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use model::NetworkName;

use super::Entry;

/// Entries by what identifies their attachment, and by name and address on its network.
#[derive(Debug)]
pub(super) struct Index<Id> {
    entries: HashMap<Id, Entry>,
    by_name: HashMap<NetworkName, HashMap<String, BTreeSet<Id>>>,
    by_address: HashMap<NetworkName, HashMap<IpAddr, Id>>,
}

impl<Id> Default for Index<Id> {
    fn default() -> Self {
        let (entries, by_name, by_address) = Default::default();
        Self { entries, by_name, by_address }
    }
}

impl<Id: Clone + Ord + Hash> Index<Id> {
    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Those of a network that have a name.
    pub(super) fn find<'a>(
        &'a self,
        network: &NetworkName,
        name: &str,
    ) -> impl Iterator<Item = &'a Entry> + use<'a, Id> {
        let ids = self.by_name.get(network).and_then(|names| names.get(name));
        ids.into_iter().flatten().filter_map(|id| self.entries.get(id))
    }

    /// The one that has an address on a network.
    pub(super) fn at(&self, network: &NetworkName, address: IpAddr) -> Option<&Entry> {
        self.entries.get(self.by_address.get(network)?.get(&address)?)
    }

    /// Adds one of a network, which has none of this id.
    pub(super) fn add(&mut self, network: &NetworkName, id: Id, entry: Entry) {
        let names = self.by_name.entry(network.clone()).or_default();
        for name in entry.names() {
            names.entry(name.clone()).or_default().insert(id.clone());
        }
        let addresses = self.by_address.entry(network.clone()).or_default();
        for address in &entry.addresses {
            addresses.insert(*address, id.clone());
        }
        self.entries.insert(id, entry);
    }

    /// Removes one of a network.
    pub(super) fn remove(&mut self, network: &NetworkName, id: &Id) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        if let Some(names) = self.by_name.get_mut(network) {
            for name in entry.names() {
                drop_member(names, name, id);
            }
        }
        if let Some(addresses) = self.by_address.get_mut(network) {
            for address in &entry.addresses {
                // Another one may have it by now.
                if addresses.get(address) == Some(id) {
                    addresses.remove(address);
                }
            }
        }
        Some(entry)
    }
}

/// Takes an id out of the set of a key, and the key out with its last one.
pub(super) fn drop_member<K: Hash + Eq, Id: Ord>(
    all: &mut HashMap<K, BTreeSet<Id>>,
    key: &K,
    id: &Id,
) {
    if let Some(members) = all.get_mut(key) {
        members.remove(id);
        if members.is_empty() {
            all.remove(key);
        }
    }
}
