//! Finding the networks and subnets that a decision is about, without reading all the others.

use std::collections::BTreeSet;

use model::{IfName, IpNet, Network, NetworkName, Result, Space, Subnet, overlap};

use crate::Records;
use crate::port::{Key, Outline, Prefix};
use crate::records::book::{Read, passable};

/// Declared networks and allocated subnets.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    pub(crate) networks: Vec<Read<Box<Network>>>,
    pub(crate) subnets: Vec<Read<Subnet>>,
}

impl Records<'_> {
    /// Those that have an outline of this kind, in the order of their keys. What is damaged is passed over.
    pub(crate) fn neighbours(&self, is_one: impl Fn(&Outline<'_>) -> bool) -> Result<Neighbours> {
        let mut keys = BTreeSet::new();
        let mut failed = None;
        self.store.outline(&mut |outline| {
            if is_one(outline) {
                match outline.key() {
                    Ok(key) => keys.extend([key]),
                    Err(error) => failed = Some(error),
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut found = Neighbours::default();
        for key in keys {
            match &key {
                Key::Network(_) => {
                    found.networks.extend(passable(self.network_under(&key))?.flatten());
                }
                Key::Subnet(id) => found.subnets.extend(passable(self.subnet_of(id))?.flatten()),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The allocated subnets of a space that overlap `net`.
    pub fn subnets_over(&self, space: &Space, net: &IpNet) -> Result<Vec<Subnet>> {
        let label = space.label();
        let found = self.neighbours(|outline| match outline {
            Outline::Subnet { space, net: its, .. } => *space == label && overlap(its, net),
            Outline::Net { .. } | Outline::Bridge { .. } | Outline::Title { .. } => false,
        })?;
        let subnets = found.subnets.into_iter().map(|read| read.value);
        Ok(subnets.filter(|subnet| overlap(&subnet.id.net, net)).collect())
    }

    /// The declared networks of this host that have addresses in one of `nets`.
    pub fn declared_over(&self, nets: &[IpNet]) -> Result<Vec<Network>> {
        let host = Space::Host.label();
        let found = self.neighbours(|outline| match outline {
            Outline::Net { space, net, .. } => {
                *space == host && nets.iter().any(|its| overlap(its, net))
            }
            Outline::Subnet { .. } | Outline::Bridge { .. } | Outline::Title { .. } => false,
        })?;
        Ok(found.networks.into_iter().map(|read| *read.value).collect())
    }

    /// The networks with which a new one may clash by name: those of `names` and on `bridge`, and
    /// all that a configuration describes.
    pub fn namesakes(
        &self,
        names: &[&NetworkName],
        bridge: Option<&IfName>,
    ) -> Result<Vec<Network>> {
        let bridge = bridge.map(IfName::as_str);
        let of_bridge = self.neighbours(|outline| match outline {
            Outline::Bridge { bridge: its, .. } => Some(*its) == bridge,
            Outline::Subnet { .. } | Outline::Net { .. } | Outline::Title { .. } => false,
        })?;
        let mut networks: Vec<Network> =
            of_bridge.networks.into_iter().map(|read| *read.value).collect();
        for name in names {
            networks.extend(passable(self.declared(name))?.flatten());
        }
        for read in self.networks_in(&Prefix::Configured)? {
            if !self.is_declared(&read.value.name)? {
                networks.push(*read.value);
            }
        }
        networks.sort_by(|one, other| one.name.cmp(&other.name));
        networks.dedup_by(|one, other| one.name == other.name);
        Ok(networks)
    }

    /// Whether there is a declared network of this name that can be read.
    pub(crate) fn is_declared(&self, name: &NetworkName) -> Result<bool> {
        Ok(passable(self.declared(name))?.flatten().is_some())
    }

    /// Another network that has this bridge.
    pub fn on_bridge(&self, bridge: &IfName, but: &NetworkName) -> Result<Option<Network>> {
        let has_it = |network: &Network| {
            let its = network.wiring.bridge();
            network.name != *but && its.is_some_and(|its| its.name == *bridge)
        };
        Ok(self.namesakes(&[], Some(bridge))?.into_iter().find(has_it))
    }
}
