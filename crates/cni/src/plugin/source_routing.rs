//! `sbr`: what has an address of the container's interface as its source leaves through that
//! interface. Chained behind a main plugin.

use std::net::IpAddr;

use model::{Error, Family, Result, SourceRouting, Wiring};

use super::Plan;
use crate::call::Call;
use crate::wire::{Command, Object};

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let wiring = Wiring { source_routing: Some(routing(&root)?), ..Wiring::default() };
    let addresses = super::own_addresses(call);
    if let (Some(_), Some((_, ifname))) = (&call.previous, &call.subject)
        && addresses.is_empty()
        && call.command == Command::Add
    {
        return Err(Error::invalid(format!("No IP addresses supplied on interface: {ifname}")));
    }
    let mut plan = Plan { wiring, addresses, ..Plan::default() };
    if let Some(previous) = &call.previous {
        plan.source.routes.clone_from(&previous.routes);
    }
    Ok(plan)
}

/// Routing of which nothing is known.
pub(super) fn remnant() -> Wiring {
    Wiring { source_routing: Some(SourceRouting::default()), ..Wiring::default() }
}

/// The routing that the configuration requests.
pub(super) fn routing(root: &Object<'_>) -> Result<SourceRouting> {
    let table = table(root)?;
    if table == Some(0) {
        return Err(Error::invalid("\"table\" is 0, which is no routing table"));
    }
    Ok(SourceRouting {
        table,
        gateways: gateways(root)?,
        source_hints: root.flag("addSourceHints")?,
    })
}

/// The number of a routing table.
pub(super) fn table(root: &Object<'_>) -> Result<Option<u32>> {
    let Some(number) = root.integer("table")? else { return Ok(None) };
    u32::try_from(number).map(Some).map_err(|_| {
        Error::invalid(format!("\"table\" is {number}, which is not the number of a routing table"))
    })
}

fn gateways(root: &Object<'_>) -> Result<Vec<IpAddr>> {
    let mut gateways: Vec<IpAddr> = Vec::new();
    for node in root.list("gateways")? {
        let gateway = node.parse::<IpAddr>()?.to_canonical();
        let family = |address: IpAddr| Family::of(&model::host_net(address));
        if gateways.iter().any(|other| family(*other) == family(gateway)) {
            return Err(node.wrong("the second gateway of its family; there can be one of each"));
        }
        gateways.push(gateway);
    }
    Ok(gateways)
}
