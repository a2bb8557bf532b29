//! Networks of Open vSwitch: their bridges, and the ports of their containers.

use host::dataplane::{bridge_of, displaced, is_port, segment_of};
use model::{Attachment, Error, Kind, Network, Ovs, Phase};

use crate::check::Check;

pub(super) fn checks(networks: &[Network], attachments: &[Attachment]) -> Vec<Check> {
    let segments =
        networks.iter().filter_map(|it| Some((it, segment_of(it.wiring.link.as_ref())?)));
    segments.flat_map(|(network, ovs)| of_network(network, ovs, attachments)).collect()
}

fn of_network(network: &Network, ovs: &Ovs, attachments: &[Attachment]) -> Option<Check> {
    let is_its = |it: &&Attachment| {
        it.id.network == network.name && is_port(it) && matches!(it.phase, Phase::Attached(_))
    };
    let its = attachments.iter().filter(is_its);
    let lost = match bridge_of(ovs).and_then(|_| displaced(ovs, its)) {
        Ok(lost) => lost,
        Err(error) => return Some(failed(network, ovs, &error)),
    };
    let names: Vec<&str> = lost.iter().map(|it| it.id.container.as_str()).collect();
    let what = format!(
        "ports or tunnels of network {} are not on bridge {} any more: {}",
        network.called(),
        ovs.bridge,
        names.join(", ")
    );
    (!lost.is_empty()).then(|| Check::fail(what, "start spoke serve: it puts them back"))
}

fn failed(network: &Network, ovs: &Ovs, error: &Error) -> Check {
    let what = format!("network {}: {error}", network.called());
    match error.kind() {
        Kind::NotFound => Check::fail(what, format!("ovs-vsctl add-br {}", ovs.bridge)),
        Kind::TryAgain => Check::fail(what, "start Open vSwitch (openvswitch-switch)"),
        _ => Check::fail(what, "").without_fix(),
    }
}
