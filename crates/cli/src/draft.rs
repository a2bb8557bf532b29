//! Turns the options of `spoke network create` into a network.

mod foreign;
mod lan;
mod neutron;
mod ovs;
mod plugins;
mod remote;
mod tenant;

use std::net::IpAddr;

use engine::port::Occupied;
use engine::{Occupancy, check_subnet};
use host::facts::HostFacts;
use model::{
    Error, Family, IfName, IpNet, Ipam, LinkKind, Network, Order, Pool, PoolId, Ptp, Range, Result,
    Route, Runtime, Space, Stage, hosts_of,
};
use spec::{Frame, NetworkSpec};

use crate::args::{CreateArgs, Driver};
use crate::claims;
use crate::claims::{claims, routed};
use crate::context::CommandContext;
use crate::titles::Titles;

pub(super) use remote::plugins as plugins_of;

/// The network that `wanted` describes; where it names no subnet, with the first free one after those
/// that are passed over.
pub(super) fn network(
    wanted: &CreateArgs,
    context: &CommandContext,
    known: &[Network],
    facts: &HostFacts,
    passed_over: usize,
) -> Result<Network> {
    // The half that a dead process left is removed before the network is made again.
    let is_taken = |it: &Network| {
        it.name == wanted.name && (it.stage.is_whole() || it.stage == Stage::Template)
    };
    if known.iter().any(is_taken) {
        return Err(Error::conflict(format!("a network named {} already exists", wanted.name)));
    }
    tenant::refuse_senseless(wanted)?;
    foreign::refuse(wanted, wanted.driver.kind())?;
    lan::refuse_addresses(wanted)?;
    let spec = wanted.spec()?;
    let occupied = || {
        let taken = match wanted.address_space() {
            Some(space) => tenant::taken(context, space)?,
            None => taken(context, known, facts)?,
        };
        Ok(Occupancy { passed_over, ..taken })
    };
    if let Some(network) = ovs::network(wanted, &spec, context, &occupied)? {
        return Ok(network);
    }
    if let Some(network) = neutron::network(wanted, &spec, context)? {
        return Ok(network);
    }
    if let Some(network) = plugins::network(wanted, &spec, context)? {
        return Ok(network);
    }
    if let Some(network) = remote::network(wanted, &spec, context, known, &occupied)? {
        return Ok(network);
    }
    let taken = occupied()?;
    let source = remote::source(wanted)?;
    let subnets = match wanted.subnets.as_slice() {
        _ if source.is_some() => Vec::new(),
        [] if wanted.lan.dhcp => Vec::new(),
        [] => vec![taken.choose(Family::V4, None)?],
        given => checked(given, &taken)?,
    };
    let pools = if source.is_some() { Vec::new() } else { pools(wanted, &subnets)? };
    let kind = kind(wanted, &spec, known, facts)?;
    let ipam = match source {
        Some(source) => source,
        None if wanted.lan.dhcp => spec.dhcp(),
        None => Ipam::Book { pools },
    };
    let frame = Frame { routes: routes(wanted, &subnets), ..frame(wanted, context, ipam) };
    Ok(spec.network(frame, spec.wiring(kind, context.backend)))
}

/// The properties of every network of the command line.
fn frame(wanted: &CreateArgs, context: &CommandContext, ipam: Ipam) -> Frame {
    Frame {
        name: wanted.name.clone(),
        runtime: Runtime::Spoke,
        since: context.now,
        ipam,
        routes: Vec::new(),
    }
}

/// Only a bridge knows the default route by itself.
fn routes(wanted: &CreateArgs, subnets: &[IpNet]) -> Vec<Route> {
    if wanted.driver == Driver::Bridge || wanted.internal {
        return Vec::new();
    }
    let default = |subnet: &IpNet| match Family::of(subnet) {
        Family::V4 => Route::new(IpNet::V4(model::Ipv4Net::default()), None),
        Family::V6 => Route::new(IpNet::V6(model::Ipv6Net::default()), None),
    };
    subnets.iter().map(default).collect()
}

fn kind(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    known: &[Network],
    facts: &HostFacts,
) -> Result<LinkKind> {
    if let Some(kind) = lan::kind(wanted, spec, facts)? {
        return Ok(kind);
    }
    if wanted.driver != Driver::Bridge {
        return Ok(LinkKind::Ptp(Ptp { direct: spec.direct.unwrap_or(false) }));
    }
    let name = spec.bridge.clone().map_or_else(|| model::bridge_name(&wanted.name), Ok)?;
    refuse_taken(&name, known, facts)?;
    Ok(spec.bridge(name, spec.default_route().gateway()))
}

/// The bridge is removed with its network, so it must not be another network's.
fn refuse_taken(name: &IfName, known: &[Network], facts: &HostFacts) -> Result<()> {
    let of = known.iter().find(|network| claims::device(network).as_deref() == Some(name.as_str()));
    if let Some(network) = of {
        return Err(Error::conflict(format!(
            "bridge {name} belongs to network {}; choose another with --bridge",
            network.name
        )));
    }
    match facts.link(name.as_str()) {
        Some(_) => Err(Error::conflict(format!(
            "device {name} already exists and would be removed with the network; choose another \
             with --bridge"
        ))),
        None => Ok(()),
    }
}

/// The subnets in use. A subnet that would hide a route of this host is not proposed.
fn taken(context: &CommandContext, known: &[Network], facts: &HostFacts) -> Result<Occupancy> {
    let occupied = |claim: claims::Claimed| Occupied { net: claim.subnet, by: claim.holder() };
    let engine = (context.engine)()?;
    let mut taken = engine.subnets.occupancy()?;
    // Not all that the book has: a network is made at the same cost beside a thousand others.
    let known = Titles::of(known).with(&engine.records.aliases()?).entitled(known.to_vec());
    let of_networks = claims(context, &known, facts).into_iter().map(occupied);
    taken.refused = of_networks.chain(taken.refused).collect();
    taken.avoided.extend(routed(facts).map(|route| route.dst));
    Ok(taken)
}

/// Subnets as they were given, if a network can have them.
fn checked(given: &[IpNet], taken: &Occupancy) -> Result<Vec<IpNet>> {
    for (at, subnet) in given.iter().enumerate() {
        check_subnet(subnet)?;
        if subnet.max_prefix_len() - subnet.prefix_len() < 2 {
            return Err(Error::invalid(format!(
                "subnet {subnet} is too small: it needs 4 addresses"
            )));
        }
        if given[..at].iter().any(|other| Family::of(other) == Family::of(subnet)) {
            return Err(Error::unsupported(format!(
                "subnet {subnet}: a network has one subnet of each address family"
            )));
        }
        taken.refuse_overlap(subnet)?;
    }
    Ok(given.to_vec())
}

/// One pool for each subnet, with its gateway and part.
fn pools(wanted: &CreateArgs, subnets: &[IpNet]) -> Result<Vec<Pool>> {
    for gateway in &wanted.gateways {
        if !subnets.iter().any(|subnet| subnet.contains(gateway)) {
            return Err(Error::invalid(format!("gateway {gateway} is in none of the subnets")));
        }
    }
    for part in &wanted.ranges {
        if !subnets.iter().any(|subnet| subnet.contains(part)) {
            return Err(Error::invalid(format!("IP range {part} is in none of the subnets")));
        }
    }
    let pool = |(index, subnet): (u8, &IpNet)| {
        Ok(Pool {
            id: PoolId { network: wanted.name.clone(), index },
            space: Space::of_networks(wanted.address_space()),
            ranges: vec![range(wanted, *subnet)?],
            order: Order::NextAfterLast,
        })
    };
    (0..).zip(subnets).map(pool).collect()
}

fn range(wanted: &CreateArgs, subnet: IpNet) -> Result<Range> {
    let gateways: Vec<&IpAddr> = wanted.gateways.iter().filter(|ip| subnet.contains(*ip)).collect();
    let parts: Vec<&IpNet> = wanted.ranges.iter().filter(|part| subnet.contains(*part)).collect();
    let (lowest, highest) = hosts_of(&subnet);
    let gateway = match gateways.as_slice() {
        [] if wanted.address_space().is_some() || wanted.driver == Driver::Ovs => None,
        [] => Some(lowest),
        &[&only] if (lowest..=highest).contains(&only) => Some(only),
        [only] => return Err(Error::invalid(format!("gateway {only} is no host of {subnet}"))),
        [..] => return Err(Error::invalid(format!("subnet {subnet} has two gateways"))),
    };
    match parts.as_slice() {
        [] => Range::of_hosts(subnet, None, gateway)?.for_containers(),
        &[&only] => Range::of_hosts(subnet, Some(only), gateway)?.for_containers(),
        [..] => Err(Error::invalid(format!("subnet {subnet} has two IP ranges"))),
    }
}
