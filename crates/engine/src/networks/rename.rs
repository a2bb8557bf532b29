//! Another name for a network.
//!
//! Identities of attachments hold the name, and the kernel's names derive from these: so a network with
//! attachments, or with the ids of an engine, keeps its name and gets a title ([`crate::records::title`]). Of
//! another one all that belongs to the name moves in one transaction.

use model::{
    Error, LinkKind, Network, NetworkName, Result, Runtime, Space, Subnet, Unmaking, bridge_name,
};

use crate::contention::RACES;
use crate::links::settings::Following;
use crate::networks::closing::Closing;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, key_of_amendment, unchanged};
use crate::records::network::exists;
use crate::records::title::leave_title;
use crate::{GATEWAY_NETWORK, Networks};

impl Networks<'_> {
    /// Calls a network of the command line otherwise, also while containers are on it. Repeating it is no error.
    ///
    /// What is in use keeps its name in the book and the kernel, and gets a title; the old name leads to it until
    /// another network is called so. Otherwise what is kept under the old name goes with it: addresses of
    /// owners, reservations, added ports and limits, its settings, its fence; its bridge gets the usual name
    /// anew, where it had that.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where the new name is taken; [`model::Kind::Unsupported`] where a runtime has
    /// the name.
    pub fn rename(&self, old: &NetworkName, new: &NetworkName) -> Result<Network> {
        for _ in 0..RACES {
            let name = self.records.network(old)?.name;
            let key = Key::Network(name.clone());
            let Some(read) = self.records.network_under(&key)? else { return Err(foreign(old)) };
            self.refuse_renaming(&read.value, new)?;
            let renamed = match self.is_in_use(&name)? || self.records.named(new)?.is_some() {
                true => self.rename_used(&read, new)?,
                false => self.rename_unused(&read, new)?,
            };
            if let Some(renamed) = renamed {
                return Ok(renamed);
            }
        }
        Err(Error::try_again(format!("renaming {old}: lost {RACES} races in a row")))
    }

    fn rename_used(&self, read: &Read<Box<Network>>, new: &NetworkName) -> Result<Option<Network>> {
        let titled = match read.value.called() == new {
            true => Some(*read.value.clone()),
            false => self.records.entitle(read, new)?,
        };
        if let Some(titled) = &titled {
            let lock = |id: &_| Some(self.host.lock_attachment(id));
            self.follow_settings(titled, Following::Differing, &lock)?;
        }
        Ok(titled)
    }

    /// `None` where it came into use, or changed, meanwhile.
    fn rename_unused(
        &self,
        read: &Read<Box<Network>>,
        new: &NetworkName,
    ) -> Result<Option<Network>> {
        let renamed = self.moved(&read.value, new)?;
        let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
        let renamed_by = || self.rename_closed(read, &renamed);
        match self.while_closed((&read.value, Unmaking::Renamed), is_over, renamed_by)? {
            Closing::Done(Outcome::Done(_)) => Ok(Some(renamed)),
            Closing::Done(Outcome::Lost(_)) | Closing::Used(_) => Ok(None),
        }
    }

    /// The same of a network that nothing can be attached to meanwhile.
    fn rename_closed(&self, read: &Read<Box<Network>>, renamed: &Network) -> Result<Outcome> {
        let (name, new) = (&read.value.name, &renamed.name);
        // What is shared in the kernel has the old name; the next attachment makes it with the new.
        self.driver.remove(&read.value)?;
        let (key, next) = (Key::Network(name.clone()), Key::Network(new.clone()));
        let mut txn = Txn::new()
            .require(key.clone(), unchanged(Some(read)))
            .require(next.clone(), Expect::Absent)
            .require(Key::Configured(new.clone()), Expect::Absent)
            .put(next, Record::Network(Box::new(renamed.clone())))
            .delete(key)
            .delete(Key::Configured(name.clone()));
        txn = self.records.claim_title(new, name, txn)?;
        txn = leave_title(txn, &read.value, Some(new));
        for pool in read.value.ipam.pools() {
            txn = txn.delete(Key::Cursor(pool.id.clone()));
        }
        self.store.commit(&self.move_kept(name, new, txn)?)
    }

    fn refuse_renaming(&self, network: &Network, new: &NetworkName) -> Result<()> {
        let name = &network.name;
        if [name.as_str(), new.as_str()].contains(&GATEWAY_NETWORK) {
            return Err(Error::unsupported(format!(
                "Spoke itself finds the network {GATEWAY_NETWORK} by this name"
            )));
        }
        if network.is_remote() || network.runtime != Runtime::Spoke {
            return Err(self.foreign_of(name)?);
        }
        let named = Network { name: new.clone(), title: None, ..network.clone() };
        if self.records.called(new)?.is_some_and(|other| other.called() != new) {
            // It was called so before it was renamed.
            return self.records.refuse_described(&named);
        }
        match self.records.find(new)? {
            Some(other) if other.name == *name => Ok(()),
            Some(_) => Err(exists(new)),
            None => self.records.refuse_described(&named),
        }
    }

    fn foreign_of(&self, name: &NetworkName) -> Result<Error> {
        Ok(match self.records.aliases_of(name)?.first() {
            Some(alias) => Error::unsupported(format!(
                "{} has network {name} under its own id, and calls it as it was made there: make another \
                 network there, and connect the containers to it",
                alias.runtime
            )),
            None => foreign(name),
        })
    }

    /// Whether anything but this host's records knows it by its name.
    fn is_in_use(&self, name: &NetworkName) -> Result<bool> {
        self.records.refuse_if_unreadable(name)?;
        let is_its = |subnet: &Subnet| subnet.network == *name;
        Ok(!self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?.is_empty()
            || !self.records.attachments_in(&Prefix::EndpointsOf(name.clone()))?.is_empty()
            || !self.records.aliases_of(name)?.is_empty()
            || self.records.subnets()?.iter().any(is_its))
    }

    fn moved(&self, network: &Network, new: &NetworkName) -> Result<Network> {
        let mut renamed = network.instance(new.clone(), network.runtime, network.since);
        (renamed.stage, renamed.unsupported) = (network.stage, network.unsupported);
        self.keep_former(network, &mut renamed)?;
        let link = renamed.wiring.link.as_mut();
        let Some(LinkKind::Bridge(bridge)) = link.map(|link| &mut link.kind) else {
            return Ok(renamed);
        };
        if bridge.name != bridge_name(&network.name)? {
            return Ok(renamed);
        }
        bridge.name = bridge_name(new)?;
        let device = bridge.name.clone();
        if let Some(other) = self.records.on_bridge(&device, &network.name)? {
            let other = other.name;
            return Err(Error::conflict(format!("network {other} has the bridge {device}")));
        }
        if let Some(firewall) = &mut renamed.wiring.firewall {
            firewall.bridge = firewall.bridge.take().map(|_| device.clone());
        }
        if let Some(publish) = &mut renamed.wiring.publish {
            publish.behind = publish.behind.take().map(|_| device);
        }
        Ok(renamed)
    }

    /// A network that was renamed while it was in use goes on to be found by each name that it had since.
    fn keep_former(&self, network: &Network, renamed: &mut Network) -> Result<()> {
        renamed.former.clone_from(&network.former);
        let in_book = network.order_of(&network.name).map(|order| (&network.name, order));
        let title = network.title.as_ref();
        let title = title.map(|title| Ok((title, self.records.next_order(title)?))).transpose()?;
        for (name, order) in in_book.into_iter().chain(title) {
            renamed.add_former(name.clone(), order);
        }
        Ok(())
    }

    /// Everything that is kept under the old name, under the new one.
    fn move_kept(&self, old: &NetworkName, new: &NetworkName, mut txn: Txn) -> Result<Txn> {
        for (key, held) in self.store.list(&Prefix::StickyOf(old.clone()))? {
            let Key::Sticky(_, owner) = &key else { continue };
            let next = Key::Sticky(new.clone(), owner.clone());
            txn = txn.require(key.clone(), Expect::At(held.revision));
            txn = txn.put(next, held.record).delete(key);
        }
        for read in self.records.amendments_in(&Prefix::AmendmentsOf(old.clone()))? {
            let key = key_of_amendment(&read.value);
            txn = txn.require(key.clone(), unchanged(Some(&read))).delete(key);
            let mut kept = read.value;
            kept.network = new.clone();
            txn = txn.put(key_of_amendment(&kept), Record::Amendment(kept));
        }
        for (key, held) in self.links.usages_of(old)? {
            let Key::Usage(_, runtime, name, ifname) = &key else { continue };
            let next = Key::Usage(new.clone(), *runtime, name.clone(), ifname.clone());
            txn = txn.require(key.clone(), Expect::At(held.revision));
            txn = txn.put(next, held.record).delete(key);
        }
        let own = Space::Network(old.clone());
        for read in self.records.reservations_in(&Prefix::Reservations)? {
            let mut kept = read.value.clone();
            if kept.network.as_ref() != Some(old) && kept.space != own {
                continue;
            }
            let key = Key::Reservation(kept.space.clone(), kept.address);
            txn = txn.require(key.clone(), unchanged(Some(&read))).delete(key);
            if kept.space == own {
                kept.space = Space::Network(new.clone());
            }
            if kept.network.as_ref() == Some(old) {
                kept.network = Some(new.clone());
            }
            let next = Key::Reservation(kept.space.clone(), kept.address);
            txn = txn.put(next, Record::Reservation(kept));
        }
        Ok(txn)
    }
}

/// A network whose name its runtime, or a plugin, has too.
fn foreign(name: &NetworkName) -> Error {
    Error::unsupported(format!(
        "network {name} has its name from its runtime's configuration, or a plugin knows it by that: only \
         networks of `spoke network create` are renamed"
    ))
}
