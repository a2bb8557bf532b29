//! Networks that a runtime's file describes, and that the book does not have before their first container.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use model::{Error, LinkKind, Network, NetworkName, Result};

use crate::Records;
use crate::port::{Described, Prefix};

impl Records<'_> {
    /// As [`Records::network`], or else the network that a runtime's file describes: nothing of it is made yet.
    ///
    /// # Errors
    /// `NotFound` where there is neither.
    pub fn network_or_described(&self, name: &NetworkName) -> Result<Network> {
        let description = self.description(name);
        if let Some(network) = self.find_beside(&description)? {
            return Ok(network);
        }
        match description.read() {
            Some(Described { network: Some(network), .. }) => Ok((**network).clone()),
            Some(Described { network: None, .. }) | None => Err(description.unknown()),
        }
    }

    /// Every network of the book, and those that only a runtime's file describes, by name.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn networks_and_described(&self) -> Result<Vec<Network>> {
        Ok(self.with_described(self.networks()?))
    }

    /// All these of the book, and those that only a runtime's file describes, by name.
    pub fn with_described(&self, mut networks: Vec<Network>) -> Vec<Network> {
        let mut known: BTreeSet<NetworkName> = networks.iter().map(|it| it.name.clone()).collect();
        for described in self.host.described() {
            // Of two files with one name the first counts.
            if known.insert(described.name)
                && let Some(network) = described.network
            {
                networks.push(*network);
            }
        }
        networks.sort_by(|one, other| one.name.cmp(&other.name));
        networks
    }

    /// Refuses a new network with the name of one that a runtime's file describes: containers of the two would be on
    /// one bridge with different subnets. One that plugins make by such a file is no other network.
    ///
    /// # Errors
    /// `Conflict`, which names the file.
    pub fn refuse_described(&self, new: &Network) -> Result<()> {
        let kind = new.wiring.link.as_ref().map(|link| &link.kind);
        if let Some(LinkKind::Chain(_)) = kind {
            return Ok(());
        }
        let Some(described) = self.described_as(new.called()) else { return Ok(()) };
        let Described { name, by, file, network } = described;
        if network.as_ref().is_some_and(|network| network.runtime == new.runtime) {
            return Ok(());
        }
        let is_there = network.is_some() || self.named(&name)?.is_some();
        let first = if is_there { "" } else { "start a container on it there first, and " };
        Err(Error::conflict(format!(
            "{by} has a network {name} ({file}): choose another name, or {first}join that one by its name"
        )))
    }

    /// Refuses a network of many hosts on this host, where a runtime has one of its name: by a file, or by containers
    /// that are on it.
    ///
    /// # Errors
    /// `Conflict`, which names the runtime's network and says how one of both goes.
    pub fn refuse_shared(&self, name: &NetworkName) -> Result<()> {
        let whose = match self.described_as(name) {
            Some(Described { by, file, .. }) => format!("{by} has a network {name} ({file})"),
            None if self.declared(name)?.is_none() && self.is_on_runtimes(name)? => {
                format!("containers are on a network {name} that a runtime describes")
            }
            None => return Ok(()),
        };
        Err(Error::conflict(format!(
            "{whose}, so this host does not make the cluster's: remove the one of this host there, or the cluster's \
             with `spoke network rm {name}` on another host"
        )))
    }

    fn is_on_runtimes(&self, name: &NetworkName) -> Result<bool> {
        Ok(!self.attachments_in(&Prefix::AttachmentsOf(name.clone()))?.is_empty())
    }

    /// Whether a runtime's file describes a network of this name.
    pub fn is_described(&self, name: &NetworkName) -> bool {
        self.described_as(name).is_some()
    }

    pub(crate) fn described_as(&self, name: &NetworkName) -> Option<Described> {
        self.host.described().into_iter().find(|described| described.name == *name)
    }

    /// There is no network of this name.
    pub(crate) fn unknown(&self, name: &NetworkName) -> Error {
        self.description(name).unknown()
    }

    /// What runtimes' files say of a network of this name.
    pub(crate) fn description<'a>(&'a self, name: &'a NetworkName) -> Description<'a> {
        Description { records: self, name, read: OnceCell::new() }
    }
}

/// What runtimes' files say of a network, read when it is first asked for, and once.
pub(crate) struct Description<'a> {
    records: &'a Records<'a>,
    name: &'a NetworkName,
    read: OnceCell<Option<Described>>,
}

impl<'a> Description<'a> {
    pub(crate) fn name(&self) -> &'a NetworkName {
        self.name
    }

    fn read(&self) -> Option<&Described> {
        self.read.get_or_init(|| self.records.described_as(self.name)).as_ref()
    }

    /// Whether a file describes a network of this name.
    pub(crate) fn is_any(&self) -> bool {
        self.read().is_some()
    }

    /// There is no network of this name.
    pub(crate) fn unknown(&self) -> Error {
        let name = self.name;
        Error::not_found(match self.read() {
            None => format!("no network {name}; `spoke network ls` lists them"),
            Some(Described { by, file, .. }) => format!(
                "network {name} is not made yet: {by} has it ({file}), and it is made with its first container{}",
                match *by == "Podman" {
                    true => format!("; `podman network rm {name}` removes it"),
                    false => String::new(),
                }
            ),
        })
    }
}
