//! The port that an attachment asks for.

use model::{Attachment, Error, LinkKind, Nesting, NeutronLink, ResourceId, ResourceRef, Result};

use super::known::KnownNetwork;
use crate::Neutron;
use crate::api::{FixedIp, NewPort, Pair};
use crate::contract::{self, Mark};

/// The Neutron link of an attachment.
///
/// # Errors
/// [`model::Kind::Bug`] where it has another link.
pub(crate) fn link_of(attachment: &Attachment) -> Result<&NeutronLink> {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => Ok(link),
        Some(_) | None => Err(Error::bug(format!("{} is on no Neutron network", attachment.id))),
    }
}

/// Every tag of a port that is an attachment's.
pub(crate) fn tags_of(attachment: &Attachment) -> Vec<String> {
    let halves = contract::id_tags(&contract::device_id(attachment));
    [vec![contract::OWNER.to_owned()], halves].concat()
}

impl Neutron {
    /// The mark of a port that is made for this attachment alone.
    pub(crate) fn own_mark(&self, attachment: &Attachment) -> Mark {
        Mark::new(&self.settings.host, contract::device_id(attachment))
    }

    /// The body of the POST for the attachment.
    ///
    /// # Errors
    /// Where something that it names does not exist, or an address is in no subnet of the network.
    pub(crate) fn new_port(
        &self,
        attachment: &Attachment,
        link: &NeutronLink,
        known: &KnownNetwork,
    ) -> Result<NewPort> {
        let spec = &link.spec;
        let nesting = self.nesting(link);
        Ok(NewPort {
            is_unique: false,
            name: contract::PORT_NAME.to_owned(),
            network_id: Some(known.network.id.clone()),
            fixed_ips: fixed_ips(attachment, link, known)?,
            mac_address: attachment.wiring.link.as_ref().and_then(|link| link.mac),
            admin_state_up: true,
            device_id: self.device_of(attachment, link),
            device_owner: contract::OWNER.to_owned(),
            host: nesting.is_none().then(|| self.settings.host.to_string()),
            description: self.own_mark(attachment).to_string(),
            tags: Vec::new(),
            security_groups: self.group_ids(spec.security_groups.as_deref())?,
            port_security_enabled: spec.port_security,
            qos_policy_id: self.policy_id(spec.qos_policy.as_ref())?,
            dns_name: spec.dns_name.as_ref().map(|name| name.as_str().to_owned()),
            allowed_address_pairs: pairs(link),
        })
    }

    /// The port's user in Neutron. A trunk takes only ports without a user: those have only a mark
    /// and tags.
    pub(crate) fn device_of(&self, attachment: &Attachment, link: &NeutronLink) -> String {
        match self.nesting(link) {
            Some(Nesting::Trunk { .. }) => String::new(),
            _ => contract::device_id(attachment),
        }
    }

    pub(super) fn policy_id(&self, policy: Option<&ResourceRef>) -> Result<Option<ResourceId>> {
        policy.map(|policy| self.id_of(policy, "qos/policies", "policies")).transpose()
    }

    pub(super) fn group_ids(
        &self,
        groups: Option<&[ResourceRef]>,
    ) -> Result<Option<Vec<ResourceId>>> {
        let id = |group| self.id_of(group, "security-groups", "security_groups");
        groups.map(|groups| groups.iter().map(id).collect()).transpose()
    }
}

pub(super) fn pairs(link: &NeutronLink) -> Vec<Pair> {
    link.spec.allowed_address_pairs.iter().map(|pair| Pair::new(&pair.net, pair.mac)).collect()
}

/// The addresses that are wanted, and one of each subnet that is named and has none of those.
fn fixed_ips(
    attachment: &Attachment,
    link: &NeutronLink,
    known: &KnownNetwork,
) -> Result<Option<Vec<FixedIp>>> {
    let mut wanted = Vec::new();
    for lease in &attachment.leases {
        let address = lease.address.addr();
        let mut holding = known.subnets.iter().filter(|subnet| subnet.cidr.contains(&address));
        let subnet = holding.next().ok_or_else(|| {
            Error::invalid(format!(
                "address {address} is in no subnet of Neutron's network {}",
                known.network.id
            ))
        })?;
        wanted.push(FixedIp { subnet_id: Some(subnet.id.clone()), ip_address: Some(address) });
    }
    for subnet in &link.subnets {
        let id = &known.subnet(subnet)?.id;
        if wanted.iter().all(|ip| ip.subnet_id.as_ref() != Some(id)) {
            wanted.push(FixedIp { subnet_id: Some(id.clone()), ip_address: None });
        }
    }
    Ok(Some(wanted).filter(|wanted| !wanted.is_empty()))
}
