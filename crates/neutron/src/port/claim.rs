//! Ports that exist already: requested with an address, or made by another program before.

use std::net::IpAddr;

use model::{Attachment, Error, Ownership, ResourceId, Result};

use super::known::KnownNetwork;
use super::spec::tags_of;
use super::standing::{in_use, is_made_by};
use crate::Neutron;
use crate::api::{FixedIp, PortChange, PortResource, Tagged};
use crate::contract::{self, Mark};
use crate::nested::SUBPORT;
use crate::port_update::PortUpdate;

/// Neutron's refusal to change what another program has changed.
const STALE: u16 = 412;

/// How often a lost race is run again.
const RACES: usize = 5;

/// A port that is the attachment's now.
pub(crate) struct Claimed {
    pub(crate) port: PortResource,
    pub(crate) ownership: Ownership,
}

impl Neutron {
    /// The port that the attachment names.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where it has another owner.
    pub(crate) fn borrow(
        &self,
        attachment: &Attachment,
        known: &KnownNetwork,
        id: &ResourceId,
    ) -> Result<Claimed> {
        let port = self.api().port(id)?.ok_or_else(|| {
            Error::not_found(format!("Neutron has no port {id} for {}", attachment.id))
        })?;
        if port.network_id != known.network.id {
            return Err(Error::invalid(format!(
                "port {id} is on Neutron's network {}, and {} is on {}",
                port.network_id, attachment.id, known.network.id
            )));
        }
        let wanted = addresses(attachment);
        if let Some(address) = wanted.iter().find(|address| !port.has(**address)) {
            return Err(Error::invalid(format!("port {id} does not have the address {address}")));
        }
        self.refuse_foreign(attachment, &port)?;
        let device = contract::device_id(attachment);
        let is_anothers = !port.device_id.is_empty() && port.device_id != device;
        if is_anothers && port.host().is_some() {
            return Err(in_use(&port, "a container has it"));
        }
        if self.is_made_by_us(&port) && !self.is_own(attachment, &port) {
            return Err(in_use(&port, "it is not there to be named: it goes with its address"));
        }
        self.take_over(attachment, vec![port], Ownership::Borrowed)
    }

    /// The port or ports that have the attachment's addresses, as one; `None` where none has.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where one has another owner.
    pub(crate) fn claim(
        &self,
        attachment: &Attachment,
        known: &KnownNetwork,
    ) -> Result<Option<Claimed>> {
        let wanted = addresses(attachment);
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut ports = Vec::new();
        for port in self.ports_with(&known.network.id, &wanted)? {
            if !self.vacate(&port)? {
                ports.push(port);
            }
        }
        if ports.is_empty() {
            return Ok(None);
        }
        // A port of which another container has an address is not taken as a whole.
        ports.sort_by_key(|port| !self.allocated.others(&port.id, &wanted).is_empty());
        for port in &ports {
            self.refuse_foreign(attachment, port)?;
        }
        let tenures: Vec<Ownership> =
            ports.iter().map(|port| self.ownership(attachment, &known.network.id, port)).collect();
        let first = tenures.first().copied().unwrap_or(Ownership::Requested);
        if let Some(position) = tenures.iter().position(|ownership| *ownership != first) {
            return Err(in_use(&ports[position], "it is not the container's as the other is"));
        }
        let claimed = self.take_over(attachment, ports, first)?;
        for address in &wanted {
            self.allocated.take(&known.network.id, *address);
        }
        Ok(Some(claimed))
    }

    /// Whether it says that it is this attachment's.
    fn is_own(&self, attachment: &Attachment, port: &PortResource) -> bool {
        let device = contract::device_id(attachment);
        let tagged = contract::id_of_tags(port.tags.iter().map(String::as_str));
        port.device_id == device || tagged.is_some_and(|id| id == device)
    }

    fn ownership(
        &self,
        attachment: &Attachment,
        network: &ResourceId,
        port: &PortResource,
    ) -> Ownership {
        let mut addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        if let Some(allocated) = addresses.find_map(|address| self.allocated.port(network, address))
        {
            return allocated.ownership;
        }
        if port.description == self.own_mark(attachment).to_string() {
            return Ownership::Own;
        }
        match self.is_made_by_us(port) {
            true => Ownership::Requested,
            false => Ownership::Borrowed,
        }
    }

    /// Of either family one, at most.
    fn ports_with(&self, network: &ResourceId, wanted: &[IpAddr]) -> Result<Vec<PortResource>> {
        let mut ports: Vec<PortResource> = Vec::new();
        for address in wanted {
            if ports.iter().any(|port| port.has(*address)) {
                continue;
            }
            match self.allocated.port(network, *address).and_then(|allocated| allocated.waiting) {
                Some(port) => ports.push(port),
                None => {
                    let filter = [
                        ("network_id", network.to_string()),
                        ("fixed_ips", format!("ip_address={address}")),
                    ];
                    ports.extend(self.api().ports(&filter)?);
                }
            }
        }
        Ok(ports)
    }

    /// Made by this host, or by kuryr-libnetwork before us: those go with their addresses.
    pub(super) fn is_made_by_us(&self, port: &PortResource) -> bool {
        is_made_by(&self.settings.host, port)
    }

    /// Makes it the attachment's, with as few requests as possible. Where only the name of a port
    /// of this host is to change, the container does not wait for that.
    fn take_over(
        &self,
        attachment: &Attachment,
        ports: Vec<PortResource>,
        ownership: Ownership,
    ) -> Result<Claimed> {
        let mut ports = ports.into_iter();
        let Some(mut port) = ports.next() else {
            return Err(Error::bug(format!("{} has no port to take over", attachment.id)));
        };
        let tags = tags_for(attachment, &port, ownership);
        let requested = match ownership {
            Ownership::Borrowed => PortChange::default(),
            Ownership::Own | Ownership::Requested => self.granted(attachment, &port)?,
        };
        let mut change = self.adapted(attachment, &port, requested)?;
        if self.is_nameable(&port, ownership, &change) && ports.len() == 0 {
            let (of, device_id) = (attachment.id.clone(), change.device_id);
            if tags.is_some() || device_id.is_some() {
                let port_update = PortUpdate { port, of, ownership, device_id, tags };
                self.enqueue(&port_update)?;
                port = port_update.port;
            }
            return Ok(Claimed { port, ownership });
        }
        // The pending port update was for another attachment, or is sent now.
        if self.port_updates().cancel(&port.id)?.is_some() {
            self.port_updates().close(&port.id)?;
        }
        if ownership == Ownership::Borrowed && ports.len() == 0 {
            return self.take_borrowed(attachment, port, change);
        }
        if let Some(tags) = tags {
            self.api().set_tags(Tagged::Ports, &port.id, &tags)?;
            port.tags = tags;
        }
        let mut fixed_ips = port.fixed_ips.clone();
        for other in ports {
            self.merge(&mut fixed_ips, other, &addresses(attachment), ownership)?;
        }
        change.fixed_ips = (fixed_ips != port.fixed_ips).then_some(fixed_ips);
        self.change(port, change, None).map(|port| Claimed { port, ownership })
    }

    /// Several may want a port that existed before: the first who changes it has it.
    fn take_borrowed(
        &self,
        attachment: &Attachment,
        port: PortResource,
        change: PortChange,
    ) -> Result<Claimed> {
        let (mut port, mut change) = (port, change);
        for _ in 0..RACES {
            match self.change(port.clone(), change, port.revision_number) {
                Err(error) if error.status() == Some(STALE) => {}
                changed => {
                    let mut port = changed?;
                    if let Some(tags) = tags_for(attachment, &port, Ownership::Borrowed) {
                        self.api().set_tags(Tagged::Ports, &port.id, &tags)?;
                        port.tags = tags;
                    }
                    return Ok(Claimed { port, ownership: Ownership::Borrowed });
                }
            }
            port = self.api().port(&port.id)?.ok_or_else(|| {
                Error::not_found(format!("port {} of {} was just deleted", port.id, attachment.id))
            })?;
            self.refuse_foreign(attachment, &port)?;
            change = self.adapted(attachment, &port, PortChange::default())?;
        }
        Err(Error::try_again(format!("port {} is changed by others all the time", port.id)))
    }

    /// Whether this host made and bound the port, and nothing is to change that packets could meet.
    fn is_nameable(&self, port: &PortResource, ownership: Ownership, change: &PortChange) -> bool {
        let mark = Mark::read(&port.description);
        let is_ours = mark.is_some_and(|mark| mark.is_of(&self.settings.host));
        let name = PortChange { device_id: change.device_id.clone(), ..PortChange::default() };
        is_ours && ownership != Ownership::Borrowed && *change == name
    }

    /// Applies, once, the attachment's requested properties to a port that was made before they
    /// were known.
    fn granted(&self, attachment: &Attachment, port: &PortResource) -> Result<PortChange> {
        let link = super::spec::link_of(attachment)?;
        let device = self.device_of(attachment, link);
        if !device.is_empty() && port.device_id == device {
            return Ok(PortChange::default());
        }
        let spec = &link.spec;
        let pairs = super::spec::pairs(link);
        let security = spec.port_security.filter(|on| port.port_security_enabled != Some(*on));
        let groups = match (self.group_ids(spec.security_groups.as_deref())?, security) {
            // Neutron gave the port the project's default group, and takes none without filters.
            (None, Some(false)) => Some(Vec::new()),
            (groups, _) => groups,
        };
        Ok(PortChange {
            security_groups: groups.filter(|groups| *groups != port.security_groups),
            port_security_enabled: security,
            qos_policy_id: self.policy_id(spec.qos_policy.as_ref())?,
            dns_name: spec.dns_name.as_ref().map(|name| name.as_str().to_owned()),
            allowed_address_pairs: (pairs != port.allowed_address_pairs).then_some(pairs),
            ..PortChange::default()
        })
    }

    /// Takes the addresses of another port of Spoke's: a runtime asks for those of each family
    /// separately. Addresses that another container may have stay where they are.
    fn merge(
        &self,
        ips: &mut Vec<FixedIp>,
        mut other: PortResource,
        wanted: &[IpAddr],
        ownership: Ownership,
    ) -> Result<()> {
        if ownership == Ownership::Borrowed {
            return Err(Error::conflict(format!(
                "the address of port {} is to be used with that of another port, and one \
                 of them was there before",
                other.id
            )));
        }
        let is_wanted = |ip: &FixedIp| ip.ip_address.is_some_and(|ip| wanted.contains(&ip));
        let (moved, remaining): (Vec<_>, Vec<_>) = other.fixed_ips.drain(..).partition(is_wanted);
        if remaining.is_empty() {
            self.abandon(&other.id)?;
            self.allocated.remove(&other.id);
        } else {
            let change = PortChange { fixed_ips: Some(remaining), ..PortChange::default() };
            let parted = self.api().change_port(&other.id, &change, None)?;
            self.allocated.part(&parted, wanted);
        }
        ips.extend(moved);
        Ok(())
    }

    /// The differences from the attachment's port, besides the requested properties.
    fn adapted(
        &self,
        attachment: &Attachment,
        port: &PortResource,
        change: PortChange,
    ) -> Result<PortChange> {
        let link = super::spec::link_of(attachment)?;
        let device = self.device_of(attachment, link);
        let host = self.settings.host.as_str();
        let is_nested = self.nesting(link).is_some();
        let is_bound = port.host() == Some(host);
        // A program that bound it to this host for a container before identifies it by its own id.
        let is_named = is_bound && !port.device_id.is_empty() && !self.is_made_by_us(port);
        let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        Ok(PortChange {
            mac_address: mac.filter(|mac| *mac != port.mac_address),
            admin_state_up: (!port.admin_state_up).then_some(true),
            device_id: (port.device_id != device && !is_named).then_some(device),
            device_owner: (!matches!(port.device_owner.as_str(), contract::OWNER | SUBPORT))
                .then(|| contract::OWNER.to_owned()),
            host: (!is_bound && !is_nested).then(|| host.to_owned()),
            ..change
        })
    }

    /// Changes what differs, if anything does, and if the port still has this revision.
    fn change(
        &self,
        port: PortResource,
        change: PortChange,
        revision: Option<u64>,
    ) -> Result<PortResource> {
        if change == PortChange::default() {
            return Ok(port);
        }
        let host = self.settings.host.as_str();
        if change.mac_address.is_some() && port.host() == Some(host) {
            // Neutron changes the hardware address of what is bound to no host alone.
            let unbound = PortChange { host: Some(String::new()), ..PortChange::default() };
            self.api().change_port(&port.id, &unbound, revision)?;
            let change = PortChange { host: Some(host.to_owned()), ..change };
            return self.api().change_port(&port.id, &change, None);
        }
        let mut changed = self.api().change_port(&port.id, &change, revision)?;
        // The answer has the previous tags, if any.
        changed.tags = port.tags;
        Ok(changed)
    }
}

/// The tags of the attachment's port, if they differ. Tags that are no id stay.
fn tags_for(
    attachment: &Attachment,
    port: &PortResource,
    ownership: Ownership,
) -> Option<Vec<String>> {
    let mut tags = port.tags.clone();
    let existing = (ownership == Ownership::Borrowed).then(|| contract::EXISTING_PORT.to_owned());
    let ours = tags_of(attachment).into_iter();
    // kuryr-libnetwork would delete what has the tag of those that it made.
    let ours = ours.filter(|tag| ownership != Ownership::Borrowed || tag != contract::OWNER);
    // Of an earlier endpoint.
    tags.retain(|tag| !contract::is_id_tag(tag));
    for tag in ours.chain(existing) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    (tags != port.tags).then_some(tags)
}

fn addresses(attachment: &Attachment) -> Vec<IpAddr> {
    attachment.leases.iter().map(|lease| lease.address.addr()).collect()
}
