//! The titles of networks: what they are called where that is not their name in the book.
//!
//! Identities of attachments hold a network's name, and the kernel's names derive from these. A network
//! with containers on it keeps its name, therefore, and gets a title. All that is written of a renaming is
//! the network's record; the title in each attachment's record follows, as settings do.

use model::{Error, Network, NetworkName, Result};

use crate::Records;
use crate::port::{Expect, Key, Outcome, Outline, Record, Txn};
use crate::records::book::{Read, passable, unchanged};
use crate::records::described::Description;
use crate::records::network::exists;

/// So many networks have had one name, each before it was renamed.
const MOST_FORMER: u32 = 1000;

impl Records<'_> {
    /// The network that is called so; or else, where no runtime's file describes one of that name, the last that was
    /// called so before a command renamed it.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn called(&self, name: &NetworkName) -> Result<Option<Network>> {
        self.called_beside(&self.description(name))
    }

    /// As [`Records::called`], beside what a runtime's file describes.
    pub(crate) fn called_beside(&self, description: &Description<'_>) -> Result<Option<Network>> {
        let name = description.name();
        let found = self.known_by(name)?;
        Ok(found.filter(|network| network.called() == name || !description.is_any()))
    }

    /// The network that is called so, or else the last that was.
    fn known_by(&self, name: &NetworkName) -> Result<Option<Network>> {
        let named = self.named(name)?;
        if named.as_ref().is_some_and(|network| network.called() == name) {
            return Ok(named);
        }
        let mut known = self.known_as(name)?;
        let titled = known.iter().position(|network| network.called() == name);
        let found = titled.or_else(|| known.len().checked_sub(1)).map(|at| known.swap_remove(at));
        Ok(found.or(named))
    }

    /// The networks that were called so before commands renamed them, the last one first.
    ///
    /// # Errors
    /// As [`Records::called`].
    pub fn formerly(&self, name: &NetworkName) -> Result<Vec<Network>> {
        let mut known = self.known_as(name)?;
        known.retain(|network| network.called() != name);
        known.reverse();
        Ok(known)
    }

    /// The name in the book of the network that is called so; the same where there is none.
    ///
    /// # Errors
    /// As [`Records::called`].
    pub fn name_of(&self, called: &NetworkName) -> Result<NetworkName> {
        Ok(self.called(called)?.map_or_else(|| called.clone(), |network| network.name))
    }

    /// The declared network that is called so; none where a configuration's has the name.
    ///
    /// # Errors
    /// As [`Records::called`].
    pub fn declared_as(&self, called: &NetworkName) -> Result<Option<Network>> {
        let declared = self.declared(called)?;
        if declared.as_ref().is_some_and(|network| network.called() == called) {
            return Ok(declared);
        }
        let configured = Key::Configured(called.clone());
        if declared.is_none() && self.network_under(&configured)?.is_some() {
            return Ok(None);
        }
        self.called(called)
    }

    /// The name in the book for a new network that is to be called so: another one where a network had that
    /// before it was renamed.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where a renamed network is called so.
    pub fn name_for(&self, called: &NetworkName) -> Result<NetworkName> {
        self.refuse_called(called, called)?;
        match self.declared(called)? {
            Some(named) if named.called() != called => {}
            Some(_) | None => return Ok(called.clone()),
        }
        for number in 2..MOST_FORMER {
            let name: NetworkName = format!("{called}-{number}").parse()?;
            if self.known_by(&name)?.is_none() && !self.is_described(&name) {
                return Ok(name);
            }
        }
        Err(Error::conflict(format!("too many networks were called {called}: choose another name")))
    }

    /// Refuses where a network other than `own` is called so.
    pub(crate) fn refuse_called(&self, called: &NetworkName, own: &NetworkName) -> Result<()> {
        let is_other = |it: &Network| it.called() == called && it.name != *own;
        match self.known_as(called)?.iter().any(is_other) {
            true => Err(exists(called)),
            false => Ok(()),
        }
    }

    /// Adds to a transaction that a declared network is called so from then on, and no other one meanwhile.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where another network is called so.
    pub(crate) fn claim_title(
        &self,
        called: &NetworkName,
        own: &NetworkName,
        txn: Txn,
    ) -> Result<Txn> {
        let key = Key::Title(called.clone());
        // It is read before the networks are: who is called so since then has changed it.
        let known = passable(self.title_under(&key))?.flatten();
        self.refuse_called(called, own)?;
        Ok(txn.require(key.clone(), unchanged(known.as_ref())).put(key, Record::Title(own.clone())))
    }

    /// Calls a declared network so; `None` where a record changed meanwhile.
    pub(crate) fn entitle(
        &self,
        read: &Read<Box<Network>>,
        called: &NetworkName,
    ) -> Result<Option<Network>> {
        let key = Key::Network(read.value.name.clone());
        let titled = self.with_title(&read.value, called)?;
        let mut txn = self.claim_title(called, &titled.name, Txn::new())?;
        txn = txn.require(key.clone(), unchanged(Some(read)));
        if *called != read.value.name {
            let other = Key::Network(called.clone());
            let known = self.network_under(&other)?;
            if known.is_none() {
                txn = txn.require(Key::Configured(called.clone()), Expect::Absent);
            }
            txn = txn.require(other, unchanged(known.as_ref()));
        }
        let txn = leave_title(txn, &read.value, Some(called));
        let txn = txn.put(key, Record::Network(Box::new(titled.clone())));
        let done = matches!(self.store.commit(&txn)?, Outcome::Done(_));
        Ok(done.then_some(titled))
    }

    /// The network as it is called otherwise, with one former name more.
    fn with_title(&self, network: &Network, called: &NetworkName) -> Result<Network> {
        let mut titled = network.clone();
        titled.entitle(called.clone(), self.next_order(network.called())?);
        Ok(titled)
    }

    /// [`model::FormerName::order`] of a network that leaves the name now.
    pub(crate) fn next_order(&self, left: &NetworkName) -> Result<u32> {
        let known = self.known_as(left)?;
        let last = known.iter().filter_map(|network| network.order_of(left)).max();
        Ok(last.unwrap_or_default().saturating_add(1))
    }

    /// The declared networks that are, or were, called so; of those that were, the last one last.
    fn known_as(&self, name: &NetworkName) -> Result<Vec<Network>> {
        let found = self.neighbours(|outline| match outline {
            Outline::Title { title, .. } => *title == name.as_str(),
            Outline::Net { .. } | Outline::Bridge { .. } | Outline::Subnet { .. } => false,
        })?;
        let mut known: Vec<Network> = found.networks.into_iter().map(|read| *read.value).collect();
        let in_book = passable(self.declared(name))?.flatten();
        known.extend(in_book.filter(|it| known.iter().all(|other| other.name != it.name)));
        known.retain(|network| network.called() == name || network.order_of(name).is_some());
        known.sort_by_key(|network| network.order_of(name));
        Ok(known)
    }
}

/// Adds to a transaction that ends the network, or calls it otherwise, that its name is left.
pub(crate) fn leave_title(txn: Txn, network: &Network, next: Option<&NetworkName>) -> Txn {
    match next == Some(network.called()) {
        true => txn,
        false => txn.delete(Key::Title(network.called().clone())),
    }
}
