//! Networks: declared by a command, or described by a runtime's configuration.

use std::collections::{BTreeMap, BTreeSet};

use model::{Alias, Attachment, Error, Layer, Network, NetworkName, Result, Stage};

use crate::amend::key_of_amendment;
use crate::book::{Read, unchanged};
use crate::closing::Closing;
use crate::detach::Meaning;
use crate::gc::all_of;
use crate::port::{Key, Outcome, Prefix, Record, Txn};
use crate::provision::exists;
use crate::{Engine, GATEWAY_NETWORK, Request};

impl Engine<'_> {
    /// Declares a network. Fails with `Conflict` where its name is taken or one of its subnets
    /// overlaps that of another network, and with `TryAgain` while a network of its name is being
    /// made or removed.
    ///
    /// Where third-party plugins need to know it ([`Network::is_remote`]), they are called before
    /// the first attachment; the record then has the pools that they allocated, not those that were
    /// asked for. After a failure nothing is left.
    pub fn create_network(&self, network: &Network) -> Result<()> {
        network.refuse_fence()?;
        network.refuse_via()?;
        self.refuse_called(network.called(), &network.name)?;
        self.clear_remains(&network.name)?;
        if network.stage == Stage::Template {
            return self.intend(network)?.map_or_else(|| Err(exists(&network.name)), |_| Ok(()));
        }
        if let Some(other) = self.overlapping(network)? {
            return Err(other);
        }
        if network.is_remote() {
            return self.provision(network);
        }
        let Some(read) = self.intend(network)? else { return Err(exists(&network.name)) };
        // Another process may have declared an overlapping network meanwhile. Then neither stays.
        let called = self.refuse_called(network.called(), &network.name).err();
        match called.map_or_else(|| self.overlapping(network), |taken| Ok(Some(taken)))? {
            Some(other) => {
                let key = Key::Network(network.name.clone());
                let unchanged = unchanged(Some(&read));
                self.store.commit(&Txn::new().expect(key.clone(), unchanged).delete(key))?;
                Err(other)
            }
            None => Ok(()),
        }
    }

    /// Every network that is declared, or that a configuration described on this boot.
    pub fn networks(&self) -> Result<Vec<Network>> {
        let mut networks = BTreeMap::new();
        for prefix in [Prefix::Configured, Prefix::Networks] {
            for read in self.networks_in(&prefix)? {
                let network = match prefix {
                    Prefix::Configured => self.unmarked(*read.value),
                    _ => *read.value,
                };
                networks.insert(network.name.clone(), network);
            }
        }
        Ok(networks.into_values().collect())
    }

    /// The network that is called so, or that which was before a command renamed it, or that which a runtime
    /// calls so.
    pub fn network(&self, name: &NetworkName) -> Result<Network> {
        if let Some(network) = self.called(name)? {
            return Ok(network);
        }
        let mut aliases = self.aliases()?.into_iter();
        let titled = aliases.find(|alias| alias.title.as_ref() == Some(name));
        let network = titled.map(|alias| self.named(&alias.network)).transpose()?.flatten();
        network.ok_or_else(|| unknown(name))
    }

    /// The network with this name in the book.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none.
    pub fn network_of(&self, name: &NetworkName) -> Result<Network> {
        self.named(name)?.ok_or_else(|| unknown(name))
    }

    /// The network with this name in the book, if there is one: a declared one rather than a configuration's.
    pub fn named(&self, name: &NetworkName) -> Result<Option<Network>> {
        if let Some(read) = self.network_under(&Key::Network(name.clone()))? {
            return Ok(Some(*read.value));
        }
        let configured = self.network_under(&Key::Configured(name.clone()))?;
        Ok(configured.map(|read| self.unmarked(*read.value)))
    }

    /// The network of this name that was declared by a command, if it was.
    pub fn declared(&self, name: &NetworkName) -> Result<Option<Network>> {
        let read = self.network_under(&Key::Network(name.clone()))?;
        Ok(read.map(|read| *read.value))
    }

    /// Removes a network with what its attachments share. Refused while it has attachments, or a
    /// runtime knows it by an id of its own, unless `detach_all`. [`GATEWAY_NETWORK`] is always
    /// refused while it has attachments, because these would need it again at once.
    ///
    /// Third-party plugins that know it are called too: its addresses are released first (Docker's
    /// order). Fails with `TryAgain` while another process makes or removes it. On an error the
    /// record stays, and this can be repeated.
    pub fn remove_network(&self, name: &NetworkName, detach_all: bool) -> Result<()> {
        let network = self.network(name)?;
        let name = &network.name;
        // Its attachments need it as long as they have no other default gateway.
        let detach_all = detach_all && name.as_str() != GATEWAY_NETWORK;
        self.revive_endpoints(Some(name))?;
        if network.stage == Stage::Template {
            return self.store.commit(&Txn::new().delete(Key::Network(name.clone()))).map(|_| ());
        }
        if network.is_remote() && self.declared(name)?.is_some() {
            return self.unmake(name, detach_all);
        }
        self.refuse_if_unreadable(name)?;
        let records = self.records(&Prefix::AttachmentsOf(name.clone()))?;
        let aliases = self.aliases_of(name)?;
        if !detach_all {
            refuse_if_used(name, &records, &aliases)?;
        }
        self.detach_all(records)?;
        let ids = aliases.into_iter().map(|alias| Key::Alias(alias.id));
        let txn = ids.fold(Txn::new(), Txn::delete);
        match self.raze(&network, txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => Err(Error::try_again(format!(
                "network {name} came into use while it was being removed"
            ))),
        }
    }

    /// Detaches them; sandboxes that Spoke connects get another default gateway. An error does not
    /// end the work; all errors are reported.
    pub(crate) fn detach_all(&self, records: Vec<Read<Box<Attachment>>>) -> Result<()> {
        let mut failures = Vec::new();
        let mut sandboxes = BTreeSet::new();
        for read in records {
            if read.value.gateway_role.is_some() {
                sandboxes.insert(read.value.sandbox_name().clone());
            }
            let _lock = self.host.lock_attachment(&read.value.id);
            failures.extend(self.detach_record(read, Meaning::Whatever).err());
        }
        let has_sandboxes = !sandboxes.is_empty();
        for container in sandboxes {
            // Where this fails the sandbox's record says so, and it is tried again.
            let _ = self.update_gateway(&container);
        }
        if has_sandboxes {
            // If this fails, the reconciler does it.
            let _ = self.name_sandboxes();
        }
        all_of(failures)
    }

    /// Removes what the attachments of a network shared, and then what the store says about it. Nothing is
    /// removed where something is attached.
    pub(crate) fn raze(&self, network: &Network, txn: Txn) -> Result<Outcome> {
        let name = &network.name;
        self.refuse_if_unreadable(name)?;
        let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
        match self.while_closed(network, is_over, || self.raze_closed(network, txn))? {
            Closing::Done(outcome) => Ok(outcome),
            Closing::Used(attachment) => {
                Ok(Outcome::Lost(Key::Attachment(attachment.id, attachment.layer)))
            }
        }
    }

    fn raze_closed(&self, network: &Network, mut txn: Txn) -> Result<Outcome> {
        let name = &network.name;
        match network.is_remote() {
            // Docker's order, whatever the first of them says.
            true => {
                let given_back = self.ipam.remove(network);
                self.driver.remove(network).and(given_back)?;
            }
            false => self.driver.remove(network).and_then(|()| self.ipam.remove(network))?,
        }
        txn = txn.delete(Key::Network(name.clone())).delete(Key::Configured(name.clone()));
        for pool in network.ipam.pools() {
            txn = txn.delete(Key::Cursor(pool.id.clone()));
        }
        for read in self.amendments_in(&Prefix::AmendmentsOf(name.clone()))? {
            txn = txn.delete(key_of_amendment(&read.value));
        }
        for (key, _) in self.usages_of(name)? {
            txn = txn.delete(key);
        }
        self.store.commit(&self.forget_auxiliary(name, txn)?)
    }

    /// Adds to an attach what outlasts it: the network as it is described now, and which addresses
    /// its owner gets again.
    pub(crate) fn remember(
        &self,
        request: &Request,
        attachment: &Attachment,
        txn: Txn,
    ) -> Result<Txn> {
        let (known, mut txn) = self.expect_open(&request.network, request.layer, txn)?;
        if request.layer == Layer::Link {
            let wiring = &request.network.wiring;
            if wiring.via.is_some() || wiring.fence.is_some() {
                self.refuse_rivals(&request.network)?;
            }
            if !is_described(known.as_ref(), &request.network) {
                self.refuse_taken(&request.network)?;
                let key = Key::Configured(request.network.name.clone());
                txn = txn.put(key, Record::Network(Box::new(request.network.clone())));
            }
        }
        match request.sticky_owner() {
            Some(owner) => self.keep(&request.network.name, owner, &attachment.leases, txn),
            None => Ok(txn),
        }
    }
}

fn is_described(known: Option<&Read<Box<Network>>>, network: &Network) -> bool {
    known.is_some_and(|read| {
        let known = &*read.value;
        *known == Network { since: known.since, runtime: known.runtime, ..network.clone() }
    })
}

pub(crate) fn refuse_if_used(
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

fn unknown(name: &NetworkName) -> Error {
    Error::not_found(format!("no network {name}; `spoke network ls` lists them"))
}
