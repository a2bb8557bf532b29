//! The output about networks of Neutron and their ports.

use model::{Attachment, LinkKind, Nesting, Network, NeutronLink, ResourceRef};
use serde::Serialize;

/// Of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NeutronView {
    /// Its id or name.
    pub(crate) network: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) security_groups: Option<Vec<String>>,
    pub(crate) port_security: Option<bool>,
    pub(crate) qos_policy: Option<String>,
    pub(crate) dns_name: Option<String>,
    /// `ADDRESS/LENGTH`, or `ADDRESS/LENGTH@MAC`.
    pub(crate) allowed_address_pairs: Vec<String>,
    pub(crate) port: Option<String>,
    pub(crate) floating_ip: Option<String>,
    /// `macvlan`, `ipvlan` or `trunk`.
    pub(crate) nesting: Option<&'static str>,
}

/// Of one container's port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NeutronPortView {
    /// The network's id.
    pub(crate) network: String,
    /// The port's id, once there is one.
    pub(crate) port: Option<String>,
}

impl NeutronView {
    pub(super) fn of(network: &Network) -> Option<Self> {
        let link = link_of(network.wiring.link.as_ref().map(|link| &link.kind))?;
        let spec = &link.spec;
        let pair = |pair: &model::AddressPair| match pair.mac {
            Some(mac) => format!("{}@{mac}", pair.net),
            None => pair.net.to_string(),
        };
        Some(Self {
            network: link.network.to_string(),
            subnets: texts(&link.subnets),
            security_groups: spec.security_groups.as_deref().map(texts),
            port_security: spec.port_security,
            qos_policy: spec.qos_policy.as_ref().map(ToString::to_string),
            dns_name: spec.dns_name.as_ref().map(ToString::to_string),
            allowed_address_pairs: spec.allowed_address_pairs.iter().map(pair).collect(),
            port: spec.port.as_ref().map(ToString::to_string),
            floating_ip: spec.floating_ip.as_ref().map(ToString::to_string),
            nesting: spec.nesting.as_ref().map(|nesting| match nesting {
                Nesting::Macvlan { .. } => "macvlan",
                Nesting::Ipvlan { .. } => "ipvlan",
                Nesting::Trunk { .. } => "trunk",
            }),
        })
    }
}

impl NeutronPortView {
    pub(super) fn of(layers: &[&Attachment]) -> Option<Self> {
        let mut links = layers.iter().filter_map(|layer| layer.wiring.link.as_ref());
        let link = links.find_map(|link| link_of(Some(&link.kind)))?;
        let port = link.binding.as_ref().map(|binding| binding.port.to_string());
        Some(Self { network: link.network.to_string(), port })
    }
}

fn link_of(kind: Option<&LinkKind>) -> Option<&NeutronLink> {
    match kind {
        Some(LinkKind::Neutron(link)) => Some(link),
        _ => None,
    }
}

fn texts(resources: &[ResourceRef]) -> Vec<String> {
    resources.iter().map(ToString::to_string).collect()
}
