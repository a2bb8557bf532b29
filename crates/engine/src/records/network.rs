//! Networks, and the names that runtimes have for them, as the store has them.

use std::collections::{BTreeMap, BTreeSet};

use model::{Alias, AliasId, Error, Network, NetworkName, Result, Subnet, SubnetId};

use crate::Records;
use crate::port::{Key, Prefix};
use crate::records::described::Description;

impl Records<'_> {
    /// The ids of a network.
    pub(crate) fn aliases_of(&self, network: &NetworkName) -> Result<Vec<Alias>> {
        let mut aliases = self.aliases()?;
        aliases.retain(|alias| alias.network == *network);
        Ok(aliases)
    }

    /// The record of the id.
    pub fn alias(&self, id: &AliasId) -> Result<Option<Alias>> {
        Ok(self.alias_of(id)?.map(|read| read.value))
    }

    /// Every id that is known.
    pub fn aliases(&self) -> Result<Vec<Alias>> {
        Ok(self.aliases_in(&Prefix::Aliases)?.into_iter().map(|read| read.value).collect())
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

    /// The network that is called so; or else that which a runtime calls so, or that which was called so before a
    /// command renamed it, where no runtime's file describes one of that name.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none, or only a file has it; as [`Records::find`].
    pub fn network(&self, name: &NetworkName) -> Result<Network> {
        let description = self.description(name);
        self.find_beside(&description)?.ok_or_else(|| description.unknown())
    }

    /// The same, if there is one.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where runtimes call several networks so.
    pub fn find(&self, name: &NetworkName) -> Result<Option<Network>> {
        self.find_beside(&self.description(name))
    }

    /// As [`Records::find`], beside what a runtime's file describes.
    pub(crate) fn find_beside(&self, description: &Description<'_>) -> Result<Option<Network>> {
        let name = description.name();
        let called = self.called_beside(description)?;
        let is_former = called.as_ref().is_none_or(|network| network.called() != name);
        if !is_former || description.is_any() {
            return Ok(called);
        }
        let titled = self.aliases()?.into_iter().filter(|it| it.title.as_ref() == Some(name));
        let names: BTreeSet<_> = titled.map(|alias| alias.network).collect();
        let found = names.iter().filter_map(|name| self.named(name).transpose());
        let mut found = found.collect::<Result<Vec<_>>>()?;
        match found.len() {
            0 | 1 => Ok(found.pop().or(called)),
            _ => Err(several(name, &found)),
        }
    }

    /// The name in the book of the network that [`Records::network`] finds; the same where there is none, as of
    /// one that is gone.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn meant(&self, name: &NetworkName) -> Result<NetworkName> {
        Ok(self.find(name)?.map_or_else(|| name.clone(), |network| network.name))
    }

    /// The network with this name in the book.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none.
    pub fn network_of(&self, name: &NetworkName) -> Result<Network> {
        self.named(name)?.ok_or_else(|| self.unknown(name))
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

    /// Every subnet that is allocated.
    pub fn subnets(&self) -> Result<Vec<Subnet>> {
        Ok(self.subnets_in(&Prefix::Subnets)?.into_iter().map(|read| read.value).collect())
    }

    /// The subnet of this name.
    pub fn subnet(&self, id: &SubnetId) -> Result<Option<Subnet>> {
        Ok(self.subnet_of(id)?.map(|read| read.value))
    }
}

pub(crate) fn exists(name: &NetworkName) -> Error {
    Error::conflict(format!("a network named {name} already exists"))
}

fn several(name: &NetworkName, found: &[Network]) -> Error {
    let found: Vec<_> = found.iter().map(|network| network.called().as_str()).collect();
    Error::conflict(format!(
        "several runtimes call a network {name}; say which one: {}",
        found.join(", ")
    ))
}
