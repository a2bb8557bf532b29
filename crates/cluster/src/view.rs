//! All that the hosts share, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{
    AddressPin, ClusterHost, Error, HostName, IpNet, NetworkName, PinState, Placement, PublicKey,
    SharedEndpoint, SharedNetwork, Timestamp, Vni,
};

use crate::record::{
    AliveRecord, Change, HostRecord, Key, Record, Revision, ServerRecord, TokenId, TokenRecord,
    UnknownFields,
};
use crate::trust::{AuthorityRecord, CertificateRecord, Serial, Standing};

/// How many records that cannot be read are reported; more of them are only not used.
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
    /// What only later versions know of them.
    pub rests: BTreeMap<HostName, UnknownFields>,
    /// When the daemon of each member was heard of anew last.
    pub epochs: BTreeMap<HostName, Revision>,
    /// Those whose daemon is there.
    pub alive: BTreeSet<HostName>,
    /// The latest layout that the programs of those know.
    pub layouts: BTreeMap<HostName, u32>,
    /// Those of them that do not have the program of etcd.
    pub without_etcd: BTreeSet<HostName>,
    /// What those say of the authorities that they know.
    pub standings: BTreeMap<HostName, Standing>,
    /// The last change of the cluster's authority, and when it was written.
    pub authority: Option<(AuthorityRecord, Revision)>,
    /// The servers of the cluster's own etcd, where it has one.
    pub servers: BTreeMap<HostName, ServerRecord>,
    /// The certificates of each host.
    pub certificates: BTreeMap<(HostName, Serial), CertificateRecord>,
    /// Those that are worth nothing, and when they would have ended.
    pub revoked: BTreeMap<Serial, Timestamp>,
    /// The networks.
    pub networks: BTreeMap<NetworkName, SharedNetwork>,
    /// Whose each VNI is.
    pub vnis: BTreeMap<Vni, NetworkName>,
    /// The same, of networks that are encrypted or routed.
    pub encrypted_vnis: BTreeMap<Vni, NetworkName>,
    /// By which networks with rules VNIs are claimed.
    pub ruled_vnis: BTreeMap<Vni, NetworkName>,
    /// The public keys of hosts' tunnels, by turn.
    pub tunnels: BTreeMap<(HostName, u32), PublicKey>,
    /// Which turn it is, and when it was written; 0 where no host has written it.
    pub key_turn: (u32, Option<Revision>),
    /// Whose each block is, and when it was taken.
    pub blocks: BTreeMap<(NetworkName, IpNet), (HostName, Revision)>,
    /// The addresses that hosts have apart from their blocks, and when each was written.
    pub pins: BTreeMap<(NetworkName, IpAddr), (AddressPin, Revision)>,
    /// The addresses of each host on each network, and since when each has its hardware address, as far as was heard.
    pub endpoints: BTreeMap<(HostName, NetworkName, IpAddr), (SharedEndpoint, Revision)>,
    /// The tokens, and when each was written.
    pub tokens: BTreeMap<TokenId, (TokenRecord, Revision)>,
    /// When a network was declared or removed, or a host joined, last.
    pub turn: Option<Revision>,
    /// The latest record that no lease ends, and when it was written.
    pub latest: Option<(Key, Revision)>,
    /// Keys that cannot be read, or whose values cannot, and why.
    pub damaged: BTreeMap<String, String>,
}

impl View {
    /// Takes a change over.
    pub fn apply(&mut self, change: Change) {
        let (key, now) = match change.read {
            Ok(read) => read,
            Err(_) if change.is_gone => {
                self.damaged.remove(&model::text::shown(&change.path));
                return;
            }
            Err(why) => {
                // What was there before is not what the cluster holds now.
                let key = crate::layout::key(&change.path).ok();
                // A host has to know that it was not removed, and whether the authority is being changed.
                let is_needed = matches!(key, Some(Key::Host(_) | Key::Authority));
                if let Some(key) = key {
                    self.set(key, None);
                }
                if is_needed || self.damaged.len() < MOST_DAMAGED {
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
        if let Some(revision) = revision
            && !matches!(key, Key::Alive(_) | Key::Token(_))
            && self.latest.as_ref().is_none_or(|(_, latest)| *latest <= revision)
        {
            self.latest = Some((key.clone(), revision));
        }
        match (key, now.map(|(record, _)| record)) {
            (Key::Layout, Some(Record::Layout(version))) => self.layout = Some(version),
            (Key::Host(host), Some(Record::Host(record))) => {
                self.epochs.insert(host.clone(), revision.unwrap_or_default());
                self.rests.insert(host.clone(), record.rest);
                self.hosts.insert(host, record.host);
            }
            (Key::Alive(host), Some(Record::Alive(AliveRecord { layout, etcd, authority }))) => {
                match authority {
                    Some(standing) => drop(self.standings.insert(host.clone(), standing)),
                    None => drop(self.standings.remove(&host)),
                }
                self.alive.insert(host.clone());
                match etcd {
                    Some(false) => drop(self.without_etcd.insert(host.clone())),
                    Some(true) | None => drop(self.without_etcd.remove(&host)),
                }
                self.layouts.insert(host, layout);
            }
            (Key::Server(host), Some(Record::Server(server))) => {
                self.servers.insert(host, server);
            }
            (Key::Certificate(host, serial), Some(Record::Certificate(certificate))) => {
                self.certificates.insert((host, serial), certificate);
            }
            (Key::Revoked(serial), Some(Record::Revoked(until))) => {
                self.revoked.insert(serial, until);
            }
            (Key::Authority, Some(Record::Authority(authority))) => {
                self.authority = Some((authority, revision.unwrap_or_default()));
            }
            (Key::Turn, Some(_)) => self.turn = revision,
            (Key::Network(name), Some(Record::Network(network))) => {
                self.networks.insert(name, *network);
            }
            (Key::Vni(vni), Some(Record::Vni(it))) => drop(self.vnis.insert(vni, it)),
            (Key::EncryptedVni(vni), Some(Record::Vni(it))) => {
                drop(self.encrypted_vnis.insert(vni, it))
            }
            (Key::RuledVni(vni), Some(Record::Vni(it))) => drop(self.ruled_vnis.insert(vni, it)),
            (Key::Tunnel(host, turn), Some(Record::Tunnel(key))) => {
                self.tunnels.insert((host, turn), key);
            }
            (Key::KeyTurn, Some(Record::KeyTurn(turn))) => self.key_turn = (turn, revision),
            (Key::Pin(network, address), Some(Record::Pin(pin))) => {
                self.pins.insert((network, address), (pin, revision.unwrap_or_default()));
            }
            (Key::Block(network, net), Some(Record::Block(host))) => {
                self.blocks.insert((network, net), (host, revision.unwrap_or_default()));
            }
            (Key::Endpoint(host, network, address), Some(Record::Endpoint(endpoint))) => {
                let key = (host, network, address);
                // Other names make no newer claim to the same hardware address.
                let same = self.endpoints.get(&key).filter(|(known, _)| known.mac == endpoint.mac);
                let since = same.map_or(revision.unwrap_or_default(), |(_, since)| *since);
                self.endpoints.insert(key, (endpoint, since));
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
            Key::Host(host) => {
                self.epochs.remove(host);
                self.rests.remove(host);
                self.hosts.remove(host);
            }
            Key::Alive(host) => {
                self.alive.remove(host);
                self.layouts.remove(host);
                self.without_etcd.remove(host);
                self.standings.remove(host);
            }
            Key::Authority => self.authority = None,
            Key::Server(host) => drop(self.servers.remove(host)),
            Key::Certificate(host, serial) => {
                self.certificates.remove(&(host.clone(), serial.clone()));
            }
            Key::Revoked(serial) => drop(self.revoked.remove(serial)),
            Key::Network(name) => drop(self.networks.remove(name)),
            Key::Vni(vni) => drop(self.vnis.remove(vni)),
            Key::EncryptedVni(vni) => drop(self.encrypted_vnis.remove(vni)),
            Key::RuledVni(vni) => drop(self.ruled_vnis.remove(vni)),
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

    /// Whether there is a record of a host that cannot be read.
    pub fn is_damaged(&self, host: &HostName) -> bool {
        let path = crate::layout::path(&Key::Host(host.clone()));
        self.damaged.contains_key(&model::text::shown(&path))
    }

    /// Why nothing is done to such a host.
    pub(crate) fn unreadable(&self, host: &HostName) -> Option<Error> {
        self.is_damaged(host).then(|| {
            Error::try_again(format!(
                "what etcd has of host {host} cannot be read; `spoke host ls` says why"
            ))
        })
    }

    /// The hosts of which there is such a record. They are members, and may be alive.
    pub fn damaged_hosts(&self) -> impl Iterator<Item = HostName> + '_ {
        self.damaged.keys().filter_map(|path| match crate::layout::key(path) {
            Ok(Key::Host(host)) => Some(host),
            Ok(_) | Err(_) => None,
        })
    }

    /// The record of a host, if there is one.
    pub(crate) fn record(&self, host: &HostName) -> Option<HostRecord> {
        let rest = self.rests.get(host).cloned().unwrap_or_default();
        Some(HostRecord { host: self.hosts.get(host)?.clone(), rest })
    }

    /// What later versions wrote that this one does not know, in sentences.
    pub fn unknown(&self) -> Vec<String> {
        let later = "; the version of the other hosts knows it";
        let mut all = Vec::new();
        for (name, network) in &self.networks {
            if network.hosts == Placement::Other {
                all.push(format!(
                    "network {name}: the list of its hosts has an unknown form{later}"
                ));
            }
            let engines = network.engines.others.iter().map(|engine| model::text::shown(engine));
            let engines: Vec<String> = engines.collect();
            if !engines.is_empty() {
                let engines = engines.join(", ");
                all.push(format!(
                    "network {name}: it is not made in {engines}, an unknown engine{later}"
                ));
            }
        }
        let unknown = self.pins.iter().filter(|(_, (pin, _))| pin.state == PinState::Other);
        all.extend(unknown.map(|((name, address), _)| {
            format!("address {address} of network {name}: unknown form of owner{later}")
        }));
        all.truncate(MOST_DAMAGED);
        all
    }

    /// Whether a network is on a host; never on one that is no member.
    pub fn is_on(&self, network: &SharedNetwork, host: &HostName) -> bool {
        self.hosts.get(host).is_some_and(|it| network.hosts.has(host, it))
    }

    /// Which network has claimed the VNI of this one, among those of its kind.
    pub fn vni_of(&self, network: &SharedNetwork) -> Option<&NetworkName> {
        match Key::claim(network) {
            Key::RuledVni(vni) => self.ruled_vnis.get(&vni),
            Key::EncryptedVni(vni) => self.encrypted_vnis.get(&vni),
            _ => self.vnis.get(&network.vni),
        }
    }

    /// The networks of a host.
    pub fn networks_of<'v>(
        &'v self,
        host: &'v HostName,
    ) -> impl Iterator<Item = (&'v NetworkName, &'v SharedNetwork)> {
        self.networks.iter().filter(move |(_, network)| self.is_on(network, host))
    }

    /// The blocks of a network that a host has. What is no block of the network has no host.
    pub fn blocks_of<'v>(
        &'v self,
        name: &'v NetworkName,
        host: &'v HostName,
    ) -> impl Iterator<Item = IpNet> + 'v {
        let network = self.networks.get(name);
        let of_host =
            self.blocks.iter().filter(move |((of, _), (holder, _))| of == name && holder == host);
        of_host
            .map(|((_, net), _)| *net)
            .filter(move |net| network.is_some_and(|network| network.is_block(net)))
    }

    /// The first of them.
    pub fn block(&self, name: &NetworkName, host: &HostName) -> Option<IpNet> {
        self.blocks_of(name, host).next()
    }

    /// The host in whose block an address of a network is, and when it took the block.
    pub fn block_with(&self, name: &NetworkName, address: IpAddr) -> Option<(&HostName, Revision)> {
        self.taken_block(name, address).map(|(_, holder, at)| (holder, at))
    }

    /// The same with the block.
    pub fn taken_block(
        &self,
        name: &NetworkName,
        address: IpAddr,
    ) -> Option<(IpNet, &HostName, Revision)> {
        let block = self.networks.get(name)?.block_with(address)?;
        self.blocks.get(&(name.clone(), block)).map(|(holder, at)| (block, holder, *at))
    }

    /// Whether an address of a host was taken over since that was heard of last: then all of them may be.
    pub fn is_taken_over(&self, host: &HostName) -> bool {
        let epoch = self.epochs.get(host).copied().unwrap_or_default();
        !self.alive.contains(host)
            && self.pins.values().any(|(pin, at)| pin.over.as_ref() == Some(host) && *at > epoch)
    }

    /// The host that an address was given to apart from its blocks.
    pub fn pinned(&self, name: &NetworkName, address: IpAddr) -> Option<&HostName> {
        let (pin, _) = self.pins.get(&(name.clone(), address))?;
        (pin.state == PinState::Granted).then_some(&pin.host)
    }

    /// Whether a host may have an address: it is in one of its blocks, or was given to it, and to no
    /// other one.
    pub fn may_have(&self, name: &NetworkName, host: &HostName, address: IpAddr) -> bool {
        match self.pinned(name, address) {
            Some(holder) => holder == host,
            None => self.block_with(name, address).is_some_and(|(holder, _)| holder == host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_read_is_forgotten_when_it_goes() {
        let mut view = View::default();
        let change = |is_gone| Change {
            path: "/spoke/v1/stray".to_owned(),
            is_gone,
            bytes: 0,
            read: Err("no key of Spoke's".to_owned()),
        };
        view.apply(change(false));
        assert_eq!(view.damaged.len(), 1);
        view.apply(change(true));
        assert_eq!(view, View::default());
    }

    #[test]
    fn a_host_whose_record_cannot_be_read_is_known() {
        let mut view = View::default();
        for path in ["/spoke/v1/stray", "/spoke/v1/host/b", "/spoke/v1/alive/c"] {
            let (path, read) = (path.to_owned(), Err("no record".to_owned()));
            view.apply(Change { path, is_gone: false, bytes: 0, read });
        }
        let b: HostName = "b".parse().unwrap();
        assert!(view.is_damaged(&b) && view.damaged_hosts().eq([b]));
    }
}
