//! What is known on this host of Neutron's resources.

use std::collections::BTreeSet;

use model::{Alias, Attachment, LinkKind, Nesting, NeutronLink, ResourceId, ResourceRef};

use crate::contract;

/// What this host's store, memory and engines know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The ports that records speak of.
    pub ports: BTreeSet<ResourceId>,
    /// The `device_id`s of attachments whose port is not recorded yet.
    pub devices: BTreeSet<String>,
    /// Neutron's networks that attachments are on.
    pub networks: BTreeSet<ResourceId>,
    /// Neutron's networks that runtimes have networks of, as these name them.
    pub declared: Vec<ResourceRef>,
    /// How attachments and networks are nested that say so themselves, by Neutron's network.
    pub nestings: Vec<(ResourceRef, Nesting)>,
    /// The ids under which runtimes know networks.
    pub aliases: BTreeSet<String>,
    /// The ids of the networks that the runtime's engines list, whether or not the store knows
    /// them; none where not all of them answer, or none is asked.
    pub listed: Option<BTreeSet<String>>,
    /// The names of the interfaces in the host's namespace.
    pub links: BTreeSet<String>,
    /// Whether this process is the one that allocates addresses, and so knows which wait for their
    /// containers.
    pub is_asked: bool,
}

impl Facts {
    /// The facts in the store.
    pub fn of(attachments: &[Attachment], aliases: &[Alias]) -> Self {
        let mut facts = Self::default();
        for attachment in attachments {
            let link = attachment.wiring.link.as_ref().map(|link| &link.kind);
            if let Some(LinkKind::Neutron(link)) = link {
                // A record that has a port has no other: that of an earlier container of its id is
                // not in use.
                if link.binding.is_none() {
                    facts.devices.insert(contract::device_id(attachment));
                }
                facts.ports.extend(link.binding.iter().map(|binding| binding.port.clone()));
                facts.ports.extend(link.spec.port.clone());
                if let ResourceRef::Id(network) = &link.network {
                    facts.networks.insert(network.clone());
                }
                facts.nest(link);
            }
        }
        facts.aliases = aliases.iter().map(|alias| alias.id.to_string()).collect();
        facts
    }

    /// Notes that a runtime has this network.
    pub fn declare(&mut self, link: &NeutronLink) {
        self.declared.push(link.network.clone());
        self.nest(link);
    }

    fn nest(&mut self, link: &NeutronLink) {
        let nesting = link.spec.nesting.as_ref().map(|own| (link.network.clone(), own.clone()));
        self.nestings.extend(nesting.filter(|own| !self.nestings.contains(own)));
    }

    /// Whether one of them is carried by a trunk.
    pub(crate) fn has_trunks(&self) -> bool {
        self.nestings.iter().any(|(_, nesting)| matches!(nesting, Nesting::Trunk { .. }))
    }
}
