//! From what `network create` was told to a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{
    Backend, Bridge, Error, Family, Firewall, Gateway, IfName, IpNet, Ipam, Link, LinkKind,
    Masquerade, Network, Order, Pool, PoolId, Ptp, Range, Result, Route, Runtime, Space, Wiring,
};

use super::args::{CreateArgs, DriverName};
use super::claims::{Claimed, claims, hidden_routes, overlap};
use super::facts::HostFacts;
use super::usage::{address, bits};
use super::{World, claims};

/// Where subnets are taken from when none is given, and how large one is.
const BLOCK: (u32, u32, u8) = (0x0ac8_0000, 256, 24);

/// How many free subnets an error proposes.
const PROPOSED: usize = 3;

/// The network that `wanted` describes.
pub(super) fn network(
    wanted: &CreateArgs,
    world: &World,
    known: &[Network],
    facts: &HostFacts,
) -> Result<Network> {
    if known.iter().any(|network| network.name == wanted.name) {
        return Err(Error::conflict(format!("a network named {} already exists", wanted.name)));
    }
    let claims = claims(world, known, facts);
    let subnets = match wanted.subnets.as_slice() {
        [] => vec![free_subnets(&claims, facts).next().ok_or_else(block_is_full)?],
        given => checked(given, &claims, facts)?,
    };
    let pools = pools(wanted, &subnets)?;
    let kind = kind(wanted, known, facts)?;
    Ok(Network {
        name: wanted.name.clone(),
        runtime: Runtime::Spoke,
        since: world.now,
        wiring: wiring(wanted, kind, world.backend),
        routes: routes(wanted, &subnets),
        ipam: Ipam::Book { pools },
        dns: model::Dns::default(),
        sticky: wanted.sticky,
    })
}

fn wiring(wanted: &CreateArgs, kind: LinkKind, backend: Backend) -> Wiring {
    let bridge = match &kind {
        LinkKind::Bridge(bridge) => Some(bridge.name.clone()),
        LinkKind::Ptp(_) | LinkKind::Loopback => None,
    };
    let masquerades = !wanted.internal && !wanted.no_masquerade;
    let ingress = wanted.ingress.into();
    Wiring {
        link: Some(Link { kind, name: None, mac: None, mtu: wanted.mtu }),
        masquerade: masquerades.then_some(Masquerade { backend }),
        publish: None,
        firewall: Some(Firewall {
            backend,
            ingress,
            egress: model::EgressPolicy::Open,
            bridge,
            admin_chain: None,
        }),
        tuning: None,
    }
}

/// A routed pair has no bridge that knows the default route.
fn routes(wanted: &CreateArgs, subnets: &[IpNet]) -> Vec<Route> {
    if wanted.driver == DriverName::Bridge || wanted.internal {
        return Vec::new();
    }
    let default = |subnet: &IpNet| match Family::of(subnet) {
        Family::V4 => Route::new(IpNet::V4(model::Ipv4Net::default()), None),
        Family::V6 => Route::new(IpNet::V6(model::Ipv6Net::default()), None),
    };
    subnets.iter().map(default).collect()
}

fn kind(wanted: &CreateArgs, known: &[Network], facts: &HostFacts) -> Result<LinkKind> {
    match (wanted.driver, &wanted.bridge) {
        (DriverName::Ptp, None) => Ok(LinkKind::Ptp(Ptp {})),
        (DriverName::Ptp, Some(name)) => {
            Err(Error::invalid(format!("--bridge {name}: driver ptp has no bridge")))
        }
        (DriverName::Bridge, given) => {
            let name = given.clone().map_or_else(|| model::bridge_name(&wanted.name), Ok)?;
            refuse_taken(&name, known, facts)?;
            let gateway = if wanted.internal { Gateway::Address } else { Gateway::Default };
            Ok(LinkKind::Bridge(Bridge {
                name,
                gateway,
                force_address: false,
                hairpin: true,
                promiscuous: false,
            }))
        }
    }
}

/// The bridge goes with its network, so it must not be somebody else's.
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

/// Subnets as they were given, if a network can have them.
fn checked(given: &[IpNet], claims: &[Claimed], facts: &HostFacts) -> Result<Vec<IpNet>> {
    for (at, subnet) in given.iter().enumerate() {
        if *subnet != subnet.trunc() {
            return Err(Error::invalid(format!(
                "subnet {subnet} has host bits set; the subnet is {}",
                subnet.trunc()
            )));
        }
        if !is_for_hosts(subnet) {
            return Err(Error::invalid(format!(
                "subnet {subnet} holds addresses that no host may have: loopback, link-local, \
                 multicast or reserved ones"
            )));
        }
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
        if let Some(claim) = claims.iter().find(|claim| overlap(&claim.subnet, subnet)) {
            let free: Vec<String> =
                free_subnets(claims, facts).take(PROPOSED).map(|net| net.to_string()).collect();
            return Err(Error::conflict(format!(
                "subnet {subnet} overlaps {claim}; attach to that network, or pick one of: {}",
                free.join(", ")
            )));
        }
    }
    Ok(given.to_vec())
}

/// Without the addresses that RFC 6890 keeps from ordinary hosts.
fn is_for_hosts(subnet: &IpNet) -> bool {
    const SPECIAL: [(IpAddr, u8); 7] = [
        (IpAddr::V4(Ipv4Addr::new(0, 0, 0, 0)), 8),
        (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
        (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 3),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 127),
        (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
        (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
    ];
    let mut special = SPECIAL.iter().filter_map(|(ip, length)| IpNet::new(*ip, *length).ok());
    !special.any(|special| overlap(&special, subnet))
}

/// Those of the block that no network claims and no route leads to.
fn free_subnets<'a>(
    claims: &'a [Claimed],
    facts: &'a HostFacts,
) -> impl Iterator<Item = IpNet> + 'a {
    let (base, count, prefix) = BLOCK;
    let subnet = move |index: u32| {
        let start = base + (index << (32 - prefix));
        model::Ipv4Net::new(start.into(), prefix).ok().map(IpNet::V4)
    };
    (0..count).filter_map(subnet).filter(|subnet| {
        claims.iter().all(|claim| !overlap(&claim.subnet, subnet))
            && hidden_routes(subnet, None, facts).is_empty()
    })
}

fn block_is_full() -> Error {
    Error::exhausted("no /24 of 10.200.0.0/16 is free on this host; give one with --subnet")
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
            space: Space::Host,
            ranges: vec![range(wanted, *subnet)?],
            order: Order::NextAfterLast,
        })
    };
    (0..).zip(subnets).map(pool).collect()
}

fn range(wanted: &CreateArgs, subnet: IpNet) -> Result<Range> {
    let gateways: Vec<&IpAddr> = wanted.gateways.iter().filter(|ip| subnet.contains(*ip)).collect();
    let parts: Vec<&IpNet> = wanted.ranges.iter().filter(|part| subnet.contains(*part)).collect();
    let (lowest, highest) = usable(subnet);
    let gateway = match gateways.as_slice() {
        [] => lowest,
        &[&only] if (lowest..=highest).contains(&only) => only,
        [only] => return Err(Error::invalid(format!("gateway {only} is no host of {subnet}"))),
        [..] => return Err(Error::invalid(format!("subnet {subnet} has two gateways"))),
    };
    let (first, last) = match parts.as_slice() {
        [] => (lowest, highest),
        [only] => (only.network().max(lowest), only.broadcast().min(highest)),
        [..] => return Err(Error::invalid(format!("subnet {subnet} has two IP ranges"))),
    };
    Range::new(subnet, first, last, Some(gateway))
}

/// The first and last address that a host may have: never the subnet's own, never IPv4's
/// broadcast address.
fn usable(subnet: IpNet) -> (IpAddr, IpAddr) {
    let (network, broadcast) = (subnet.network(), subnet.broadcast());
    let last = match broadcast {
        IpAddr::V4(_) => address(bits(broadcast).saturating_sub(1), broadcast),
        IpAddr::V6(_) => broadcast,
    };
    (address(bits(network).saturating_add(1), network), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_subnet() {
        let usable = |subnet: &str| {
            let (first, last) = usable(subnet.parse().unwrap());
            format!("{first}-{last}")
        };
        assert_eq!(usable("10.0.0.0/24"), "10.0.0.1-10.0.0.254");
        assert_eq!(usable("fd00::/126"), "fd00::1-fd00::3");
        assert_eq!(usable("255.255.255.252/30"), "255.255.255.253-255.255.255.254");
    }
}
