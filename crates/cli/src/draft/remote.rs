//! Networks of third-party Docker plugins, and addresses of such plugins on any network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use engine::{Occupancy, check_subnet};
use libnetwork::parameters::{NetworkParameters, ScopeParameter};
use model::{
    AliasId, Backend, DriverName, EgressPolicy, Error, Family, Firewall, IpNet, Ipam, Ipv4Net,
    LinkKind, Network, Order, Pool, PoolId, Range, RemoteIpam, RemoteLink, RemotePool, Result,
    Space, Stage, Wiring, overlap,
};
use rustix::rand::{GetRandomFlags, getrandom};
use spec::NetworkSpec;

use super::{foreign, frame};
use crate::args::{CreateArgs, Driver, IpamDriver, ScopeName};
use crate::context::CommandContext;

/// libnetwork's names of Spoke's own address book, of no IPAM driver, and of no network driver.
const DEFAULT: &str = "default";
const NULL: &str = "null";

/// The pools of driver `default`: libnetwork's pools of a host (`ipamutils`), each with the prefix
/// length of its subnets.
const POOLS: [(Ipv4Net, u8); 7] = [
    (block(172, 17, 16), 16),
    (block(172, 18, 16), 16),
    (block(172, 19, 16), 16),
    (block(172, 20, 14), 16),
    (block(172, 24, 14), 16),
    (block(172, 28, 14), 16),
    (block(192, 168, 16), 20),
];

const fn block(first: u8, second: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), length)
}

/// The requested properties of a network beside its driver: what `--config-only` keeps.
struct Spec {
    requested: NetworkParameters,
    ipam: RemoteIpam,
}

/// The requested network, if a Docker plugin makes it, or no driver.
pub(super) fn network(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    context: &CommandContext,
    known: &[Network],
    taken: &dyn Fn() -> Result<Occupancy>,
) -> Result<Option<Network>> {
    let remote = &wanted.remote;
    let (driver, stage) = match &wanted.driver {
        Driver::Bridge if remote.config_only => (NULL.parse()?, Stage::Template),
        Driver::Plugin(_) if remote.config_only => {
            return Err(Error::invalid(
                "--config-only keeps options for any driver; leave out --driver",
            ));
        }
        Driver::Plugin(driver) => (driver.clone(), Stage::Made),
        _ => return refuse_remote(wanted).map(|()| None),
    };
    foreign::refuse(wanted, spec::Driver::Plugin)?;
    let kept = match &remote.config_from {
        None => requested(wanted)?,
        Some(name) => kept(known.iter().find(|network| network.name == *name), name)?,
    };
    let ipam = match stage {
        Stage::Template => Ipam::Remote(kept.ipam),
        _ => realized(wanted, kept.ipam, taken)?,
    };
    let kind = LinkKind::Remote(Box::new(RemoteLink {
        driver,
        id: id()?,
        network: kept.requested.to_text()?,
        endpoint: String::new(),
    }));
    let firewall = kept.requested.internal.then(|| internal(context.backend));
    let wiring = Wiring { firewall, ..spec.wiring(kind, context.backend) };
    Ok(Some(Network { stage, ..spec.network(frame(wanted, context, ipam), wiring) }))
}

/// The plugin that allocates the addresses of a network that Spoke itself makes, if one does.
pub(super) fn source(wanted: &CreateArgs) -> Result<Option<Ipam>> {
    match wanted.remote.ipam_driver {
        IpamDriver::Default => match wanted.remote.ipam_options.first() {
            None => Ok(None),
            Some((key, _)) => Err(Error::invalid(format!(
                "--ipam-opt {key} is an option of an IPAM plugin; name that with --ipam-driver"
            ))),
        },
        IpamDriver::Null => Err(Error::invalid(
            "--ipam-driver null: only Docker plugins connect containers without addresses of theirs",
        )),
        IpamDriver::Plugin(_) => Ok(Some(Ipam::Remote(pools(wanted)?))),
    }
}

/// The user's options.
fn requested(wanted: &CreateArgs) -> Result<Spec> {
    let ipam = pools(wanted)?;
    let has = |family| ipam.pools.iter().any(|pool| pool.family == family);
    let is_ours = wanted.remote.ipam_driver == IpamDriver::Default;
    let requested = NetworkParameters {
        options: wanted.options.iter().cloned().collect(),
        ipv4: has(Family::V4),
        ipv6: has(Family::V6),
        internal: wanted.internal,
        scope: wanted.remote.scope.map(|scope| match scope {
            ScopeName::Local => ScopeParameter::Local,
            ScopeName::Global => ScopeParameter::Global,
        }),
        auxiliary: match is_ours {
            true => wanted.remote.auxiliary.iter().cloned().collect(),
            false => BTreeMap::new(),
        },
    };
    Ok(Spec { requested, ipam })
}

/// The options that `--config-only` kept.
fn kept(network: Option<&Network>, name: &model::NetworkName) -> Result<Spec> {
    let network = network.ok_or_else(|| {
        Error::not_found(format!("--config-from {name}: no such network; `spoke network ls`"))
    })?;
    let kind = network.wiring.link.as_ref().map(|link| &link.kind);
    match (&network.ipam, kind, network.stage) {
        (Ipam::Remote(ipam), Some(LinkKind::Remote(link)), Stage::Template) => {
            Ok(Spec { requested: NetworkParameters::read(&link.network)?, ipam: ipam.clone() })
        }
        _ => Err(Error::invalid(format!(
            "--config-from {name}: that network was not made with --config-only"
        ))),
    }
}

/// The request to the source of addresses; at least one pool of each family that it has.
fn pools(wanted: &CreateArgs) -> Result<RemoteIpam> {
    let remote = &wanted.remote;
    let mut pools: Vec<RemotePool> = Vec::new();
    for subnet in &wanted.subnets {
        check_subnet(subnet)?;
        if pools.iter().any(|other| other.net.is_some_and(|net| overlap(&net, subnet))) {
            return Err(Error::invalid(format!("subnet {subnet} overlaps another --subnet")));
        }
        pools.push(RemotePool { net: Some(*subnet), ..RemotePool::any(Family::of(subnet)) });
    }
    for part in &wanted.ranges {
        let pool = of(&mut pools, "IP range", &part.addr())?;
        match (pool.part, pool.net) {
            (None, Some(net)) if net.contains(part) => pool.part = Some(*part),
            (None, _) => return Err(Error::invalid(format!("IP range {part} is in no subnet"))),
            (Some(_), _) => return Err(Error::invalid("a subnet has two IP ranges")),
        }
    }
    for gateway in &wanted.gateways {
        let pool = of(&mut pools, "gateway", gateway)?;
        if pool.gateway.replace(*gateway).is_some() {
            return Err(Error::invalid("a subnet has two gateways"));
        }
    }
    for (name, address) in &remote.auxiliary {
        let pool = of(&mut pools, "auxiliary address", address)?;
        pool.auxiliary.insert(name.clone(), *address);
    }
    let has = |pools: &[RemotePool], family| pools.iter().any(|pool| pool.family == family);
    if remote.ipv4 && !has(&pools, Family::V4) {
        pools.insert(0, RemotePool::any(Family::V4));
    }
    if remote.ipv6 && !has(&pools, Family::V6) {
        pools.push(RemotePool::any(Family::V6));
    }
    if !remote.ipv4 && has(&pools, Family::V4) {
        return Err(Error::invalid("--ipv4=false, and a subnet of IPv4"));
    }
    Ok(RemoteIpam {
        driver: match &remote.ipam_driver {
            IpamDriver::Default => DEFAULT.parse()?,
            IpamDriver::Null => NULL.parse()?,
            IpamDriver::Plugin(driver) => driver.clone(),
        },
        space: wanted.address_space().map(ToString::to_string),
        options: remote.ipam_options.iter().cloned().collect(),
        pools,
    })
}

fn of<'a>(pools: &'a mut [RemotePool], what: &str, address: &IpAddr) -> Result<&'a mut RemotePool> {
    let mut pools = pools.iter_mut();
    let within = pools.find(|pool| pool.net.is_some_and(|net| net.contains(address)));
    within.ok_or_else(|| Error::invalid(format!("{what} {address} is in none of the subnets")))
}

/// The actual source of addresses.
fn realized(
    wanted: &CreateArgs,
    ipam: RemoteIpam,
    taken: &dyn Fn() -> Result<Occupancy>,
) -> Result<Ipam> {
    match ipam.driver.as_str() {
        DEFAULT => book(wanted, &ipam.pools, &taken()?),
        NULL => match ipam.pools.iter().find_map(|pool| pool.net) {
            None => Ok(Ipam::None),
            Some(net) => Err(Error::invalid(format!(
                "--subnet {net}: with --ipam-driver null there are no subnets"
            ))),
        },
        _ => Ok(Ipam::Remote(ipam)),
    }
}

/// The store as libnetwork's driver `default`: the lowest address that is free, of one pool a
/// family with every subnet of that.
fn book(wanted: &CreateArgs, specs: &[RemotePool], taken: &Occupancy) -> Result<Ipam> {
    let mut pools: Vec<Pool> = Vec::new();
    for spec in specs {
        let net = match (spec.net, spec.family) {
            (Some(net), _) => {
                taken.refuse_overlap(&net)?;
                net.trunc()
            }
            (None, Family::V4) => predefined(taken)?,
            (None, Family::V6) => taken.choose(Family::V6, None)?,
        };
        let gateway = spec.gateway.unwrap_or(model::hosts_of(&net).0);
        let range = Range::of_hosts(net, spec.part, Some(gateway))?.for_containers()?;
        let mut of_family = pools.iter_mut();
        let same = of_family.find(|pool| pool.ranges.iter().any(|other| is_same(other, &range)));
        match same {
            Some(pool) => pool.ranges.push(range),
            None => pools.push(Pool {
                id: PoolId {
                    network: wanted.name.clone(),
                    index: u8::try_from(pools.len()).unwrap_or(u8::MAX),
                },
                space: Space::of_networks(wanted.address_space()),
                ranges: vec![range],
                order: Order::LowestFree,
            }),
        }
    }
    Ok(Ipam::Book { pools })
}

fn is_same(one: &Range, other: &Range) -> bool {
    Family::of(&one.subnet) == Family::of(&other.subnet)
}

/// The first free subnet of libnetwork's pools.
fn predefined(taken: &Occupancy) -> Result<IpNet> {
    let is_free = |net: &IpNet| {
        let mut others = taken.refused.iter().map(|other| &other.net).chain(&taken.avoided);
        !others.any(|other| overlap(other, net))
    };
    let subnets = POOLS.iter().filter_map(|(block, length)| block.subnets(*length).ok());
    let mut free = subnets.flatten().map(IpNet::V4).filter(is_free);
    free.next().ok_or_else(|| {
        Error::exhausted("every subnet of libnetwork's pools is in use; name one with --subnet")
    })
}

/// Tells the parts that decide on default routes and ports that there are none. The plugin keeps
/// the network internal.
pub(super) fn internal(backend: Backend) -> Firewall {
    Firewall { egress: EgressPolicy::Internal, ..Firewall::open(backend) }
}

/// An id in libnetwork's form, unique.
fn id() -> Result<AliasId> {
    let mut random = [0u8; 32];
    let read = getrandom(&mut random, GetRandomFlags::empty());
    read.map_err(|cause| Error::os("choosing an id for the network", cause.into()))?;
    random.iter().map(|byte| format!("{byte:02x}")).collect::<String>().parse()
}

/// Options of Docker plugins only.
fn refuse_remote(wanted: &CreateArgs) -> Result<()> {
    let remote = &wanted.remote;
    let plugs = matches!(remote.ipam_driver, IpamDriver::Plugin(_));
    let given = [
        ("--scope", remote.scope.is_some()),
        ("--config-only", remote.config_only),
        ("--config-from", remote.config_from.is_some()),
        ("--ipv4", !remote.ipv4 && !plugs),
        ("--ipv6", remote.ipv6 && !plugs),
        ("--aux-address", !remote.auxiliary.is_empty() && !plugs),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option @ ("--ipv4" | "--ipv6"), _)) => Err(Error::invalid(format!(
            "{option} is an option of Docker plugins, and of networks of several hosts (--hosts): on this host's own \
             networks --subnet says it. A subnet of IPv6 alone (--subnet fd00:70::/64) makes a network of IPv6 \
             alone, and one of each family makes both"
        ))),
        Some((option, _)) => Err(Error::invalid(format!(
            "{option} is an option of Docker plugins: name one with --driver"
        ))),
    }
}

/// Of the plugins that the network needs.
pub(crate) fn plugins(network: &Network) -> Vec<&DriverName> {
    let link = match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Remote(link)) => Some(&link.driver),
        Some(_) | None => None,
    };
    link.into_iter().chain(network.ipam.remote().map(|ipam| &ipam.driver)).collect()
}

#[cfg(test)]
mod tests {
    use engine::port::Occupied;

    use super::*;

    #[test]
    fn subnets_are_libnetworks() {
        let mut taken = Occupancy::default();
        for expected in ["172.17.0.0/16", "172.18.0.0/16", "172.19.0.0/16", "172.20.0.0/16"] {
            let net = predefined(&taken).unwrap();
            assert_eq!(net.to_string(), expected);
            taken.refused.push(Occupied { net, by: "a test".to_owned() });
        }
        taken.avoided.push("172.16.0.0/12".parse().unwrap());
        assert_eq!(predefined(&taken).unwrap().to_string(), "192.168.0.0/20");
        taken.avoided.push("192.168.0.0/16".parse().unwrap());
        assert_eq!(predefined(&taken).unwrap_err().kind(), model::Kind::Exhausted);
    }

    #[test]
    fn ids_are_libnetworks() {
        let (one, other) = (id().unwrap(), id().unwrap());
        assert_ne!(one, other);
        assert!(one.as_str().len() == 64 && one.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
    }
}
