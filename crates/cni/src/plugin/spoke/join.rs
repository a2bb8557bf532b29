//! An existing network of another front end, unchanged, with the requests of one container.

use model::{Network, Result};

use super::extras;
use crate::call::Call;
use crate::plugin::Plan;
use crate::source::{self, Source};

/// The container's part in `network`, the only one.
pub(super) fn only(call: &Call<'_>, network: Network) -> Result<Plan> {
    let wiring = extras::of_container(call, &network.wiring)?;
    let mut plan = further(network);
    plan.wiring = wiring;
    plan.source.wanted = source::wanted(call)?;
    Ok(plan)
}

/// Its part in the first of several. Which of them publishes ports and has which requested address
/// is decided among all of them.
pub(super) fn first(call: &Call<'_>, network: Network) -> Result<Plan> {
    let wiring = extras::of_interface(call, &network.wiring)?;
    Ok(Plan { wiring, ..further(network) })
}

/// Its part in one of the others: what the runtime asks for besides is about the first.
pub(super) fn further(network: Network) -> Plan {
    let (ipam, routes, dns) = (network.ipam, network.routes, network.dns);
    Plan {
        network: Some(network.name),
        title: network.title,
        wiring: extras::of_network(&network.wiring),
        template: network.wiring,
        source: Source { ipam, routes, dns, wanted: Vec::new() },
        sticky: network.sticky,
        labels: network.labels,
        stage: network.stage,
        unsupported: network.unsupported,
        ..Plan::default()
    }
}
