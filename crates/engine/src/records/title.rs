//! What networks are called, where that is not the name that they have in the book.
//!
//! Identities of attachments hold a network's name, and the kernel's names derive from these. A network
//! with containers on it keeps its name, therefore, and gets a title. All that is written of a renaming is
//! the network's record; the title in each attachment's record follows, as settings do.

use model::{Error, Network, NetworkName, Result};

use crate::Records;
use crate::port::{Expect, Key, Outcome, Outline, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::network::exists;

/// So many networks have had one name, each before it was renamed.
const MOST_FORMER: u32 = 1000;

impl Records<'_> {
    /// The network that is called so; or else that which was called so before a command renamed it.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn called(&self, name: &NetworkName) -> Result<Option<Network>> {
        let named = self.named(name)?;
        if named.as_ref().is_some_and(|network| network.called() == name) {
            return Ok(named);
        }
        Ok(self.titled(name)?.map(|read| *read.value).or(named))
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
        Ok(self.titled(called)?.map(|read| *read.value).or(declared))
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
            if self.called(&name)?.is_none() {
                return Ok(name);
            }
        }
        Err(Error::conflict(format!("too many networks were called {called}: choose another name")))
    }

    /// Refuses where a network other than `own` is called so.
    pub(crate) fn refuse_called(&self, called: &NetworkName, own: &NetworkName) -> Result<()> {
        match self.titled(called)? {
            Some(read) if read.value.name != *own => Err(exists(called)),
            Some(_) | None => Ok(()),
        }
    }

    /// Calls a declared network so; `None` where a record changed meanwhile.
    pub(crate) fn entitle(
        &self,
        read: &Read<Box<Network>>,
        called: &NetworkName,
    ) -> Result<Option<Network>> {
        let key = Key::Network(read.value.name.clone());
        let titled = Network { title: Some(called.clone()), ..*read.value.clone() };
        let mut txn = Txn::new().expect(key.clone(), unchanged(Some(read)));
        if *called != read.value.name {
            let other = Key::Network(called.clone());
            let known = self.network_under(&other)?;
            if known.is_none() {
                txn = txn.expect(Key::Configured(called.clone()), Expect::Absent);
            }
            txn = txn.expect(other, unchanged(known.as_ref()));
        }
        let txn = txn.put(key.clone(), Record::Network(Box::new(titled.clone())));
        let Outcome::Done(revision) = self.store.commit(&txn)? else { return Ok(None) };
        // Another process may have called a network so meanwhile. Then neither stays so.
        if let Err(taken) = self.refuse_called(called, &titled.name) {
            let back = Txn::new().expect(key.clone(), Expect::At(revision));
            self.store.commit(&back.put(key, Record::Network(read.value.clone())))?;
            return Err(taken);
        }
        Ok(Some(titled))
    }

    /// The network with this title.
    fn titled(&self, called: &NetworkName) -> Result<Option<Read<Box<Network>>>> {
        let found = self.neighbours(|outline| match outline {
            Outline::Title { title, .. } => *title == called.as_str(),
            Outline::Net { .. } | Outline::Bridge { .. } | Outline::Subnet { .. } => false,
        })?;
        let is_called = |read: &Read<Box<Network>>| read.value.called() == called;
        Ok(found.networks.into_iter().find(is_called))
    }
}
