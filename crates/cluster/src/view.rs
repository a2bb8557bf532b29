//! All that the hosts share, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::{
    AddressPin, ClusterHost, HostName, Ipv4Net, Mac, NetworkName, PinState, PublicKey,
    SharedNetwork, Vni,
};

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
    /// Whose each VNI is.
    pub vnis: BTreeMap<Vni, NetworkName>,
    /// The same, of encrypted networks.
    pub encrypted_vnis: BTreeMap<Vni, NetworkName>,
    /// The public keys of hosts' tunnels, by turn.
    pub tunnels: BTreeMap<(HostName, u32), PublicKey>,
    /// Which turn it is, and when it was written; 0 where nobody has.
    pub key_turn: (u32, Option<Revision>),
    /// Whose each block is.
    pub blocks: BTreeMap<(NetworkName, Ipv4Net), HostName>,
    /// The addresses that hosts have apart from their blocks, and when each was written.
    pub pins: BTreeMap<(NetworkName, Ipv4Addr), (AddressPin, Revision)>,
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
            (Key::Vni(vni), Some(Record::Vni(network))) => {
                self.vnis.insert(vni, network);
            }
            (Key::EncryptedVni(vni), Some(Record::Vni(network))) => {
                self.encrypted_vnis.insert(vni, network);
            }
            (Key::Tunnel(host, turn), Some(Record::Tunnel(key))) => {
                self.tunnels.insert((host, turn), key);
            }
            (Key::KeyTurn, Some(Record::KeyTurn(turn))) => self.key_turn = (turn, revision),
            (Key::Pin(network, address), Some(Record::Pin(pin))) => {
                self.pins.insert((network, address), (pin, revision.unwrap_or_default()));
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
            Key::Vni(vni) => drop(self.vnis.remove(vni)),
            Key::EncryptedVni(vni) => drop(self.encrypted_vnis.remove(vni)),
            Key::Tunnel(host, turn) => drop(self.tunnels.remove(&(host.clone(), *turn))),
            Key::KeyTurn => self.key_turn = (0, None),
            Key::Pin(network, address) => drop(self.pins.remove(&(network.clone(), *address))),
            Key::Block(network, net) => drop(self.blocks.remove(&(network.clone(), *net))),
            Key::Endpoint(host, network, address) => {
                self.endpoints.remove(&(host.clone(), network.clone(), *address));
            }
            Key::Token(id) => drop(self.tokens.remove(id)),
        }
    }

    /// Which network has claimed a VNI, with or without encryption.
    pub fn vni_of(&self, network: &SharedNetwork) -> Option<&NetworkName> {
        match network.encrypted {
            true => self.encrypted_vnis.get(&network.vni),
            false => self.vnis.get(&network.vni),
        }
    }

    /// The networks of a host.
    pub fn networks_of(
        &self,
        host: &HostName,
    ) -> impl Iterator<Item = (&NetworkName, &SharedNetwork)> {
        self.networks.iter().filter(move |(_, network)| network.hosts.has(host))
    }

    /// The blocks of a network that a host has. What is no block of the network is nobody's.
    pub fn blocks_of<'v>(
        &'v self,
        name: &'v NetworkName,
        host: &'v HostName,
    ) -> impl Iterator<Item = Ipv4Net> + 'v {
        let network = self.networks.get(name);
        let of_host =
            self.blocks.iter().filter(move |((of, _), holder)| of == name && *holder == host);
        of_host
            .map(|((_, net), _)| *net)
            .filter(move |net| network.is_some_and(|network| network.is_block(net)))
    }

    /// The first of them.
    pub fn block(&self, name: &NetworkName, host: &HostName) -> Option<Ipv4Net> {
        self.blocks_of(name, host).next()
    }

    /// The block of a network in which an address is, and its host.
    pub fn block_with(
        &self,
        name: &NetworkName,
        address: Ipv4Addr,
    ) -> Option<(Ipv4Net, &HostName)> {
        let network = self.networks.get(name)?;
        let block = network.block_with(address)?;
        self.blocks.get(&(name.clone(), block)).map(|holder| (block, holder))
    }

    /// The host that an address was given to apart from its blocks.
    pub fn pinned(&self, name: &NetworkName, address: Ipv4Addr) -> Option<&HostName> {
        let (pin, _) = self.pins.get(&(name.clone(), address))?;
        (pin.state == PinState::Granted).then_some(&pin.host)
    }

    /// Whether a host may have an address: it is in one of its blocks, or was given to it, and to no
    /// other one.
    pub fn may_have(&self, name: &NetworkName, host: &HostName, address: Ipv4Addr) -> bool {
        match self.pinned(name, address) {
            Some(holder) => holder == host,
            None => self.blocks_of(name, host).any(|block| block.contains(&address)),
        }
    }
}
