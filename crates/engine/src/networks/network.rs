//! Networks: declared by a command, or described by a runtime's configuration.

use std::collections::BTreeSet;

use model::{Alias, Attachment, Error, Network, NetworkName, Result, Stage, Unmaking};

use crate::contention::RACES;
use crate::failures::all_of;
use crate::links::detach::Meaning;
use crate::networks::closing::Closing;
use crate::port::{Key, Outcome, Prefix, Txn};
use crate::records::book::{Read, key_of_amendment, passable, unchanged};
use crate::records::network::exists;
use crate::records::title::leave_title;
use crate::records::whose::refuse_attached;
use crate::{GATEWAY_NETWORK, Networks};

impl Networks<'_> {
    /// Declares a network. Fails with `Conflict` where its name is taken or one of its subnets
    /// overlaps that of another network, and with `TryAgain` while a network of its name is being
    /// made or removed.
    ///
    /// Where third-party plugins need to know it ([`Network::is_remote`]), they are called before
    /// the first attachment; the record then has the pools that they allocated, not those that were
    /// asked for. After a failure nothing is left.
    pub fn create(&self, network: &Network) -> Result<()> {
        network.refuse_fence()?;
        network.refuse_via()?;
        self.records.refuse_called(network.called(), &network.name)?;
        self.records.refuse_own_container(network)?;
        self.clear_remains(&network.name)?;
        // Of one that is there it is said that it exists.
        if self.records.declared(&network.name)?.is_none() {
            self.driver.refuse_sources(network)?;
        }
        if network.stage == Stage::Template {
            return self.intend(network)?.map_or_else(|| Err(exists(network.called())), |_| Ok(()));
        }
        if let Some(other) = self.addresses.overlapping(network)? {
            return Err(other);
        }
        if network.is_remote() {
            return self.provision(network);
        }
        let Some(read) = self.intend(network)? else { return Err(exists(network.called())) };
        // Another process may have declared an overlapping network meanwhile. Then neither stays.
        match self.addresses.overlapping(network)? {
            Some(other) => {
                self.store.commit(&ended(&read))?;
                Err(other)
            }
            None => Ok(()),
        }
    }

    /// Removes a network with what its attachments share. Refused while it has attachments, or a
    /// runtime knows it by an id of its own, unless `detach_all`. [`GATEWAY_NETWORK`] is always
    /// refused while it has attachments, because these would need it again at once.
    ///
    /// Third-party plugins that know it are called too: its addresses are released first (Docker's
    /// order). Fails with `TryAgain` while another process makes or removes it. On an error the
    /// record stays, and this can be repeated.
    pub fn remove(&self, name: &NetworkName, detach_all: bool) -> Result<()> {
        let network = self.records.network(name)?;
        let name = &network.name;
        // Its attachments need it as long as they have no other default gateway.
        let detach_all = detach_all && name.as_str() != GATEWAY_NETWORK;
        self.revive_endpoints(Some(name))?;
        if network.stage == Stage::Template {
            return self.remove_template(name);
        }
        if network.is_remote() && self.records.declared(name)?.is_some() {
            return self.unmake(name, detach_all);
        }
        self.records.refuse_if_unreadable(name)?;
        let records = self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?;
        let aliases = self.records.aliases_of(name)?;
        if !detach_all {
            refuse_if_used(network.called(), &records, &aliases)?;
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

    /// Nothing was made of it: only its record ends.
    fn remove_template(&self, name: &NetworkName) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.network_under(&Key::Network(name.clone()))? else {
                return Ok(());
            };
            if let Outcome::Done(_) = self.store.commit(&ended(&read))? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("removing network {name}: lost {RACES} races in a row")))
    }

    /// Detaches them; sandboxes that Spoke connects get another default gateway. An error does not
    /// end the work; all errors are reported.
    pub(super) fn detach_all(&self, records: Vec<Read<Box<Attachment>>>) -> Result<()> {
        let mut failures = Vec::new();
        let mut sandboxes = BTreeSet::new();
        for read in records {
            if read.value.gateway_role.is_some() {
                sandboxes.insert(read.value.sandbox_name().clone());
            }
            let _lock = self.host.lock_attachment(&read.value.id);
            failures.extend(self.links.detach_record(read, Meaning::Whatever).err());
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
    pub(super) fn raze(&self, network: &Network, txn: Txn) -> Result<Outcome> {
        let name = &network.name;
        self.records.refuse_if_unreadable(name)?;
        let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
        match self.while_closed((network, Unmaking::Removed), is_over, || {
            self.raze_closed(network, txn)
        })? {
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
        // What it is called is left by the same transaction, and may have changed since it was read.
        let key = Key::Network(name.clone());
        let read = passable(self.records.network_under(&key))?.flatten();
        // A damaged record goes, too.
        let ended = read.map_or_else(|| Txn::new().delete(key), |read| ended(&read));
        txn = txn.and(ended).delete(Key::Configured(name.clone()));
        for pool in network.ipam.pools() {
            txn = txn.delete(Key::Cursor(pool.id.clone()));
        }
        for read in self.records.amendments_in(&Prefix::AmendmentsOf(name.clone()))? {
            txn = txn.delete(key_of_amendment(&read.value));
        }
        for (key, _) in self.links.usages_of(name)? {
            txn = txn.delete(key);
        }
        self.store.commit(&self.subnets.forget_auxiliary(name, txn)?)
    }
}

/// That a declared network is there no more, if it is as it was read.
pub(super) fn ended(read: &Read<Box<Network>>) -> Txn {
    let key = Key::Network(read.value.name.clone());
    let txn = Txn::new().require(key.clone(), unchanged(Some(read))).delete(key);
    leave_title(txn, &read.value, None)
}

pub(crate) fn refuse_if_used(
    name: &NetworkName,
    records: &[Read<Box<Attachment>>],
    aliases: &[Alias],
) -> Result<()> {
    refuse_attached(name, records)?;
    match aliases.first() {
        Some(alias) => {
            let known = alias.title.as_ref().map_or(alias.id.as_str(), NetworkName::as_str);
            Err(Error::conflict(format!(
                "{0} knows network {name} as {known}: remove it there, with `{0} network rm {known}`",
                alias.runtime
            )))
        }
        None => Ok(()),
    }
}
