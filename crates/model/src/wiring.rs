//! What the dataplane makes for the attachments of a network.

use serde::{Deserialize, Serialize};

use crate::{
    AddressSpace, Bandwidth, Bridge, EgressPolicy, Family, Fence, Firewall, Link, LinkKind,
    Masquerade, NetworkName, Passage, Publish, SourceRouting, Space, Tuning, Via, Vrf,
};

/// What the dataplane makes for an attachment. Each part that is present is made on attach and
/// undone on detach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiring {
    /// The interface.
    pub link: Option<Link>,
    /// Source address translation of what it sends.
    pub masquerade: Option<Masquerade>,
    /// Its published ports.
    pub publish: Option<Publish>,
    /// Filtering of what it receives.
    pub firewall: Option<Firewall>,
    /// Tuning of its interface.
    pub tuning: Option<Tuning>,
    /// Limits of what it sends and receives.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// A routing table of its own.
    #[serde(default)]
    pub vrf: Option<Vrf>,
    /// Routing by its addresses.
    #[serde(default)]
    pub source_routing: Option<SourceRouting>,
    /// Whether Spoke answers queries for names at the network's gateways.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
    /// Where its packets may go, by name and by address. What holds is what the network's record says: an
    /// attachment's is that of its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// The same of this container alone, instead of its network's. Networks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_fence: Option<Fence>,
    /// By what its packets leave this host, and by nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// The tenant's address space of its network, which this host does not route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
}

impl Wiring {
    /// Whether a third-party Docker plugin makes the link.
    pub fn is_remote(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.kind, LinkKind::Remote(_)))
    }

    /// Which clients reach it by a route. It has no effect where everything of it is reached in
    /// that way ([`crate::LinkKind::is_direct`]).
    pub fn passage(&self) -> &Passage {
        let is_direct = |family: Family| self.is_direct(family);
        match &self.firewall {
            Some(firewall) if ![Family::V4, Family::V6].into_iter().all(is_direct) => {
                &firewall.passage
            }
            Some(_) | None => &Passage::Unjudged,
        }
    }

    /// Whether others may reach all of it by routes, by packets of this family
    /// ([`crate::LinkKind::is_direct`]).
    pub fn is_direct(&self, family: Family) -> bool {
        self.link.as_ref().is_some_and(|link| link.kind.is_direct(family))
    }

    /// The families in which the host's own filter must let pass what comes by a route: all of it is
    /// reached, or [`Passage`] judges which ports are.
    pub fn let_by_route(&self) -> Vec<Family> {
        let passage = self.passage();
        let is_let = |it: &Family| self.is_direct(*it) || passage.is_everybodys(*it);
        [Family::V4, Family::V6].into_iter().filter(is_let).collect()
    }

    /// The address space in which addresses must be unique that Spoke does not choose. This host
    /// does not route a tenant's network or a cloud's, and another network may have the same subnet. The same
    /// holds for a remote driver: Spoke does not know where its packets go, and libnetwork lets two
    /// such networks have one subnet. A link of the kernel is routed by this host, whatever chose
    /// the address.
    pub fn space(&self, network: &NetworkName) -> Space {
        match self.link.as_ref().map(|link| &link.kind) {
            _ if self.address_space.is_some() => Space::of_networks(self.address_space.as_ref()),
            Some(LinkKind::Neutron(_) | LinkKind::Remote(_)) => Space::Network(network.clone()),
            _ => Space::Host,
        }
    }

    /// Whether the maker of the link chooses the addresses too, and returns them when the link is
    /// made.
    pub fn chooses_addresses(&self) -> bool {
        matches!(
            self.link.as_ref().map(|link| &link.kind),
            Some(LinkKind::Chain(_) | LinkKind::Neutron(_) | LinkKind::Remote(_))
        )
    }

    /// Whether its network is internal: nothing passes between it and anything else.
    pub fn is_internal(&self) -> bool {
        self.firewall.as_ref().is_some_and(|it| it.egress == EgressPolicy::Internal)
    }

    /// The bridge that the container is on, where its link is of that kind.
    pub fn bridge(&self) -> Option<&Bridge> {
        self.link.as_ref().and_then(|link| link.kind.bridge())
    }

    /// Whether the network has names: it asks for them, or has a fence, which they are a part of.
    pub fn has_names(&self) -> bool {
        self.names || self.fence.is_some()
    }
}
