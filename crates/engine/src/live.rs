//! What a runtime lists.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{AliasId, ContainerId, Space, SubnetId};

/// What a runtime lists as existing. Anything else counts as gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// The networks that it knows, with the attachments of each; `None` where those are not known,
    /// so that all of them count as alive, and the network's subnets and addresses with them.
    pub networks: BTreeMap<AliasId, Option<BTreeSet<ContainerId>>>,
    /// The subnets that it uses.
    pub subnets: BTreeSet<SubnetId>,
    /// How many networks it has of each subnet, where that is known.
    pub shares: BTreeMap<SubnetId, usize>,
    /// The addresses that it uses.
    pub addresses: BTreeSet<(Space, IpAddr)>,
}

impl Live {
    /// What exists in either of two observations. What is absent was gone in both.
    #[must_use]
    pub fn or(mut self, other: &Live) -> Self {
        for (alias, endpoints) in &other.networks {
            match (self.networks.get_mut(alias), endpoints) {
                (Some(Some(known)), Some(more)) => known.extend(more.iter().cloned()),
                (Some(known), None) => *known = None,
                (Some(None), Some(_)) => {}
                (None, _) => {
                    self.networks.insert(alias.clone(), endpoints.clone());
                }
            }
        }
        self.subnets.extend(other.subnets.iter().cloned());
        self.shares.retain(|subnet, _| other.shares.contains_key(subnet));
        for (subnet, share) in &mut self.shares {
            *share = (*share).max(other.shares.get(subnet).copied().unwrap_or_default());
        }
        self.addresses.extend(other.addresses.iter().cloned());
        self
    }

    /// Whether the network has the container, as far as the runtime says.
    pub(crate) fn has(&self, alias: &AliasId, container: &ContainerId) -> bool {
        match self.networks.get(alias) {
            Some(Some(containers)) => containers.contains(container),
            Some(None) => true,
            None => false,
        }
    }
}
