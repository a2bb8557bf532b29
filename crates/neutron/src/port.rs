//! The life of one attachment's port.
//!
//! A dataplane calls, in this order: [`Neutron::offer`], which finds or makes the port;
//! [`Neutron::prepare`]; then it makes the link of [`kernel`]; then [`Neutron::plug`]. To undo:
//! [`Neutron::unplug`], then the link is deleted, then [`Neutron::release`]; at the end
//! [`Neutron::end`].

mod claim;
mod end;
mod floating;
mod known;
mod offer;
mod spec;
mod standing;
mod status;

use engine::port::Offer;
use model::{
    Attachment, Binding, Error, Link, LinkKind, Mac, Nesting, Network, NeutronLink, Ownership,
    ResourceRef, Result, Vif,
};

use crate::Neutron;
use crate::api::{NewPort, PortResource};
use crate::contract;
use crate::plug::{self, SwitchPort};
use crate::port_update::PortUpdate;
use crate::stock_key::{PortUse, StockKey};
use claim::Claimed;
pub(crate) use known::KnownNetwork;
pub(crate) use spec::{link_of, tags_of};
pub(crate) use status::bound_port;

/// The attachment as the kernel's dataplane makes it: what stands for Neutron's port there is a link
/// of its own kind. `None`: the port is not known yet, so nothing was made.
///
/// # Errors
/// None, as ids are short enough to be in an interface's name.
pub fn kernel(attachment: &Attachment) -> Result<Option<Attachment>> {
    let link = attachment.wiring.link.as_ref();
    let Some(Link { kind: LinkKind::Neutron(neutron), .. }) = link else { return Ok(None) };
    let (Some(binding), Some(link)) = (&neutron.binding, link) else { return Ok(None) };
    let mut made = attachment.clone();
    made.wiring.link = Some(plug::kernel_link(neutron, binding, link)?);
    Ok(Some(made))
}

impl Neutron {
    /// Finds or makes the attachment's port, and returns the container's part: addresses, routes,
    /// resolvers, and a link with the port's id. Where the answer to a request is lost, the port
    /// that it made is found. A port that an earlier process made and did not record is deleted by
    /// [`Neutron::end`], before this is repeated.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where an address or the port has another owner; Neutron's refusal.
    pub fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let link = link_of(attachment)?;
        let known = self.known_network(&link.network)?;
        let Claimed { port, ownership } = self.port_for(attachment, link, &known)?;
        self.statuses.note(&port);
        let vif = self.vif(attachment, link, &port)?;
        if let Some(network) = &link.spec.floating_ip {
            self.float(&port.id, network)?;
        }
        let binding = Binding {
            port: port.id.clone(),
            ownership,
            vif,
            user: contract::port_user(attachment),
        };
        let reported = offer::offer(attachment, link, &known, &port, binding.clone())?;
        if let Some(offer) = reported {
            return Ok(offer);
        }
        // The subnet is younger than what is known of the network.
        let known = self.fresh_network(&link.network)?;
        offer::offer(attachment, link, &known, &port, binding)?.ok_or_else(|| {
            Error::try_again(format!(
                "port {} has addresses of subnets that are not there",
                port.id
            ))
        })
    }

    fn port_for(
        &self,
        attachment: &Attachment,
        link: &NeutronLink,
        known: &KnownNetwork,
    ) -> Result<Claimed> {
        if let Some(id) = &link.spec.port {
            return self.borrow(attachment, known, id);
        }
        match self.claim(attachment, known)? {
            Some(claimed) => Ok(claimed),
            None => self.own_port(attachment, link, known),
        }
    }

    /// From the stock, or made now.
    fn own_port(
        &self,
        attachment: &Attachment,
        link: &NeutronLink,
        known: &KnownNetwork,
    ) -> Result<Claimed> {
        let mut new = self.new_port(attachment, link, known)?;
        let key = self.key_of(attachment, link, known, &new)?;
        let ready = key.as_ref().map(|key| self.take_from_stock(key)).transpose()?.flatten();
        if let Some(port) = ready {
            return self.name_own(attachment, port, Some(new.device_id));
        }
        if let Some(key) = &key {
            new.description = key.digest()?.mark(&self.settings.host).to_string();
        }
        let port = self.create(attachment, &new)?;
        if let Some(key) = &key {
            self.lend_from_stock(key, &port)?;
        }
        self.name_own(attachment, port, None)
    }

    /// It is bound already: its container need not wait until Neutron shows the port's user.
    fn name_own(
        &self,
        attachment: &Attachment,
        port: PortResource,
        device_id: Option<String>,
    ) -> Result<Claimed> {
        let (tags, ownership) = (Some(tags_of(attachment)), Ownership::Own);
        let port_update =
            PortUpdate { port, of: attachment.id.clone(), ownership, device_id, tags };
        self.enqueue(&port_update)?;
        Ok(Claimed { port: port_update.port, ownership })
    }

    /// One request; another one where the effect of the first is unknown.
    fn create(&self, attachment: &Attachment, new: &NewPort) -> Result<PortResource> {
        let refused = match self.api().create_port(new) {
            Ok(port) => return Ok(port),
            Err(error) => error,
        };
        let made = self.ports_of(attachment).unwrap_or_default();
        made.into_iter().find(|port| port.description == new.description).ok_or(refused)
    }

    /// Of which ports of the stock it is one; none where it is to be what only itself is.
    fn key_of(
        &self,
        attachment: &Attachment,
        link: &NeutronLink,
        known: &KnownNetwork,
        new: &NewPort,
    ) -> Result<Option<StockKey>> {
        let is_particular = !attachment.leases.is_empty()
            || new.mac_address.is_some()
            || new.dns_name.is_some()
            || !new.allowed_address_pairs.is_empty();
        if is_particular || self.settings.stock.is_none() {
            return Ok(None);
        }
        let place = match self.nesting(link) {
            None => PortUse::Host,
            Some(Nesting::Macvlan { .. } | Nesting::Ipvlan { .. }) => PortUse::Nested,
            Some(Nesting::Trunk { .. }) => return Ok(None),
        };
        let mut key = self.stock_key(place, &known.network.id);
        let ips = new.fixed_ips.iter().flatten();
        key.subnets = ips.filter_map(|ip| ip.subnet_id.clone()).collect();
        key.groups = new.security_groups.as_ref().map(|groups| groups.iter().cloned().collect());
        key.port_security = new.port_security_enabled;
        key.qos_policy.clone_from(&new.qos_policy_id);
        Ok(Some(key))
    }

    /// How the network's containers are connected, where this host is an instance of the cloud.
    pub(crate) fn nesting<'a>(&'a self, link: &'a NeutronLink) -> Option<&'a Nesting> {
        link.spec.nesting.as_ref().or(self.settings.plugging.nesting.as_ref())
    }

    fn vif(&self, attachment: &Attachment, link: &NeutronLink, port: &PortResource) -> Result<Vif> {
        let vif = match self.nesting(link) {
            Some(nesting) => self.nest(attachment, nesting, port),
            None => plug::vif_of(port, &self.settings.plugging),
        };
        vif.map_err(|error| error.context(format!("connecting {}", attachment.id)))
    }

    /// Compares the port with what the attachment should be.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where it is gone; [`model::Kind::Conflict`] where it is another's,
    /// or lost an address.
    pub fn check(&self, attachment: &Attachment) -> Result<()> {
        let link = link_of(attachment)?;
        let id = bound_port(attachment, link)?;
        let port = self.api().port(id)?.ok_or_else(|| {
            Error::not_found(format!("port {id} of {} is gone from Neutron", attachment.id))
        })?;
        let host = self.settings.host.as_str();
        if self.nesting(link).is_none() && port.host() != Some(host) {
            return Err(Error::conflict(format!(
                "port {id} of {} is bound to host {}, and not to {host}",
                attachment.id,
                port.host().unwrap_or("none"),
            )));
        }
        let held = attachment.addresses.iter().map(|held| held.address.addr());
        match held.into_iter().find(|address| !port.has(*address)) {
            Some(address) => Err(Error::conflict(format!(
                "port {id} of {} has the address {address} no longer",
                attachment.id
            ))),
            None => Ok(()),
        }
    }

    /// Whether the network exists, and Neutron answers.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where it does not exist; [`model::Kind::TryAgain`] where Neutron
    /// does not answer.
    pub fn status(&self, network: &Network) -> Result<()> {
        let link = network.wiring.link.as_ref().map(|link| &link.kind);
        let Some(LinkKind::Neutron(link)) = link else { return Ok(()) };
        let known = self.fresh_network(&link.network)?;
        link.subnets.iter().try_for_each(|subnet| known.subnet(subnet).map(drop))
    }

    /// Prepares what must exist before the link.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn prepare(&self, attachment: &Attachment) -> Result<()> {
        self.with_switch_port(attachment, plug::prepare)
    }

    /// Connects the link that was made, and waits until it passes traffic where that is configured.
    ///
    /// # Errors
    /// What the switch or the kernel refuses.
    pub fn plug(&self, attachment: &Attachment) -> Result<()> {
        self.with_switch_port(attachment, |switch_port| {
            plug::plug(switch_port, &self.settings.plugging)
        })?;
        self.wait_until_active(attachment)
    }

    /// The opposite, while the link may still be there. No request is made.
    ///
    /// # Errors
    /// What the switch or the kernel refuses.
    pub fn unplug(&self, attachment: &Attachment) -> Result<()> {
        self.with_switch_port(attachment, |switch_port| {
            plug::unplug(switch_port, &self.settings.plugging)
        })
    }

    /// The last step on this host once the link is gone.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn release(&self, attachment: &Attachment) -> Result<()> {
        self.with_switch_port(attachment, plug::release)
    }

    /// Removes the host's end of a link that another program of the same contract made for the
    /// port; what is gone is no error.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn drop_foreign_end(&self, attachment: &Attachment) -> Result<()> {
        match &link_of(attachment)?.binding {
            Some(binding) => plug::drop_foreign_end(&binding.port),
            None => Ok(()),
        }
    }

    fn with_switch_port(
        &self,
        attachment: &Attachment,
        work: impl FnOnce(&SwitchPort<'_>) -> Result<()>,
    ) -> Result<()> {
        let link = link_of(attachment)?;
        let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        // Without a port nothing is connected.
        let (Some(binding), Some(mac)) = (&link.binding, mac) else { return Ok(()) };
        let ResourceRef::Id(network) = &link.network else { return Ok(()) };
        let device = contract::device_id(attachment);
        let project = self.project_of(&binding.vif, link);
        let switch_port = SwitchPort {
            vif: &binding.vif,
            port: &binding.port,
            network,
            mac,
            device: &device,
            project: &project,
        };
        work(&switch_port)
    }

    /// Only scripts get it.
    fn project_of(&self, vif: &Vif, link: &NeutronLink) -> String {
        match vif {
            Vif::Script { .. } => {
                self.known_network(&link.network).map(|known| known.network.project_id)
            }
            _ => Ok(String::new()),
        }
        .unwrap_or_default()
    }
}

/// The hardware address that the attachment's interface has, once its port is known, or is to have.
pub fn hardware_address(attachment: &Attachment) -> Option<Mac> {
    attachment.wiring.link.as_ref().and_then(|link| link.mac)
}
