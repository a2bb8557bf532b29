//! The end of a port when its attachment ends.

use std::net::IpAddr;

use model::{
    Attachment, Binding, LinkKind, Mac, Nesting, NeutronLink, Ownership, ResourceId, ResourceRef,
    Result, Vif,
};

use super::spec::{link_of, tags_of};
use crate::Neutron;
use crate::api::{PortChange, PortResource, Tagged, gone_is_done};
use crate::contract::{self, Mark};
use crate::plug;
use crate::port_update::{Cancelled, PortUpdate};

/// Whose a port is that a record names.
enum Still {
    /// The attachment's.
    Its,
    /// Another container's, or the stock's.
    Anothers,
    /// It is gone from Neutron.
    Gone,
}

impl Neutron {
    /// Ends the attachment's port, once nothing on this host is connected to it: deletes it,
    /// returns it to the stock, unbinds it, or leaves it to its requester. A port that is gone is
    /// no error. A record that does not know its port yet finds it by the port's own data.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where Neutron does not answer: then the record must stay.
    pub fn end(&self, attachment: &Attachment) -> Result<()> {
        let link = link_of(attachment)?;
        let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        match &link.binding {
            Some(binding) => self.end_bound(attachment, link, binding, mac),
            None => self.end_unknown(attachment, link),
        }
    }

    fn end_bound(
        &self,
        attachment: &Attachment,
        link: &NeutronLink,
        binding: &Binding,
        mac: Option<Mac>,
    ) -> Result<()> {
        self.statuses.forget(&binding.port);
        let cancelled = self.unnamed(binding)?;
        let mut addresses: Vec<_> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        if binding.ownership == Ownership::Own && cancelled.is_none() {
            match self.still(attachment, &binding.port)? {
                Still::Its => {}
                Still::Anothers => return Ok(()),
                // Without a hardware address another container's pair is the same.
                Still::Gone if matches!(binding.vif, Vif::Ipvlan { .. }) => {
                    addresses = self.unused(link, addresses)?;
                }
                Still::Gone => {}
            }
        }
        self.unnest(&binding.vif, &binding.port, mac, &addresses)?;
        if link.spec.floating_ip.is_some() {
            self.drop_floating_ips(&binding.port)?;
        }
        match binding.ownership {
            Ownership::Own => self.end_own(&binding.port, cancelled),
            // It goes with its address.
            Ownership::Requested => {
                self.allocated.end(&binding.port);
                Ok(())
            }
            // The requester of its address releases it.
            Ownership::Borrowed
                if link.spec.port.is_none() && self.allocated.has(&binding.port) =>
            {
                self.conceal_given_back(attachment, &binding.port)
            }
            Ownership::Borrowed => self.give_up(attachment, &binding.port),
        }
    }

    /// Cancels the pending update of a port. For a port that ends with its address, the caller that
    /// ends it waits.
    fn unnamed(&self, binding: &Binding) -> Result<Option<Cancelled>> {
        match binding.ownership {
            Ownership::Own => self.port_updates().cancel(&binding.port),
            Ownership::Requested => self.port_updates().cancel_idle(&binding.port).map(|()| None),
            Ownership::Borrowed => Ok(None),
        }
    }

    /// Brings a port to its end that was made for an attachment, whatever Neutron knows of that.
    fn end_own(&self, id: &ResourceId, cancelled: Option<Cancelled>) -> Result<()> {
        let book = self.port_updates();
        if cancelled != Some(Cancelled::Unsure) && self.is_for_stock(id) {
            // If this process is killed here, the reconciler finishes. Later, the port could have
            // another owner.
            book.close(id)?;
            if self.return_to_stock(id)? {
                return Ok(());
            }
        }
        self.abandon(id)?;
        self.stock_files().drop_lent(id).map(drop)
    }

    /// Whether a port still belongs to the attachment. A process that is killed after it returned a
    /// port to the stock, and before it recorded that, returns it once more.
    fn still(&self, attachment: &Attachment, port: &ResourceId) -> Result<Still> {
        if self.settings.stock.is_none() {
            return Ok(Still::Its);
        }
        let tags = contract::id_tags(&contract::device_id(attachment));
        Ok(match self.api().port(port)? {
            None => Still::Gone,
            Some(port) if tags.iter().all(|tag| port.is_tagged(tag)) => Still::Its,
            Some(_) => Still::Anothers,
        })
    }

    /// Those of the addresses that no port of the network has.
    fn unused(&self, link: &NeutronLink, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>> {
        let ResourceRef::Id(network) = &link.network else { return Ok(addresses) };
        let mut unused = Vec::new();
        for address in addresses {
            let of_network = ("network_id", network.to_string());
            let filter = [of_network, ("fixed_ips", format!("ip_address={address}"))];
            if self.api().ports(&filter)?.is_empty() {
                unused.push(address);
            }
        }
        Ok(unused)
    }

    /// A process that was killed may have made one.
    fn end_unknown(&self, attachment: &Attachment, link: &NeutronLink) -> Result<()> {
        let queued = self.namings_of(attachment)?;
        for port_update in &queued {
            self.end_unnamed(link, port_update)?;
        }
        let is_done =
            |port: &PortResource| queued.iter().any(|port_update| port_update.port.id == port.id);
        for port in self.ports_of(attachment)?.into_iter().filter(|port| !is_done(port)) {
            let addresses: Vec<_> = port.fixed_ips.iter().filter_map(|ip| ip.ip_address).collect();
            self.unnest_unknown(link, &port.id, port.mac_address, &addresses)?;
            if link.spec.floating_ip.is_some() {
                self.drop_floating_ips(&port.id)?;
            }
            match self.made_for(attachment, &port) {
                true if self.return_to_stock(&port.id)? => {}
                true => self.abandon(&port.id)?,
                false if self.is_made_by_us(&port) || self.allocated.has(&port.id) => {}
                // It goes with its address.
                false if contract::is_kuryrs(&port) => {}
                false => self.give_up(attachment, &port.id)?,
            }
        }
        match &link.spec.port {
            Some(port) => self.give_up(attachment, port),
            None => Ok(()),
        }
    }

    /// Of a port of which Neutron may not know yet whose it is.
    fn end_unnamed(&self, link: &NeutronLink, port_update: &PortUpdate) -> Result<()> {
        let port = &port_update.port;
        let (ownership, book) = (port_update.ownership, self.port_updates());
        let cancelled = book.cancel(&port.id)?;
        let addresses: Vec<_> = port.fixed_ips.iter().filter_map(|ip| ip.ip_address).collect();
        self.unnest_unknown(link, &port.id, port.mac_address, &addresses)?;
        if link.spec.floating_ip.is_some() {
            self.drop_floating_ips(&port.id)?;
        }
        match ownership {
            Ownership::Own => self.end_own(&port.id, cancelled),
            Ownership::Requested | Ownership::Borrowed => {
                if cancelled == Some(Cancelled::Unsure) {
                    self.stock_files().drop_lent(&port.id)?;
                }
                book.close(&port.id)
            }
        }
    }

    /// The attachment with each port that names it, where the record has none: kuryr-libnetwork
    /// connected it, or the record was lost, and the port is still on this host.
    ///
    /// # Errors
    /// Where Neutron does not answer.
    pub fn found(&self, attachment: &Attachment) -> Result<Vec<Attachment>> {
        let link = link_of(attachment)?;
        let mut found = Vec::new();
        let device = contract::device_id(attachment);
        // Another program's port is that program's to disconnect.
        let may_be_here =
            |port: &PortResource| port.device_id.is_empty() || port.device_id == device;
        for port in self.ports_of(attachment)?.into_iter().filter(may_be_here) {
            let vif = match self.nesting(link) {
                Some(nesting) => plug::nested(nesting),
                // A port that cannot be connected was not.
                None => plug::vif_of(&port, &self.settings.plugging).ok(),
            };
            let Some(vif) = vif else { continue };
            let (ownership, user) = (Ownership::Requested, contract::port_user(attachment));
            let binding = Binding { port: port.id, ownership, vif, user };
            let mut with = attachment.clone();
            if let Some(link) = &mut with.wiring.link {
                link.mac = Some(port.mac_address);
                let known = link_of(attachment)?.clone();
                let network = ResourceRef::Id(port.network_id);
                let made = NeutronLink { network, binding: Some(binding), ..known };
                link.kind = LinkKind::Neutron(Box::new(made));
            }
            found.push(with);
        }
        Ok(found)
    }

    /// The ports that say that they are this attachment's.
    pub(crate) fn ports_of(&self, attachment: &Attachment) -> Result<Vec<PortResource>> {
        let (link, device) = (link_of(attachment)?, contract::device_id(attachment));
        let tagged = ("tags", contract::id_tags(&device).join(","));
        let user = match self.nesting(link) {
            Some(Nesting::Trunk { .. }) => ("description", self.own_mark(attachment).to_string()),
            _ => ("device_id", device),
        };
        let mut ports = self.api().ports(&[user])?;
        // One that is bound for another program keeps that program's `device_id`.
        ports.extend(self.api().ports(&[tagged])?);
        ports.sort_by(|one, other| one.id.cmp(&other.id));
        ports.dedup_by(|one, other| one.id == other.id);
        if let ResourceRef::Id(network) = &link.network {
            ports.retain(|port| port.network_id == *network);
        }
        Ok(ports)
    }

    /// Whether a port was made for this attachment alone, and not requested with an address.
    fn made_for(&self, attachment: &Attachment, port: &PortResource) -> bool {
        if port.description == self.own_mark(attachment).to_string() {
            return true;
        }
        let mark = Mark::read(&port.description).filter(|mark| mark.is_of(&self.settings.host));
        let is_of_stock = mark.as_ref().and_then(crate::stock_key::KeyDigest::of_mark).is_some();
        is_of_stock && attachment.ipam.fixed_addresses().is_empty()
    }

    /// The `device_id` of a port that an earlier version claimed for the attachment, and was killed before
    /// it recorded that: it gave the container's id to every port of a container of 64 digits. A port of
    /// another network is another attachment's.
    fn former_device(&self, attachment: &Attachment, port: &PortResource) -> Option<String> {
        let link = link_of(attachment).ok().filter(|link| link.binding.is_none())?;
        let former = contract::former_device_id(attachment)?;
        let is_its = port.device_id == former && self.is_network(&link.network, port);
        is_its.then_some(former)
    }

    /// Only engines expose ports, and a call that ends that may have failed.
    fn conceal_given_back(&self, attachment: &Attachment, port: &ResourceId) -> Result<()> {
        match attachment.alias {
            Some(_) => self.conceal_lent(port),
            None => Ok(()),
        }
    }

    /// Frees a port that existed before; one that has another owner by now stays.
    fn give_up(&self, attachment: &Attachment, id: &ResourceId) -> Result<()> {
        let Some(port) = self.api().port(id)? else { return Ok(()) };
        let former = self.former_device(attachment, &port);
        let ours = match &former {
            Some(former) => [tags_of(attachment), contract::id_tags(former)].concat(),
            None => tags_of(attachment),
        };
        let device = former.unwrap_or_else(|| contract::device_id(attachment));
        let is_tagged = contract::id_tags(&device).iter().all(|tag| port.is_tagged(tag));
        if port.device_id != device && !is_tagged {
            return Ok(());
        }
        self.conceal_given_back(attachment, id)?;
        let is_here = port.host().is_none_or(|host| host == self.settings.host.as_str());
        let is_device = port.device_id == device;
        // A program that bound it to this host under its own name still has it.
        if is_here && (is_device || port.device_id.is_empty()) {
            let change = PortChange {
                device_id: is_device.then(String::new),
                device_owner: Some(String::new()),
                host: Some(String::new()),
                ..PortChange::default()
            };
            gone_is_done(self.api().change_port(id, &change, None).map(drop))?;
        }
        let is_ours = |tag: &String| ours.contains(tag) || tag == contract::EXISTING_PORT;
        let remaining: Vec<String> =
            port.tags.iter().filter(|tag| !is_ours(tag)).cloned().collect();
        match remaining == port.tags {
            true => Ok(()),
            false => gone_is_done(self.api().set_tags(Tagged::Ports, id, &remaining)),
        }
    }
}
