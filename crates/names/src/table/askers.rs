//! What is known of who asks.

use std::net::IpAddr;

use model::{Fence, NetworkName};

use super::{Asker, Entry, Sandbox, Table};
use crate::holder::Holder;

impl Table {
    /// What an asker may reach by the network at which it asks: by its own rules, or else the network's.
    pub fn fence_of_asker(&self, asker: &Asker<'_>) -> Option<&Fence> {
        let own = self.holder(&[asker.network], asker.address).and_then(|it| it.fence.as_ref());
        own.or_else(|| self.fence_of(asker.network))
    }

    /// Where it is judged what an asker may reach by names: at each attachment of its sandbox that has a fence, the
    /// asking one first. At none where it asks at a network that has none for it.
    pub(crate) fn askers_of<'a>(&'a self, asker: &Asker<'a>) -> Vec<Asker<'a>> {
        if self.fence_of_asker(asker).is_none() {
            return Vec::new();
        }
        let is_other = |entry: &&Entry| {
            entry.network != *asker.network || !entry.addresses.contains(&asker.address)
        };
        let others = self.sandbox_of(asker).into_iter().filter(is_other).filter_map(|entry| {
            Some(Asker { network: &entry.network, address: *entry.addresses.first()? })
        });
        let others = others.filter(|other| self.fence_of_asker(other).is_some());
        std::iter::once(*asker).chain(others).collect()
    }

    /// The same for an asker: of the network at which it asks, or else of another one that it is on, which need
    /// not have names. What it asks for leaves by that, too.
    pub(crate) fn way_of_asker(&self, asker: &Asker<'_>) -> Option<u32> {
        let others = || self.networks_of(asker).into_iter().find_map(|it| self.way_of(it));
        let sandbox = || self.holder(&[asker.network], asker.address)?.sandbox.as_ref();
        let unnamed = || sandbox().and_then(|(path, inode)| self.ways.of(path, *inode));
        self.way_of(asker.network).or_else(others).or_else(unnamed)
    }

    /// Whether the fence of an asker only records now.
    pub(crate) fn is_learning(&self, asker: &Asker<'_>) -> bool {
        let fence = self.fence_of_asker(asker);
        fence.zip(self.now.as_ref()).is_some_and(|(fence, now)| fence.is_learning(now))
    }

    /// The attachment of an asker.
    pub fn holder_of(&self, asker: &Asker<'_>) -> Option<&Holder> {
        self.holder(&[asker.network], asker.address).and_then(|entry| entry.holder.as_ref())
    }

    /// All addresses that an asker has on its network.
    pub(crate) fn addresses_of(&self, asker: &Asker<'_>) -> Vec<IpAddr> {
        let holder = self.holder(&[asker.network], asker.address);
        holder.map(|entry| entry.addresses.clone()).unwrap_or_default()
    }

    /// The same of an asker, which may have rules of its own, or be on another network with a way.
    pub(crate) fn is_shut_for(&self, asker: &Asker<'_>) -> bool {
        self.fence_of_asker(asker).is_some()
            || self.is_shut(asker.network)
            || self.way_of_asker(asker).is_some()
    }

    /// Who asks in a sandbox: on a network with a fence or with a way, where it is on one.
    pub(crate) fn asker_in(&self, sandbox: &Sandbox) -> Option<Asker<'_>> {
        let ids = self.by_sandbox.get(&sandbox.path)?;
        let entries = ids.iter().filter_map(|id| self.here.get(id));
        let has_address = |entry: &&Entry| !entry.addresses.is_empty();
        let freedom = |entry: &&Entry| {
            let is_free = entry.fence.is_none() && self.fence_of(&entry.network).is_none();
            (is_free, self.way_of(&entry.network).is_none())
        };
        let entry = entries.filter(has_address).min_by_key(freedom)?;
        Some(Asker { network: &entry.network, address: *entry.addresses.first()? })
    }

    /// An asker at whom a container of this name is found, on one of its networks.
    pub fn asker_named(&self, name: &str) -> Option<Asker<'_>> {
        let wanted = name.to_ascii_lowercase();
        let mut found = self.entries().into_iter();
        let (network, entry) = found.find(|(_, entry)| {
            entry.host.is_none() && (entry.name == wanted || entry.container == name)
        })?;
        Some(Asker { network, address: *entry.addresses.first()? })
    }

    /// The networks that an asker is on.
    pub fn networks_of<'a>(&'a self, asker: &Asker<'a>) -> Vec<&'a NetworkName> {
        let mut networks = vec![asker.network];
        networks.extend(self.sandbox_of(asker).into_iter().map(|entry| &entry.network));
        networks.sort();
        networks.dedup();
        networks
    }

    /// Whom to ask what is not known here: what was said for the asker, or its network. `None` where
    /// none of its networks leads out; empty where this host's servers are meant. What servers answer opens a fence:
    /// an asker that has one does not choose them.
    pub fn servers_of(&self, asker: &Asker<'_>) -> Option<Vec<IpAddr>> {
        let members = self.sandbox_of(asker);
        let network = self.served(asker.network);
        let leads_out = network.is_some_and(|served| !served.internal)
            || members.iter().any(|entry| !entry.internal);
        if !leads_out {
            return None;
        }
        let is_fenced = self.fence_of_asker(asker).is_some();
        let network = if is_fenced { self.recorded(asker.network) } else { network };
        let is_believed = |entry: &Entry| !is_fenced || entry.is_of_command();
        let own = members.iter().find(|entry| is_believed(entry) && !entry.servers.is_empty());
        let given = own.map(|entry| &entry.servers).or(network.map(|served| &served.servers));
        // No query is sent back to where it came from.
        let is_ours = |server: &IpAddr| self.all_places().any(|place| place.address() == *server);
        Some(given.into_iter().flatten().filter(|server| !is_ours(server)).copied().collect())
    }
}
