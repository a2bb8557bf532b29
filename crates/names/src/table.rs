//! What containers are called, and who may ask for it.

mod askers;
mod elsewhere;
mod entry;
mod index;
mod sandbox;
mod served;
mod served_gateway;
mod titles;
mod ways;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use model::{
    Alias, AliasId, Attachment, AttachmentId, Fence, IfName, IpNet, Layer, Moment, NamedElsewhere,
    Network, NetworkName, Runtime, name_domain,
};

use elsewhere::Elsewhere;
pub use entry::Entry;
use index::{Index, drop_member};
pub use sandbox::Sandbox;
use served::Served;
pub use served_gateway::ServedGateway;
use titles::{Plain, Titles, entitle};
use ways::Ways;

/// Who asks, as far as it is known: where the query came in, and from which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker<'a> {
    /// The network at whose gateway the query came in.
    pub network: &'a NetworkName,
    /// Its source.
    pub address: IpAddr,
}

/// Everything that can be asked for.
#[derive(Debug, Default)]
pub struct Table {
    /// By name, and whether a command declared it or a runtime's configuration describes it.
    networks: BTreeMap<(NetworkName, bool), Served>,
    /// The same of networks that only attachments tell of.
    attached: BTreeMap<AttachmentId, (NetworkName, Served)>,
    here: Index<AttachmentId>,
    by_sandbox: HashMap<PathBuf, BTreeSet<AttachmentId>>,
    elsewhere: Elsewhere,
    ways: Ways,
    titles: Titles,
    /// What is made of them, and of what networks are called.
    plain: OnceLock<Plain>,
    serves_host: bool,
    generation: u64,
    sandbox_generation: u64,
    now: Option<Moment>,
}

impl Table {
    /// A network is as it says now, or gone. One that a command declared may have the name of one that a
    /// runtime's configuration describes.
    pub fn put_network(&mut self, name: &NetworkName, declared: bool, now: Option<&Network>) {
        self.sandbox_generation += u64::from(self.ways.put_network(name, declared, now));
        let served = now.and_then(|now| {
            let network = (&now.wiring, &now.ipam, now.dns.nameservers.as_slice());
            let served = Served::of((name, now.called(), &now.former), network)?;
            let maker = now.title.is_none().then_some(now.runtime);
            Some(Served { maker, ..served })
        });
        let key = (name.clone(), declared);
        if self.networks.get(&key) == served.as_ref() {
            return;
        }
        self.has_changed();
        match served {
            Some(served) => self.networks.insert(key, served),
            None => self.networks.remove(&key),
        };
    }

    /// An attachment is as it says now, or gone. Returns the addresses that it has no more.
    pub fn put_attachment(
        &mut self,
        id: &AttachmentId,
        layer: Layer,
        now: Option<&Attachment>,
    ) -> Vec<IpAddr> {
        if layer != Layer::Link {
            return Vec::new();
        }
        self.sandbox_generation += u64::from(self.ways.put(id, now));
        let served = now.and_then(|now| {
            let network = (&now.wiring, &now.ipam, now.dns.nameservers.as_slice());
            Some((id.network.clone(), Served::of((&id.network, now.network(), &[]), network)?))
        });
        if self.attached.get(id) != served.as_ref() {
            self.has_changed();
            match served {
                Some(served) => self.attached.insert(id.clone(), served),
                None => self.attached.remove(id),
            };
        }
        let mut gone = self.here.get(id).map(|it| it.addresses.clone()).unwrap_or_default();
        self.forget(id);
        if let Some(entry) = now.and_then(Entry::of) {
            gone.retain(|address| !entry.addresses.contains(address));
            self.remember(id, entry);
        }
        gone
    }

    /// What a runtime calls a network is as it says now, or gone.
    pub fn put_alias(&mut self, id: &AliasId, now: Option<&Alias>) {
        if self.titles.put(id, now) {
            self.has_changed();
        }
    }

    fn has_changed(&mut self) {
        self.generation += 1;
        self.plain = OnceLock::new();
    }

    /// These are all containers of other hosts that have names.
    pub fn put_elsewhere(&mut self, all: &[NamedElsewhere]) {
        self.elsewhere.put(all);
    }

    /// Whether this host asks, too.
    pub fn set_host(&mut self, asks: bool) {
        self.serves_host = asks;
    }

    /// Whether the one who asks at a gateway by this address is this host: it sends from the address that it asks, and
    /// nothing that has that comes from elsewhere.
    pub(crate) fn is_host(&self, place: &ServedGateway, peer: IpAddr) -> bool {
        self.serves_host && peer == place.address()
    }

    /// Whether an address is one of another network than these, whose names this host resolves.
    pub(crate) fn is_only_hosts(&self, networks: &[&NetworkName], address: IpAddr) -> bool {
        let is_it = |place: &ServedGateway| {
            !networks.contains(&&place.network) && place.gateway.contains(&address)
        };
        self.serves_host && self.all_places().any(is_it)
    }

    /// Whether an address is in a subnet of a network whose names are asked for here.
    pub(crate) fn is_in_a_subnet(&self, address: IpAddr) -> bool {
        self.all_places().any(|place| place.gateway.contains(&address))
    }

    /// The subnets of networks whose names are asked for here.
    pub(crate) fn subnets_of(&self, networks: &[&NetworkName]) -> impl Iterator<Item = IpNet> {
        let of_these = |place: &&ServedGateway| networks.contains(&&place.network);
        self.all_places().filter(of_these).map(|place| place.gateway.trunc())
    }

    /// What time it is, for fences that learn for a while. As long as it is not set, none does.
    pub fn set_time(&mut self, now: Option<Moment>) {
        self.now = now;
    }

    /// What a network allows, where it has a fence: as a command declared it, or else a configuration, or the
    /// first of its attachments.
    pub fn fence_of(&self, network: &NetworkName) -> Option<&Fence> {
        self.served(network)?.fence.as_ref()
    }

    /// The mark of what is asked of others for a network, where it has a way out of its own.
    pub(crate) fn way_of(&self, network: &NetworkName) -> Option<u32> {
        self.served(network)?.way
    }

    /// The domains in which the names of a network stand: that of what it is called, and that of what it was
    /// before it was renamed or is by runtimes, unless another network is called so now.
    pub(crate) fn domains_of(&self, network: &NetworkName) -> Vec<String> {
        let place = self.place_of(network);
        place.map_or_else(|| vec![name_domain(network)], |place| place.domains(self.all_places()))
    }

    /// What a network is called.
    pub fn called(&self, network: &NetworkName) -> NetworkName {
        self.place_of(network).map_or_else(|| network.clone(), |place| place.called.clone())
    }

    /// What a container is called in the first domain of its network.
    pub(crate) fn full_name(&self, entry: &Entry) -> String {
        format!("{}.{}", entry.name, name_domain(&self.called(&entry.network)))
    }

    fn place_of(&self, network: &NetworkName) -> Option<Cow<'_, ServedGateway>> {
        let served = self.served(network)?;
        served.places.first().map(|place| self.entitled(place, served))
    }

    /// The place with what runtimes call its network.
    fn entitled<'a>(&self, place: &'a ServedGateway, served: &Served) -> Cow<'a, ServedGateway> {
        let plain = self.plain.get_or_init(|| self.titles.plain(self.all_places()));
        let Some(titles) = plain.get(&place.network) else { return Cow::Borrowed(place) };
        let mut entitled = place.clone();
        entitle(&mut entitled, titles, served.maker);
        Cow::Owned(entitled)
    }

    /// The bridge of a network.
    pub fn bridge_of(&self, network: &NetworkName) -> Option<&IfName> {
        self.served(network)?.places.first().map(|place| &place.bridge)
    }

    /// The container that has an address on the network behind a bridge.
    pub fn behind(&self, bridge: &str, address: IpAddr) -> (Option<&NetworkName>, Option<&Entry>) {
        let is_there = |place: &&ServedGateway| place.bridge.as_str() == bridge;
        let networks: Vec<&NetworkName> =
            self.all_places().filter(is_there).map(|place| &place.network).collect();
        (networks.first().copied(), self.holder(&networks, address))
    }

    /// The first container of whose attachment this holds.
    pub fn attached(&self, holds: impl Fn(&AttachmentId) -> bool) -> Option<&Entry> {
        self.here.iter().find(|(id, _)| holds(id)).map(|(_, entry)| entry)
    }

    /// Changes whenever [`Table::places`] may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes whenever [`Table::sandboxes`] may have changed.
    pub fn sandbox_generation(&self) -> u64 {
        self.sandbox_generation + self.generation
    }

    /// The sandboxes with a server of their own, which are those of Docker's containers.
    pub fn sandboxes(&self) -> BTreeSet<Sandbox> {
        let own = |entry: &&Entry| entry.runtime == Some(Runtime::Docker);
        let mut all: BTreeMap<&PathBuf, (u64, bool)> = BTreeMap::new();
        for entry in self.here.iter().map(|(_, entry)| entry).filter(own) {
            let Some((path, inode)) = &entry.sandbox else { continue };
            let (known, is_shut) = all.entry(path).or_default();
            *known = (*known).max(*inode);
            *is_shut |= entry.fence.is_some() || self.is_shut(&entry.network);
        }
        let sandbox = |(path, (inode, is_shut)): (&PathBuf, (u64, bool))| {
            let is_shut = is_shut || self.ways.of(path, inode).is_some();
            Sandbox { path: path.clone(), inode, is_shut }
        };
        all.into_iter().map(sandbox).collect()
    }

    /// The container in the sandbox at this path: what it is called, or else its id.
    pub(crate) fn container_in(&self, path: &Path) -> Option<String> {
        let is_in = |it: &&Entry| it.sandbox.as_ref().is_some_and(|(own, _)| own == path);
        let entry = self.here.iter().map(|(_, entry)| entry).find(is_in)?;
        Some(if entry.name.is_empty() { entry.container.clone() } else { entry.name.clone() })
    }

    /// Whether only this host's servers may be asked for a network: it has a fence, or a way out of its own.
    pub(crate) fn is_shut(&self, network: &NetworkName) -> bool {
        self.fence_of(network).is_some() || self.way_of(network).is_some()
    }

    /// Where queries come in, each address once.
    pub fn places(&self) -> Vec<ServedGateway> {
        let mut places: BTreeMap<IpAddr, ServedGateway> = BTreeMap::new();
        for (place, served) in
            self.all_served().flat_map(|it| it.places.iter().map(move |at| (at, it)))
        {
            let entitled = || self.entitled(place, served).into_owned();
            places.entry(place.address()).or_insert_with(entitled);
        }
        places.into_values().collect()
    }

    /// The networks whose names are answered for, each once.
    pub fn networks(&self) -> Vec<&NetworkName> {
        let all: BTreeSet<&NetworkName> = self.all_places().map(|place| &place.network).collect();
        all.into_iter().collect()
    }

    fn all_places(&self) -> impl Iterator<Item = &ServedGateway> {
        self.all_served().flat_map(|served| &served.places)
    }

    fn all_served(&self) -> impl Iterator<Item = &Served> {
        self.networks.values().chain(self.attached.values().map(|(_, served)| served))
    }

    /// Everybody who has a name, by network and name.
    pub fn entries(&self) -> Vec<(&NetworkName, &Entry)> {
        let elsewhere = self.elsewhere.index().iter().map(|(_, entry)| entry);
        let all = self.here.iter().map(|(_, entry)| entry).chain(elsewhere);
        let mut all: Vec<_> = all.map(|entry| (&entry.network, entry)).collect();
        all.sort_by(|(one_network, one), (other_network, other)| {
            (one_network, &one.name, &one.host, &one.addresses).cmp(&(
                other_network,
                &other.name,
                &other.host,
                &other.addresses,
            ))
        });
        all
    }

    /// Whether a container of the network has the asker's address.
    pub fn is_known(&self, asker: &Asker<'_>) -> bool {
        self.holder(&[asker.network], asker.address).is_some()
    }

    /// The addresses of a name, without its domain, on some networks.
    pub fn find<'a>(&'a self, networks: &[&NetworkName], name: &str) -> Vec<&'a Entry> {
        let here = networks.iter().flat_map(|it| self.here.find(it, name));
        here.chain(networks.iter().flat_map(|it| self.elsewhere.index().find(it, name))).collect()
    }

    /// Who has an address on one of these networks, on this host or another one.
    pub fn named_at(&self, networks: &[&NetworkName], address: IpAddr) -> Option<&Entry> {
        let elsewhere = || networks.iter().find_map(|it| self.elsewhere.index().at(it, address));
        self.holder(networks, address).or_else(elsewhere)
    }

    /// Who has an address on one of these networks, on this host: only they ask here.
    pub fn holder(&self, networks: &[&NetworkName], address: IpAddr) -> Option<&Entry> {
        networks.iter().find_map(|it| self.here.at(it, address))
    }

    /// The interfaces of the asker's sandbox; none where no container has its address.
    fn sandbox_of(&self, asker: &Asker<'_>) -> Vec<&Entry> {
        let Some(own) = self.holder(&[asker.network], asker.address) else { return Vec::new() };
        let Some((path, inode)) = &own.sandbox else { return vec![own] };
        let ids = self.by_sandbox.get(path).into_iter().flatten();
        let all = ids.filter_map(|id| self.here.get(id));
        let is_in = |entry: &&Entry| {
            entry.sandbox.as_ref().is_some_and(|(_, other)| is_same(*other, *inode))
        };
        all.filter(is_in).collect()
    }

    fn served(&self, network: &NetworkName) -> Option<&Served> {
        let attached = || self.attached.values().find(|(name, _)| name == network);
        self.recorded(network).or_else(|| attached().map(|(_, served)| served))
    }

    /// What the network's own record says: a command's, or else that of a configuration.
    fn recorded(&self, network: &NetworkName) -> Option<&Served> {
        let known = [true, false].map(|declared| (network.clone(), declared));
        known.iter().find_map(|key| self.networks.get(key))
    }

    fn remember(&mut self, id: &AttachmentId, entry: Entry) {
        if let Some((path, _)) = &entry.sandbox {
            self.by_sandbox.entry(path.clone()).or_default().insert(id.clone());
            self.sandbox_generation += u64::from(entry.runtime == Some(Runtime::Docker));
        }
        self.here.add(&id.network, id.clone(), entry);
    }

    fn forget(&mut self, id: &AttachmentId) {
        let Some(entry) = self.here.remove(&id.network, id) else { return };
        if let Some((path, _)) = &entry.sandbox {
            drop_member(&mut self.by_sandbox, path, id);
            self.sandbox_generation += u64::from(entry.runtime == Some(Runtime::Docker));
        }
    }
}

/// Whether two records of one path mean one sandbox, by the inodes of its namespace, of which 0 is not known:
/// another namespace may have been at the same path before.
fn is_same(one: u64, other: u64) -> bool {
    one == other || one == 0 || other == 0
}
