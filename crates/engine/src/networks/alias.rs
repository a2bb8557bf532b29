//! Networks under the ids that runtimes give to them.
//!
//! Several ids may stand for one network. Adding or removing an id also writes the network's record
//! again, so that no process removes the network with its last id while another process adds one.

use std::collections::BTreeSet;

use model::{
    Alias, AliasId, AttachmentId, EngineId, Error, Network, NetworkName, Phase, Result, Runtime,
};

use crate::Networks;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::port::{Expect, Key, Outcome, Prefix, Record, Revision, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::title::leave_title;

impl Networks<'_> {
    /// Makes `network`, or joins the one of its name that exists, and knows it under `alias` from
    /// then on. What its attachments share is there afterwards. Repeating it is no error; an id
    /// that stands for another network is a [`model::Kind::Conflict`], and so is a new network
    /// whose subnets overlap those of another. After a failure nothing is left.
    pub fn enroll(&self, alias: &Alias, network: &Network) -> Result<Network> {
        if alias.network != network.name {
            return Err(Error::bug(format!("{} enrolled for {}", alias.network, network.name)));
        }
        for _ in 0..RACES {
            if let Some(enrolled) = self.try_enroll(alias, network)? {
                return self.raise(enrolled);
            }
        }
        Err(Error::try_again(format!("network {} changes all the time", network.name)))
    }

    /// Commits the intent, unless another process was faster.
    fn try_enroll(&self, alias: &Alias, wanted: &Network) -> Result<Option<Enrolled>> {
        let known = self.records.alias_of(&alias.id)?;
        if let Some(known) = known.as_ref().filter(|known| known.value.network != wanted.name) {
            return Err(Error::conflict(format!(
                "the id {} stands for network {} already",
                alias.id, known.value.network
            )));
        }
        let key = Key::Network(wanted.name.clone());
        let declared = self.records.network_under(&key)?;
        if let Some(declared) = &declared {
            self.records.refuse_stage(&declared.value)?;
        } else if wanted.is_remote() {
            self.records.refuse_unmade(wanted)?;
        }
        if let (Some(_), Some(declared)) = (&known, &declared) {
            let network = declared.value.clone();
            let nothing = Enrolled { network, revision: None, new_alias: None, new_network: None };
            return Ok(Some(nothing));
        }
        let network = match &declared {
            Some(declared) => declared.value.clone(),
            None => self.undeclared(wanted)?,
        };
        let id = Key::Alias(alias.id.clone());
        let mut txn = Txn::new()
            .require(id.clone(), unchanged(known.as_ref()))
            .require(key.clone(), unchanged(declared.as_ref()))
            .put(key.clone(), Record::Network(network.clone()));
        if known.is_none() {
            txn = txn.put(id.clone(), Record::Alias(alias.clone()));
        }
        if declared.is_none() {
            txn = self.records.claim_title(network.called(), &network.name, txn)?;
        }
        let Outcome::Done(revision) = self.store.commit(&txn)? else { return Ok(None) };
        let new_alias = known.is_none().then_some(id);
        let new_network = declared.is_none().then_some(key);
        Ok(Some(Enrolled { network, revision: Some(revision), new_alias, new_network }))
    }

    /// A network that is not declared yet: as a configuration described it, or as it is wanted, where no file has its
    /// name.
    fn undeclared(&self, wanted: &Network) -> Result<Box<Network>> {
        let configured = self.records.network_under(&Key::Configured(wanted.name.clone()))?;
        let network = match configured {
            Some(read) => self.records.refuse_closed(read.value)?,
            None => {
                self.records.refuse_described(wanted)?;
                self.driver.refuse_sources(wanted)?;
                Box::new(wanted.clone())
            }
        };
        match self.addresses.overlapping(&network)? {
            Some(other) => Err(other),
            None => Ok(network),
        }
    }

    fn raise(&self, enrolled: Enrolled) -> Result<Network> {
        // Another process may have declared an overlapping network meanwhile. Then neither stays.
        let overlapping = match &enrolled.new_network {
            Some(_) => self.addresses.overlapping(&enrolled.network)?,
            None => None,
        };
        let raised = overlapping.map_or_else(|| self.driver.up(&enrolled.network), Err);
        match raised {
            Ok(()) => Ok(*enrolled.network),
            Err(error) => {
                // If this fails, the runtime's next call or the reconciler finds what is left.
                let _ = self.disenroll(&enrolled);
                Err(error)
            }
        }
    }

    fn disenroll(&self, enrolled: &Enrolled) -> Result<()> {
        let Some(revision) = enrolled.revision else { return Ok(()) };
        let forget = |txn: Txn, key: &Option<Key>| match key {
            Some(key) => txn.require(key.clone(), Expect::At(revision)).delete(key.clone()),
            None => txn,
        };
        let alone = forget(Txn::new(), &enrolled.new_alias);
        if enrolled.new_network.is_some() {
            self.driver.remove(&enrolled.network)?;
            let both = forget(alone.clone(), &enrolled.new_network);
            let both = leave_title(both, &enrolled.network, None);
            if let Outcome::Done(_) = self.store.commit(&both)? {
                return Ok(());
            }
            // Another process joined it.
            self.driver.up(&enrolled.network)?;
        }
        self.store.commit(&alone).map(|_| ())
    }

    /// Removes the id and the attachments that were made under it. Removes the network too if it
    /// was made for such an id, this was its last one, and no other runtime has an attachment on
    /// it. An unknown id is no error.
    pub fn withdraw(&self, id: &AliasId) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.alias_of(id)? else { return Ok(()) };
            self.detach_members(&read.value)?;
            if self.try_withdraw(&read)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("the network of id {id} changes all the time")))
    }

    /// Refuses as long as a sandbox is joined under a runtime's id of a network. An endpoint whose
    /// container is gone is freed first, and an unknown id has none.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where a sandbox is joined.
    pub fn refuse_joined(&self, id: &AliasId) -> Result<()> {
        let Some(read) = self.records.alias_of(id)? else { return Ok(()) };
        let all = self.records.attachments_in(&Prefix::AttachmentsOf(read.value.network))?;
        let members = all.into_iter().filter(|member| member.value.alias.as_ref() == Some(id));
        for member in members {
            let is_joined =
                matches!(member.value.phase, Phase::Attached(_) | Phase::Attaching { .. });
            if is_joined && !self.links.free_if_gone(&member.value.id)? {
                return Err(Error::conflict(format!(
                    "network {} has endpoint {}, which is joined to a sandbox: delete the endpoint \
                     first",
                    member.value.id.network, member.value.id.container
                ))
                .with_status(409));
            }
        }
        Ok(())
    }

    fn detach_members(&self, alias: &Alias) -> Result<()> {
        let members = self.records.attachments_in(&Prefix::AttachmentsOf(alias.network.clone()))?;
        let members = members.into_iter().filter(|m| m.value.alias.as_ref() == Some(&alias.id));
        let ids: BTreeSet<AttachmentId> = members.map(|member| member.value.id).collect();
        all_of(ids.iter().filter_map(|id| self.links.remove(id).err()).collect())
    }

    fn try_withdraw(&self, read: &Read<Alias>) -> Result<bool> {
        let alias = &read.value;
        let id = Key::Alias(alias.id.clone());
        let txn = Txn::new().require(id.clone(), unchanged(Some(read))).delete(id);
        let key = Key::Network(alias.network.clone());
        let Some(network) = self.records.network_under(&key)? else {
            return Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)));
        };
        let txn = txn.require(key.clone(), unchanged(Some(&network)));
        if !self.is_last(alias, &network.value)? {
            let txn = txn.put(key, Record::Network(network.value));
            return Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)));
        }
        self.raze_unless_joined(&network.value, txn)
    }

    fn raze_unless_joined(&self, network: &Network, txn: Txn) -> Result<bool> {
        match self.raze(network, txn)? {
            Outcome::Done(_) => Ok(true),
            Outcome::Lost(_) => {
                // Another process joined it under another id, and needs what was just removed.
                if self.records.declared(&network.name)?.is_some() {
                    self.driver.up(network)?;
                }
                Ok(false)
            }
        }
    }

    /// Networks that outlasted their last id because another runtime used them. Nothing else
    /// removes them after that runtime has left. A network that a configuration described, and that
    /// was declared only to be shared, becomes the configuration's again. While the record of an id or of a subnet is
    /// damaged, any network may be that one's: nothing goes.
    pub(crate) fn abandoned_networks(
        &self,
        networks: Vec<Read<Box<Network>>>,
        mode: Mode,
        found: &mut Reconciled,
    ) -> Result<()> {
        if self.records.has_damaged(&Prefix::Aliases)?
            || self.records.has_damaged(&Prefix::Subnets)?
        {
            return Ok(());
        }
        let (aliases, subnets) = (self.records.aliases()?, self.records.subnets()?);
        let known = aliases.iter().map(|alias| &alias.network);
        let known: BTreeSet<_> = known.chain(subnets.iter().map(|it| &it.network)).collect();
        for read in networks {
            let name = &read.value.name;
            if read.value.runtime == Runtime::Spoke || known.contains(name) {
                continue;
            }
            let key = Key::Network(name.clone());
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            let described = self.records.network_under(&Key::Configured(name.clone()))?;
            // What only says that the network is being removed describes nothing.
            let is_described = read.value.runtime != Runtime::Docker
                && described.is_some_and(|read| read.value.stage.is_made());
            if is_described {
                if mode == Mode::Mend {
                    self.store.commit(&leave_title(txn.delete(key), &read.value, None))?;
                }
                continue;
            }
            let is_joined =
                !self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?.is_empty();
            if is_joined || self.records.refuse_if_unreadable(name).is_err() {
                continue;
            }
            let removed = match mode {
                Mode::Mend => self.raze_unless_joined(&read.value, txn),
                Mode::DryRun => Ok(true),
            };
            if let Ok(false) = removed {
                continue;
            }
            let what = Garbage::Network(name.clone());
            found.add(Finding { what, remedy: Remedy::Free }, removed.map(|_| ()));
        }
        Ok(())
    }

    /// An id that cannot be read may be another one of the network.
    fn is_last(&self, alias: &Alias, network: &Network) -> Result<bool> {
        let others = self.records.has_damaged(&Prefix::Aliases)?
            || self
                .records
                .aliases_of(&network.name)?
                .into_iter()
                .any(|other| other.id != alias.id);
        let members = self.records.attachments_in(&Prefix::AttachmentsOf(network.name.clone()))?;
        self.records.refuse_if_unreadable(&network.name)?;
        Ok(network.runtime == alias.runtime && !others && members.is_empty())
    }

    /// Remembers what people call the network in the runtime whose id this is;
    /// [`Records::network`](crate::Records::network) finds it by that too. An unknown id is no error.
    pub fn set_title(
        &self,
        id: &AliasId,
        title: &NetworkName,
        by: Option<&EngineId>,
    ) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.alias_of(id)? else { return Ok(()) };
            let titled = Alias {
                title: Some(title.clone()),
                lister: by.or(read.value.lister.as_ref()).cloned(),
                ..read.value.clone()
            };
            if titled == read.value {
                return Ok(());
            }
            let key = Key::Alias(id.clone());
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            if let Outcome::Done(_) = self.store.commit(&txn.put(key, Record::Alias(titled)))? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("the id {id} changes all the time")))
    }

    /// Remembers that the runtime which is asked has this network, where it has no title yet: it
    /// asked for its removal.
    pub fn set_known(&self, id: &AliasId) -> Result<()> {
        match self.records.alias(id)? {
            Some(alias) if alias.title.is_none() => self.set_title(id, &alias.network, None),
            Some(_) | None => Ok(()),
        }
    }
}

/// What was committed, and which part of it is new.
struct Enrolled {
    network: Box<Network>,
    revision: Option<Revision>,
    new_alias: Option<Key>,
    new_network: Option<Key>,
}
