//! The output about networks of Docker plugins, and their addresses.

use model::{Attachment, Family, Ipam, LinkKind, Network, Phase, RemotePool, Stage, Unmaking};
use serde::Serialize;

use super::SubnetView;

/// The state of a network to which containers can be attached.
pub(crate) const READY: &str = "ready";

/// Of a network whose containers a Docker network plugin connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RemoteView {
    /// The plugin's name.
    pub(crate) plugin: String,
    /// The plugin's id of the network.
    pub(crate) id: String,
    /// The plugin's options for it, as they are stored.
    pub(crate) parameters: serde_json::Value,
}

/// A container whose default route is a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LedView {
    pub(crate) container: String,
    /// `ipv4`, `ipv6`.
    pub(crate) families: Vec<&'static str>,
    pub(crate) priority: i32,
}

impl RemoteView {
    pub(super) fn of(network: &Network) -> Option<Self> {
        match network.wiring.link.as_ref().map(|link| &link.kind) {
            Some(LinkKind::Remote(link)) => Some(Self {
                plugin: link.driver.to_string(),
                id: link.id.to_string(),
                parameters: serde_json::from_str(&link.network).unwrap_or_default(),
            }),
            Some(_) | None => None,
        }
    }
}

impl LedView {
    /// Those of the containers on a network that have their default gateway there.
    pub(super) fn of(on_it: &[Attachment]) -> Vec<Self> {
        let led = on_it.iter().filter_map(|attachment| {
            let led = led(attachment).filter(|families| !families.is_empty())?;
            let gateway_role = attachment.gateway_role.as_ref()?;
            Some(Self {
                container: attachment.id.container.to_string(),
                families: families(led),
                priority: gateway_role.priority,
            })
        });
        led.collect()
    }
}

/// Whether its ports lead to it: those of a container that Spoke connects lead to its
/// default-gateway endpoint.
pub(crate) fn serves(record: &Attachment) -> bool {
    led(record).is_none_or(|families| !families.is_empty())
}

/// The families of its gateway role, where Spoke connects the container; `None` for one that is not
/// complete.
pub(crate) fn led(record: &Attachment) -> Option<&[Family]> {
    let families =
        record.gateway_role.as_ref().map(|gateway_role| gateway_role.families.as_slice())?;
    Some(if matches!(record.phase, Phase::Attached(_)) { families } else { &[] })
}

/// Whether containers can be attached to a network, in the words of the glossary.
pub(super) fn state(network: &Network) -> &'static str {
    match network.stage {
        Stage::Made => READY,
        Stage::Draining if network.unsupported => "unsupported",
        Stage::Draining => "draining",
        Stage::Making { .. } => "creating",
        Stage::Unmaking { why: Unmaking::Removed, .. } => "removing",
        Stage::Unmaking { why: Unmaking::Renamed, .. } => "renaming",
        Stage::Failed => "failed",
        Stage::Template => "config-only",
    }
}

/// As they are shown.
pub(super) fn families(families: &[Family]) -> Vec<&'static str> {
    let name = |family: &Family| match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    families.iter().map(name).collect()
}

/// The pools of an IPAM plugin: those that it allocated, or those to request.
pub(super) fn subnets(ipam: &Ipam) -> Vec<SubnetView> {
    let pools = ipam.remote().into_iter().flat_map(|remote| &remote.pools);
    pools.filter_map(subnet).collect()
}

fn subnet(pool: &RemotePool) -> Option<SubnetView> {
    let given = pool.given.as_ref();
    let net = given.map(|given| given.net).or(pool.net)?.trunc();
    let part = pool.part.unwrap_or(net);
    let gateway = given.and_then(|given| given.gateway).map(|gateway| gateway.addr());
    Some(SubnetView {
        subnet: net.to_string(),
        gateway: gateway.or(pool.gateway).map(|gateway| gateway.to_string()),
        first: part.network().to_string(),
        last: part.broadcast().to_string(),
    })
}
