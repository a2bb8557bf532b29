//! Networks: declared by a command, or described by a runtime's configuration.

use model::{Alias, Attachment, Error, IfName, Layer, Network, NetworkName, Pool, Range, Result};

use crate::book::{Read, unchanged};
use crate::detach::Meaning;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::{Engine, Request};

impl Engine<'_> {
    /// Declares a network. Fails with `Conflict` where its name is taken or one of its subnets
    /// overlaps that of another network.
    pub fn create_network(&self, network: &Network) -> Result<()> {
        if let Some(other) = self.overlapping(network)? {
            return Err(other);
        }
        let key = Key::Network(network.name.clone());
        let txn = Txn::new()
            .expect(key.clone(), Expect::Absent)
            .put(key, Record::Network(Box::new(network.clone())));
        if let Outcome::Lost(_) = self.store.commit(&txn)? {
            let what = format!("a network named {} already exists", network.name);
            return Err(Error::conflict(what));
        }
        // Somebody may have declared an overlapping one meanwhile: then neither stays.
        match self.overlapping(network)? {
            Some(other) => {
                self.store.commit(&Txn::new().delete(Key::Network(network.name.clone())))?;
                Err(other)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn overlapping(&self, network: &Network) -> Result<Option<Error>> {
        for other in self.networks()?.into_iter().filter(|other| other.name != network.name) {
            if !self.is_in_use(&other)? {
                continue;
            }
            if let Some(clash) = clash(network, &other) {
                return Ok(Some(clash));
            }
        }
        self.handed_out(network)
    }

    /// A configuration may share a subnet with another, as it could with the reference plugins, but
    /// not take that of a network which somebody made, unless both are on one bridge.
    fn refuse_taken(&self, network: &Network) -> Result<()> {
        let declared = self.networks_in(&Prefix::Networks)?.into_iter().map(|read| read.value);
        let others: Vec<_> = declared.filter(|other| other.name != network.name).collect();
        let own = bridge(network);
        if own.is_some() && others.iter().any(|other| bridge(other) == own) {
            return Ok(());
        }
        match others.iter().find_map(|other| clash(network, other)) {
            Some(clash) => Err(clash),
            None => self.handed_out(network)?.map_or(Ok(()), Err),
        }
    }

    /// Subnets that were handed out for networks that are yet to be made are not free either.
    fn handed_out(&self, network: &Network) -> Result<Option<Error>> {
        let others = self.subnets()?.into_iter().filter(|other| other.network != network.name);
        for other in others {
            let span = other.id.part.unwrap_or(other.id.net);
            let theirs = Range::new(other.id.net, span.network(), span.broadcast(), None)?;
            let ours = network.ipam.pools().iter().filter(|pool| pool.space == other.id.space);
            if let Some(ours) = ours.flat_map(|pool| &pool.ranges).find(|our| our.overlaps(&theirs))
            {
                return Ok(Some(Error::conflict(format!(
                    "subnet {} overlaps {}, which was handed to {} for network {}",
                    ours.subnet, other.id, other.runtime, other.network
                ))));
            }
        }
        Ok(None)
    }

    /// A network that a configuration once described, and that nobody is on, holds no subnet.
    fn is_in_use(&self, network: &Network) -> Result<bool> {
        let members = Prefix::AttachmentsOf(network.name.clone());
        Ok(self.declared(&network.name)?.is_some() || !self.records(&members)?.is_empty())
    }

    /// Every network that is declared, or that a configuration described on this boot.
    pub fn networks(&self) -> Result<Vec<Network>> {
        let mut networks: Vec<Network> =
            self.networks_in(&Prefix::Networks)?.into_iter().map(|read| *read.value).collect();
        for read in self.networks_in(&Prefix::Configured)? {
            if networks.iter().all(|network| network.name != read.value.name) {
                networks.push(*read.value);
            }
        }
        networks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(networks)
    }

    /// The network of this name, or that which a runtime calls so.
    pub fn network(&self, name: &NetworkName) -> Result<Network> {
        if let Some(network) = self.named(name)? {
            return Ok(network);
        }
        let mut aliases = self.aliases()?.into_iter();
        let titled = aliases.find(|alias| alias.title.as_ref() == Some(name));
        match titled.map(|alias| self.named(&alias.network)).transpose()?.flatten() {
            Some(network) => Ok(network),
            None => {
                Err(Error::not_found(format!("no network {name}; `spoke network ls` lists them")))
            }
        }
    }

    fn named(&self, name: &NetworkName) -> Result<Option<Network>> {
        for key in [Key::Network(name.clone()), Key::Configured(name.clone())] {
            if let Some(read) = self.network_under(&key)? {
                return Ok(Some(*read.value));
            }
        }
        Ok(None)
    }

    /// The network of this name that was declared by a command, if it was.
    pub fn declared(&self, name: &NetworkName) -> Result<Option<Network>> {
        let read = self.network_under(&Key::Network(name.clone()))?;
        Ok(read.map(|read| *read.value))
    }

    /// Removes a network with what its attachments share. Refused while it has attachments, or a
    /// runtime knows it by an id of its own, unless `detach_all`.
    pub fn remove_network(&self, name: &NetworkName, detach_all: bool) -> Result<()> {
        let network = self.network(name)?;
        let name = &network.name;
        let records = self.records(&Prefix::AttachmentsOf(name.clone()))?;
        let aliases = self.aliases_of(name)?;
        if !detach_all {
            refuse_if_used(name, &records, &aliases)?;
        }
        for read in records {
            let _turn = self.host.turn(&read.value.id);
            self.detach_record(read, Meaning::Whatever)?;
        }
        let ids = aliases.into_iter().map(|alias| Key::Alias(alias.id));
        let txn = ids.fold(Txn::new(), Txn::delete);
        self.raze(&network, txn).map(|_| ())
    }

    /// Removes what the attachments of a network shared, and then what the book says about it.
    pub(crate) fn raze(&self, network: &Network, mut txn: Txn) -> Result<Outcome> {
        let name = &network.name;
        self.driver.remove(network)?;
        self.ipam.remove(network)?;
        if let Some(read) = self.records(&Prefix::AttachmentsOf(name.clone()))?.first() {
            return Err(Error::try_again(format!(
                "{} was attached while the network was being removed",
                read.value.id
            )));
        }
        txn = txn.delete(Key::Network(name.clone())).delete(Key::Configured(name.clone()));
        for pool in network.ipam.pools() {
            txn = txn.delete(Key::Cursor(pool.id.clone()));
        }
        self.store.commit(&self.forget_auxiliary(name, txn)?)
    }

    /// Adds to an attach what outlasts it: the network as it is described now, and which addresses
    /// its owner gets again.
    pub(crate) fn remember(
        &self,
        request: &Request,
        attachment: &Attachment,
        mut txn: Txn,
    ) -> Result<Txn> {
        if request.layer == Layer::Link {
            let key = Key::Configured(request.network.name.clone());
            let known = self.network_under(&key)?;
            if !is_described(known.as_ref(), &request.network) {
                self.refuse_taken(&request.network)?;
                txn = txn
                    .expect(key.clone(), unchanged(known.as_ref()))
                    .put(key, Record::Network(Box::new(request.network.clone())));
            }
        }
        match &request.owner {
            Some(owner) if request.network.sticky => {
                self.keep(&request.network.name, owner, &attachment.leases, txn)
            }
            Some(_) | None => Ok(txn),
        }
    }
}

fn is_described(known: Option<&Read<Box<Network>>>, network: &Network) -> bool {
    known.is_some_and(|read| {
        let known = &*read.value;
        *known == Network { since: known.since, runtime: known.runtime, ..network.clone() }
    })
}

/// That two networks would hand out the same addresses.
fn clash(network: &Network, other: &Network) -> Option<Error> {
    let is_theirs = |our: &Range, pool: &Pool| {
        let theirs = other.ipam.pools().iter().filter(|theirs| theirs.space == pool.space);
        theirs.flat_map(|theirs| &theirs.ranges).any(|their| our.overlaps(their))
    };
    let ours = network
        .ipam
        .pools()
        .iter()
        .find_map(|pool| pool.ranges.iter().find(|our| is_theirs(our, pool)))?;
    Some(Error::conflict(format!(
        "subnet {} overlaps network {} ({})",
        ours.subnet, other.name, other.runtime
    )))
}

fn bridge(network: &Network) -> Option<&IfName> {
    network.wiring.link.as_ref()?.kind.bridge().map(|bridge| &bridge.name)
}

fn refuse_if_used(
    name: &NetworkName,
    records: &[Read<Box<Attachment>>],
    aliases: &[Alias],
) -> Result<()> {
    if let Some(read) = records.first() {
        let (count, one) = (records.len(), &read.value.id);
        let what = format!("network {name} still has {count} attachments, {one} among them");
        return Err(Error::conflict(what));
    }
    match aliases.first() {
        Some(alias) => {
            let known = alias.title.as_ref().map_or(alias.id.as_str(), NetworkName::as_str);
            Err(Error::conflict(format!(
                "{} knows network {name} as {known}; remove it there first",
                alias.runtime
            )))
        }
        None => Ok(()),
    }
}
