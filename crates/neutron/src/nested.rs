//! Containers in an instance of the cloud: their ports are connected through the instance's own.
//!
//! Several processes and hosts change one resource, so each change is made only to the revision that
//! was read, and tried again where that is stale.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attachment, Error, IfName, Kind, Mac, Nesting, NeutronLink, ResourceId, ResourceRef, Result,
    Vif, VlanId, host_net,
};
use netlink::{At, Socket};

use crate::Neutron;
use crate::api::{Pair, PortChange, PortResource, SubPort, Trunk, gone_is_done};
use crate::plug;

/// The `device_owner` that Neutron gives to subports.
pub(crate) const SUBPORT: &str = "trunk:subport";

/// How often a lost race is run again.
const RACES: usize = 50;

/// Neutron's status for a revision that is not the one that was read.
const STALE: u16 = 412;

/// Neutron's status for a resource that is in use: a VLAN, or a port.
const IN_USE: u16 = 409;

/// The VLANs of a trunk.
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

impl Neutron {
    /// Connects a port through the instance's own; how it is connected then.
    pub(crate) fn nest(
        &self,
        attachment: &Attachment,
        nesting: &Nesting,
        port: &PortResource,
    ) -> Result<Vif> {
        match (plug::nested(nesting), nesting) {
            (Some(vif), Nesting::Macvlan { parent, .. } | Nesting::Ipvlan { parent, .. }) => {
                // Of an ipvlan the instance's own address is seen.
                let mac = matches!(vif, Vif::Macvlan { .. }).then_some(port.mac_address);
                self.allow(attachment, parent, port, mac).map(|()| vif)
            }
            (_, Nesting::Trunk { parent, trunk }) => self.carry(parent, trunk.as_ref(), port),
            (None, Nesting::Macvlan { .. } | Nesting::Ipvlan { .. }) => {
                Err(Error::bug(format!("{nesting:?} is not known to be nested")))
            }
        }
    }

    /// Lets the instance send from the port's addresses.
    fn allow(
        &self,
        attachment: &Attachment,
        parent: &IfName,
        port: &PortResource,
        mac: Option<Mac>,
    ) -> Result<()> {
        let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        let wanted: Vec<Pair> =
            addresses.map(|address| Pair::new(&host_net(address), mac)).collect();
        self.change_pairs(parent, |pairs, own| {
            let is_there =
                |pair: &Pair| pairs.iter().any(|there| is_same(there, pair, own.mac_address));
            let missing: Vec<Pair> =
                wanted.iter().filter(|pair| !is_there(pair)).cloned().collect();
            (!missing.is_empty()).then(|| [pairs, &missing].concat())
        })
        .map_err(|error| error.context(format!("allowing the addresses of {}", attachment.id)))
    }

    fn disallow(&self, parent: &IfName, mac: Option<Mac>, addresses: &[IpAddr]) -> Result<()> {
        let ours: Vec<Pair> =
            addresses.iter().map(|address| Pair::new(&host_net(*address), mac)).collect();
        if ours.is_empty() {
            return Ok(());
        }
        let done = self.change_pairs(parent, |pairs, own| {
            let is_ours =
                |there: &&Pair| ours.iter().any(|pair| is_same(there, pair, own.mac_address));
            let remaining: Vec<Pair> =
                pairs.iter().filter(|pair| !is_ours(pair)).cloned().collect();
            (remaining.len() < pairs.len()).then_some(remaining)
        });
        match done {
            // With the instance's port its pairs are gone.
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Changes the address pairs of the instance's port, unless `change` finds nothing to change.
    fn change_pairs(
        &self,
        parent: &IfName,
        change: impl Fn(&[Pair], &PortResource) -> Option<Vec<Pair>>,
    ) -> Result<()> {
        for _ in 0..RACES {
            let own = self.instance_port(parent)?;
            let Some(pairs) = change(&own.allowed_address_pairs, &own) else { return Ok(()) };
            let pairs = PortChange { allowed_address_pairs: Some(pairs), ..PortChange::default() };
            match self.api().change_port(&own.id, &pairs, own.revision_number) {
                Err(error) if error.status() == Some(STALE) => {}
                done => return done.map(drop),
            }
        }
        let what = format!("the port of {parent} is changed by others all the time");
        Err(Error::try_again(what).with_status(STALE))
    }

    /// The instance's own port: it has the interface's hardware address.
    fn instance_port(&self, parent: &IfName) -> Result<PortResource> {
        let link = Socket::route()?.link(At::Name(parent))?;
        let mac = link.and_then(|link| link.mac).ok_or_else(|| {
            Error::not_found(format!("this instance has no interface {parent} with an address"))
        })?;
        let mut ports = self.api().ports(&[("mac_address", mac.to_string())])?;
        match (ports.pop(), ports.is_empty()) {
            (Some(port), true) => Ok(port),
            (None, _) => Err(Error::not_found(format!(
                "no port of Neutron's that we may see has the hardware address {mac} of {parent}: \
                 is this an instance of that cloud?"
            ))),
            (Some(_), false) => {
                Err(Error::conflict(format!("several ports have the hardware address {mac}")))
            }
        }
    }

    /// Makes the port a subport of the instance's trunk, in the lowest VLAN that is free.
    fn carry(
        &self,
        parent: &IfName,
        trunk: Option<&ResourceRef>,
        port: &PortResource,
    ) -> Result<Vif> {
        let mut refused = None;
        for _ in 0..RACES {
            let trunk = self.trunk(parent, trunk)?;
            let there = trunk.sub_ports.iter().find(|sub| sub.port_id == port.id);
            let vlan = match there {
                Some(sub) => sub.segmentation_id,
                None => free_vlan(&trunk)?,
            };
            let vif = || -> Result<Vif> {
                let vlan = VlanId::new(vlan).ok_or_else(|| {
                    Error::try_again(format!("Neutron says that VLAN {vlan} is in use"))
                })?;
                Ok(Vif::Trunk { parent: parent.clone(), vlan, trunk: trunk.id.clone() })
            };
            if there.is_some() {
                return vif();
            }
            let sub = SubPort {
                port_id: port.id.clone(),
                segmentation_type: "vlan".to_owned(),
                segmentation_id: vlan,
            };
            match self.api().add_subports(&trunk.id, &[sub], trunk.revision_number) {
                Ok(()) => return vif(),
                Err(error) if error.status() == Some(STALE) => {}
                // Another process may have taken the VLAN.
                Err(error) if error.status() == Some(IN_USE) && refused != Some(vlan) => {
                    refused = Some(vlan);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::try_again(format!("the trunk of {parent} is changed by others all the time")))
    }

    fn trunk(&self, parent: &IfName, named: Option<&ResourceRef>) -> Result<Trunk> {
        let filter = match named {
            Some(ResourceRef::Id(id)) => ("id", id.to_string()),
            Some(ResourceRef::Name(name)) => ("name", name.as_str().to_owned()),
            None => ("port_id", self.instance_port(parent)?.id.to_string()),
        };
        let mut trunks = self.api().trunks(&[filter])?;
        match (trunks.pop(), trunks.is_empty()) {
            (Some(trunk), true) => Ok(trunk),
            (None, _) => Err(Error::not_found(match named {
                Some(named) => format!("Neutron knows no trunk {named}"),
                None => format!("the port of {parent} is no trunk's; make one with it"),
            })),
            (Some(_), false) => Err(Error::invalid("several trunks have that name".to_owned())),
        }
    }

    /// Undoes [`Neutron::nest`] for a port that is known. What is not nested is done.
    pub(crate) fn unnest(
        &self,
        vif: &Vif,
        port: &ResourceId,
        mac: Option<Mac>,
        addresses: &[IpAddr],
    ) -> Result<()> {
        match vif {
            Vif::Macvlan { parent, .. } => self.disallow(parent, mac, addresses),
            Vif::Ipvlan { parent, .. } => self.disallow(parent, None, addresses),
            Vif::Trunk { trunk, .. } => gone_is_done(self.api().remove_subport(trunk, port)),
            Vif::Ovs { .. }
            | Vif::OvsHybrid { .. }
            | Vif::Bridge { .. }
            | Vif::Tap
            | Vif::Script { .. }
            | Vif::Function { .. } => Ok(()),
        }
    }

    /// The same where the record does not say how far it came.
    pub(crate) fn unnest_unknown(
        &self,
        link: &NeutronLink,
        port: &ResourceId,
        mac: Mac,
        addresses: &[IpAddr],
    ) -> Result<()> {
        match self.nesting(link) {
            None => Ok(()),
            Some(Nesting::Macvlan { parent, .. }) => self.disallow(parent, Some(mac), addresses),
            Some(Nesting::Ipvlan { parent, .. }) => self.disallow(parent, None, addresses),
            Some(Nesting::Trunk { parent, trunk }) => match self.trunk(parent, trunk.as_ref()) {
                Ok(trunk) => gone_is_done(self.api().remove_subport(&trunk.id, port)),
                Err(error) if error.kind() == Kind::NotFound => Ok(()),
                Err(error) => Err(error),
            },
        }
    }
}

impl Neutron {
    /// Undoes [`Neutron::nest`] for a port of this host that no record speaks of; whether that changed
    /// the port itself. `nestings` is how networks of their own settings are nested.
    ///
    /// # Errors
    /// Neutron's refusal.
    pub(crate) fn unnest_lost(
        &self,
        port: &PortResource,
        nestings: &[(ResourceRef, Nesting)],
    ) -> Result<bool> {
        if port.device_owner == SUBPORT {
            return self.drop_subport(&port.id);
        }
        // A port that is bound to a host is connected there itself.
        if port.host().is_some() {
            return Ok(false);
        }
        let addresses: Vec<IpAddr> = port.fixed_ips.iter().filter_map(|ip| ip.ip_address).collect();
        let own = nestings.iter().filter(|(network, _)| self.is_network(network, port));
        let own: Vec<&Nesting> = own.map(|(_, nesting)| nesting).collect();
        let mut is_changed = false;
        for nesting in own.into_iter().chain(&self.settings.plugging.nesting) {
            match nesting {
                Nesting::Macvlan { parent, .. } => {
                    self.disallow(parent, Some(port.mac_address), &addresses)?;
                }
                Nesting::Ipvlan { parent, .. } => self.disallow(parent, None, &addresses)?,
                // Neutron's driver may not have given the port its owner yet.
                Nesting::Trunk { .. } => is_changed |= self.drop_subport(&port.id)?,
            }
        }
        Ok(is_changed)
    }

    /// A name that stands for nothing any more is no network's.
    pub(crate) fn is_network(&self, network: &ResourceRef, port: &PortResource) -> bool {
        self.id_of(network, "networks", "networks").is_ok_and(|id| id == port.network_id)
    }

    /// Takes a port off the trunk that carries it; whether one did.
    fn drop_subport(&self, port: &ResourceId) -> Result<bool> {
        let carries = |trunk: &Trunk| trunk.sub_ports.iter().any(|sub| sub.port_id == *port);
        match self.api().trunks(&[])?.into_iter().find(carries) {
            Some(trunk) => gone_is_done(self.api().remove_subport(&trunk.id, port)).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Neutron writes the port's own hardware address where none was given.
fn is_same(there: &Pair, pair: &Pair, own: Mac) -> bool {
    there.ip_address == pair.ip_address
        && there.mac_address.unwrap_or(own) == pair.mac_address.unwrap_or(own)
}

fn free_vlan(trunk: &Trunk) -> Result<u16> {
    let used: BTreeSet<u16> = trunk.sub_ports.iter().map(|sub| sub.segmentation_id).collect();
    VLANS
        .into_iter()
        .find(|vlan| !used.contains(vlan))
        .ok_or_else(|| Error::exhausted(format!("every VLAN of trunk {} is in use", trunk.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_vlan() {
        let sub = |vlan| SubPort {
            port_id: "p".parse().unwrap(),
            segmentation_type: "vlan".to_owned(),
            segmentation_id: vlan,
        };
        let mut trunk = Trunk {
            id: "t".parse().unwrap(),
            name: String::new(),
            port_id: "p".parse().unwrap(),
            sub_ports: vec![sub(1), sub(2), sub(4)],
            revision_number: None,
        };
        assert_eq!(free_vlan(&trunk).unwrap(), 3);
        trunk.sub_ports = VLANS.map(sub).collect();
        assert_eq!(free_vlan(&trunk).unwrap_err().kind(), Kind::Exhausted);
    }

    #[test]
    fn a_pair_without_hardware_address_has_the_ports_own() {
        let (own, other) = (Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2]));
        let pair = |mac| Pair { ip_address: "10.0.0.5".to_owned(), mac_address: mac };
        assert!(is_same(&pair(Some(own)), &pair(None), own));
        assert!(!is_same(&pair(Some(other)), &pair(None), own));
    }
}
