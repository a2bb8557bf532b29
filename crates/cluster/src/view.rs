//! All that the hosts share, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::{ClusterHost, HostName, Ipv4Net, Mac, NetworkName, SharedNetwork};

use crate::port::{Change, Key, Record, Revision, TokenId, TokenRecord};

/// What is told of records that cannot be read; more of them are only not used.
const MOST_DAMAGED: usize = 100;

/// What the cluster holds at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Of which transaction.
    pub revision: Revision,
    /// The version of the layout, where there is one.
    pub layout: Option<u32>,
    /// The members.
    pub hosts: BTreeMap<HostName, ClusterHost>,
    /// Those whose daemon is there.
    pub alive: BTreeSet<HostName>,
    /// The networks.
    pub networks: BTreeMap<NetworkName, SharedNetwork>,
    /// Whose each block is.
    pub blocks: BTreeMap<(NetworkName, Ipv4Net), HostName>,
    /// The addresses of each host on each network.
    pub endpoints: BTreeMap<(HostName, NetworkName, Ipv4Addr), Mac>,
    /// The tokens, and when each was written.
    pub tokens: BTreeMap<TokenId, (TokenRecord, Revision)>,
    /// When a network was declared or removed last.
    pub turn: Option<Revision>,
    /// Keys that cannot be read, or whose values cannot, and why.
    pub damaged: BTreeMap<String, String>,
}

impl View {
    /// Takes a change over.
    pub fn apply(&mut self, change: Change) {
        let (key, now) = match change.read {
            Ok(read) => read,
            Err(why) => {
                // What was there before is not what the cluster holds now.
                if let Ok(key) = crate::layout::key(&change.path) {
                    self.set(key, None);
                }
                if self.damaged.len() < MOST_DAMAGED {
                    self.damaged.insert(model::text::shown(&change.path), why);
                }
                return;
            }
        };
        self.damaged.remove(&model::text::shown(&change.path));
        self.set(key, now);
    }

    fn set(&mut self, key: Key, now: Option<(Record, Revision)>) {
        let revision = now.as_ref().map(|(_, revision)| *revision);
        match (key, now.map(|(record, _)| record)) {
            (Key::Layout, Some(Record::Layout(version))) => self.layout = Some(version),
            (Key::Host(host), Some(Record::Host(record))) => {
                self.hosts.insert(host, record);
            }
            (Key::Alive(host), Some(_)) => {
                self.alive.insert(host);
            }
            (Key::Turn, Some(_)) => self.turn = revision,
            (Key::Network(name), Some(Record::Network(network))) => {
                self.networks.insert(name, network);
            }
            (Key::Block(network, net), Some(Record::Block(host))) => {
                self.blocks.insert((network, net), host);
            }
            (Key::Endpoint(host, network, address), Some(Record::Endpoint(endpoint))) => {
                self.endpoints.insert((host, network, address), endpoint.mac);
            }
            (Key::Token(id), Some(Record::Token(token))) => {
                self.tokens.insert(id, (token, revision.unwrap_or_default()));
            }
            (key, _) => self.forget(&key),
        }
    }

    fn forget(&mut self, key: &Key) {
        match key {
            Key::Layout => self.layout = None,
            Key::Turn => self.turn = None,
            Key::Host(host) => drop(self.hosts.remove(host)),
            Key::Alive(host) => drop(self.alive.remove(host)),
            Key::Network(name) => drop(self.networks.remove(name)),
            Key::Block(network, net) => drop(self.blocks.remove(&(network.clone(), *net))),
            Key::Endpoint(host, network, address) => {
                self.endpoints.remove(&(host.clone(), network.clone(), *address));
            }
            Key::Token(id) => drop(self.tokens.remove(id)),
        }
    }

    /// The networks of a host.
    pub fn networks_of(
        &self,
        host: &HostName,
    ) -> impl Iterator<Item = (&NetworkName, &SharedNetwork)> {
        self.networks.iter().filter(move |(_, network)| network.hosts.has(host))
    }

    /// The block of a network that a host has. What is no block of the network is nobody's.
    pub fn block(&self, name: &NetworkName, host: &HostName) -> Option<Ipv4Net> {
        let network = self.networks.get(name)?;
        let mut all = self
            .blocks
            .iter()
            .filter(|((of, net), holder)| of == name && *holder == host && network.is_block(net));
        all.next().map(|((_, net), _)| *net)
    }
}
