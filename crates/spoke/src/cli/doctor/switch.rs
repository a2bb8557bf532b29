//! Networks of Open vSwitch: their bridges, and the ports of their containers.

use model::{Attachment, Error, Kind, Layer, LinkKind, Network, Ovs, Phase};

use super::Check;
use crate::dataplane::{bridge_of, is_placed};

pub(super) fn checks(networks: &[Network], attachments: &[Attachment]) -> Vec<Check> {
    let segments = networks.iter().filter_map(|it| Some((it, segment(it.wiring.link.as_ref())?)));
    segments.flat_map(|(network, ovs)| of_network(network, ovs, attachments)).collect()
}

fn segment(link: Option<&model::Link>) -> Option<&Ovs> {
    match link.map(|link| &link.kind) {
        Some(LinkKind::Ovs(ovs)) => Some(ovs),
        Some(_) | None => None,
    }
}

fn of_network(network: &Network, ovs: &Ovs, attachments: &[Attachment]) -> Option<Check> {
    if let Err(error) = bridge_of(ovs) {
        return Some(failed(network, ovs, &error));
    }
    let is_its = |it: &&Attachment| {
        it.id.network == network.name
            && it.layer == Layer::Link
            && matches!(it.phase, Phase::Attached(_))
            && segment(it.wiring.link.as_ref()).is_some()
    };
    let mut lost = Vec::new();
    for attachment in attachments.iter().filter(is_its) {
        match is_placed(attachment) {
            Ok(true) => {}
            Ok(false) => lost.push(attachment.id.container.as_str()),
            Err(error) => return Some(failed(network, ovs, &error)),
        }
    }
    let what = format!(
        "ports or tunnels of network {} are not on bridge {} any more: {}",
        network.name,
        ovs.bridge,
        lost.join(", ")
    );
    (!lost.is_empty()).then(|| Check::fail(what, "start spoke serve: it puts them back"))
}

fn failed(network: &Network, ovs: &Ovs, error: &Error) -> Check {
    let what = format!("network {}: {error}", network.name);
    match error.kind() {
        Kind::NotFound => Check::fail(what, format!("ovs-vsctl add-br {}", ovs.bridge)),
        Kind::TryAgain => Check::fail(what, "start Open vSwitch (openvswitch-switch)"),
        _ => Check::fail(what, "").without_fix(),
    }
}
