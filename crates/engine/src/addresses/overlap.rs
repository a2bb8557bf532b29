//! Subnets that two networks cannot have at once.

use model::{Error, IfName, Network, Range, Result, Space, Stage, Subnet, overlap};

use crate::Addresses;
use crate::port::{Outline, Prefix, spans};
use crate::records::book::Read;
use crate::records::neighbours::Neighbours;

impl Addresses<'_> {
    pub(crate) fn overlapping(&self, network: &Network) -> Result<Option<Error>> {
        let near = self.near(network)?;
        let mut others: Vec<Network> = near.networks.into_iter().map(|read| *read.value).collect();
        for read in self.records.networks_in(&Prefix::Configured)? {
            // A network that a configuration once described, and that has no attachments, holds no
            // subnet.
            if clash(network, &read.value).or_else(|| rivalry(network, &read.value)).is_some()
                && !self.records.is_declared(&read.value.name)?
                && self.has_members(&read.value.name)?
            {
                others.push(*read.value);
            }
        }
        others.sort_by(|one, other| one.name.cmp(&other.name));
        let others = others.iter().filter(|other| other.name != network.name);
        let clash =
            { others }.find_map(|other| clash(network, other).or_else(|| rivalry(network, other)));
        clash.map_or_else(|| allocated(network, &near.subnets), |clash| Ok(Some(clash)))
    }

    /// A configuration may share a subnet with another configuration, as it could with the
    /// reference plugins. It may not take that of a declared network, unless both are on one
    /// bridge.
    pub(crate) fn refuse_taken(&self, network: &Network) -> Result<()> {
        let Neighbours { networks, subnets } = self.near(network)?;
        self.refuse_rivals_beside(network, &networks)?;
        let others = networks.into_iter().map(|read| read.value);
        let others: Vec<_> = others.filter(|other| other.name != network.name).collect();
        let own = bridge(network);
        if own.is_some() && others.iter().any(|other| bridge(other) == own) {
            return Ok(());
        }
        match others.iter().find_map(|other| clash(network, other)) {
            Some(clash) => Err(clash),
            None => allocated(network, &subnets)?.map_or(Ok(()), Err),
        }
    }

    /// A bridge has one way out and one fence: those of two networks would replace each other. It is asked at
    /// each attach, because a network without attachments keeps no other one from its bridge.
    pub(crate) fn refuse_rivals(&self, network: &Network) -> Result<()> {
        self.refuse_rivals_beside(network, &self.near(network)?.networks)
    }

    fn refuse_rivals_beside(&self, network: &Network, near: &[Read<Box<Network>>]) -> Result<()> {
        for read in near {
            rivalry(network, &read.value).map_or(Ok(()), Err)?;
        }
        for read in self.records.networks_in(&Prefix::Configured)? {
            let Some(error) = rivalry(network, &read.value) else { continue };
            if self.has_members(&read.value.name)? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The declared networks and allocated subnets that may overlap the network, or are on its
    /// bridge.
    fn near(&self, network: &Network) -> Result<Neighbours> {
        let ours = spans(network);
        let own = bridge(network).map(IfName::as_str);
        let meets = |label: &str, net: &model::IpNet| {
            let mut ours = ours.iter().filter(|(space, _)| space.label() == label);
            ours.any(|(_, our)| overlap(&our.subnet.trunc(), net))
        };
        self.records.neighbours(|outline| match *outline {
            Outline::Bridge { bridge, .. } => own == Some(bridge),
            Outline::Title { .. } => false,
            Outline::Net { space, net, .. } | Outline::Subnet { space, net, .. } => {
                meets(space, &net)
            }
        })
    }

    /// What has addresses of a subnet that was allocated for another network.
    pub(crate) fn instead_of_subnet(&self, subnet: &Subnet) -> Result<Option<String>> {
        for read in self.records.networks_in(&Prefix::Networks)? {
            let network = &read.value;
            let is_other = network.name != subnet.network && network.stage != Stage::Template;
            if is_other && common(network, subnet)?.is_some() {
                return Ok(Some(format!("it overlaps network {}", network.name)));
            }
        }
        let ours = range_of(subnet)?;
        for read in self.records.subnets_in(&Prefix::Subnets)? {
            let other = &read.value;
            let is_other = other.network != subnet.network && other.id.space == subnet.id.space;
            if is_other && range_of(other)?.overlaps(&ours) {
                let whose = format!("{} of {} network {}", other.id, other.runtime, other.network);
                return Ok(Some(format!("it overlaps {whose}")));
            }
        }
        Ok(None)
    }

    fn has_members(&self, name: &model::NetworkName) -> Result<bool> {
        Ok(!self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?.is_empty())
    }
}

/// Subnets that were allocated for networks that are yet to be made are not free either.
fn allocated(network: &Network, subnets: &[Read<Subnet>]) -> Result<Option<Error>> {
    let others = subnets.iter().map(|read| &read.value);
    for other in others.filter(|other| other.network != network.name) {
        if let Some(ours) = common(network, other)? {
            return Ok(Some(Error::conflict(format!(
                "subnet {} overlaps {}, which was allocated by {} for network {}",
                ours.subnet, other.id, other.runtime, other.network
            ))));
        }
    }
    Ok(None)
}

/// The range of the network that overlaps the subnet.
fn common(network: &Network, subnet: &Subnet) -> Result<Option<Range>> {
    let theirs = range_of(subnet)?;
    let ours = spans(network).into_iter().filter(|(space, _)| *space == subnet.id.space);
    Ok(ours.map(|(_, our)| our).find(|our| our.overlaps(&theirs)))
}

fn range_of(subnet: &Subnet) -> Result<Range> {
    let span = subnet.id.part.unwrap_or(subnet.id.net);
    Range::new(subnet.id.net, span.network(), span.broadcast(), None)
}

/// That two networks would allocate the same addresses.
pub(crate) fn clash(network: &Network, other: &Network) -> Option<Error> {
    if network.stage == Stage::Template || other.stage == Stage::Template {
        return None;
    }
    let theirs = spans(other);
    let is_theirs = |(space, our): &(Space, Range)| {
        theirs.iter().any(|(other, their)| other == space && our.overlaps(their))
    };
    let (_, ours) = spans(network).into_iter().find(is_theirs)?;
    Some(Error::conflict(format!(
        "subnet {} overlaps network {} ({})",
        ours.subnet, other.name, other.runtime
    )))
}

/// That two networks are on one bridge, and one of them has a way out or a fence.
fn rivalry(network: &Network, other: &Network) -> Option<Error> {
    let is_template = [network, other].iter().any(|it| it.stage == Stage::Template);
    let bridge = bridge(network)?;
    if is_template || network.name == other.name || self::bridge(other) != Some(bridge) {
        return None;
    }
    let has = |is_so: fn(&Network) -> bool| is_so(network) || is_so(other);
    let what = match () {
        () if has(|it| it.wiring.via.is_some()) => "via",
        () if has(|it| it.wiring.fence.is_some()) => "egress",
        () => return None,
    };
    Some(Error::conflict(format!(
        "network {}: bridge {bridge} is network {}'s, and {what} is for all of a bridge; give it a bridge of its \
         own",
        network.name, other.name
    )))
}

fn bridge(network: &Network) -> Option<&IfName> {
    network.wiring.link.as_ref()?.kind.bridge().map(|bridge| &bridge.name)
}
