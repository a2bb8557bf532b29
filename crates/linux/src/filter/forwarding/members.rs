//! The interfaces of Spoke's that two rules let pass together, however many there are.
//!
//! Their group alone does not tell them from the devices that macvlan networks share on a parent's segment:
//! what comes by these comes from the LAN, for which a host that drops what it forwards is no router.

use std::collections::BTreeSet;

use model::{IfName, Result};
use netlink::{At, Link, Links, Socket};

use crate::identity::{GROUP, VLAN_GATEWAY};

/// Which of them: a name's beginning, and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Members {
    /// Bridges with the name that Spoke gives a network's bridge ([`model::bridge_name`]).
    Bridges,
    /// The host's ends of ptp ([`crate::identity::Identity::host_link`]).
    Pairs,
    /// The gateways of VLANs, which have a group of their own.
    VlanGateways,
}

/// How the names of the host's ends of pairs begin.
const PAIR: &str = "veth";

impl Members {
    pub(super) const ALL: [Self; 3] = [Self::Bridges, Self::Pairs, Self::VlanGateways];

    /// How their names begin; `None` for every name.
    pub(super) const fn prefix(self) -> Option<&'static str> {
        match self {
            Self::Bridges => Some("sp-"),
            Self::Pairs => Some(PAIR),
            Self::VlanGateways => None,
        }
    }

    pub(super) const fn group(self) -> u32 {
        match self {
            Self::Bridges | Self::Pairs => GROUP,
            Self::VlanGateways => VLAN_GATEWAY,
        }
    }

    /// The ones that this link is of. One that another program put into a group of its own is of none.
    fn of(link: &Link) -> Option<Self> {
        let name = link.name.as_str();
        let is_of = |members: &Self| {
            link.group == members.group()
                && members.prefix().is_none_or(|prefix| name.starts_with(prefix))
        };
        Self::ALL.into_iter().find(is_of)
    }

    /// The ones that the interface with this name is of now.
    pub(super) fn of_name(interface: &IfName) -> Result<Option<Self>> {
        let link = Socket::route()?.link(At::Name(interface))?;
        Ok(link.as_ref().and_then(Self::of))
    }

    /// Those of which there are any besides the interface that is `leaving`. The ends of pairs that are
    /// ports of a bridge lead to no container by themselves.
    pub(super) fn there(leaving: Option<&IfName>) -> Result<BTreeSet<Self>> {
        let links = Socket::route()?.links(Links::default())?;
        let stay = links.iter().filter(|link| Some(&link.name) != leaving);
        let leads_nowhere = |link: &Link, of| link.master.is_some() && of == Self::Pairs;
        let there = stay.filter_map(|link| Self::of(link).filter(|of| !leads_nowhere(link, *of)));
        Ok(there.collect())
    }

    /// The interfaces that lead to containers now, and which of these each is. Bridges with names of their users are none.
    pub(super) fn leading() -> Result<Vec<(IfName, Option<Self>)>> {
        let links = Socket::route()?.links(Links::default())?.into_iter();
        let leads = links.filter(|link| {
            let is_bridge = link.group == GROUP && link.kind.as_deref() == Some("bridge");
            is_bridge || link.master.is_none() && Self::of(link).is_some()
        });
        Ok(leads.map(|link| (link.name.clone(), Self::of(&link))).collect())
    }

    /// The names of those that are there now.
    pub(super) fn names(these: &[Self]) -> Result<BTreeSet<String>> {
        if these.is_empty() {
            return Ok(BTreeSet::new());
        }
        let links = Socket::route()?.links(Links::default())?;
        let is_one = |link: &&Link| Self::of(link).is_some_and(|of| these.contains(&of));
        Ok(links.iter().filter(is_one).map(|link| link.name.to_string()).collect())
    }

    /// Whether an interface's name can be that of the host's end of a pair: earlier versions left the rules of
    /// those that are gone.
    pub(super) fn is_pair(name: &IfName) -> bool {
        let digits = name.as_str().strip_prefix(PAIR);
        digits.is_some_and(|it| it.len() == 11 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}
