//! The IPAM driver: RequestPool, ReleasePool, RequestAddress, ReleaseAddress.

pub(crate) mod key;
mod option;

use std::collections::BTreeMap;

use engine::{AddressRequest, Engine, Purpose, SubnetRequest, SubnetSpec};
use model::{
    AddressSpace, Error, Family, IpNet, NetworkName, Order, OwnerName, Result, Runtime, Space,
    Sticky, Subnet, Want,
};

use key::{GLOBAL, LOCAL, key_of, space_of, subnet_of};
use libnetwork::{Answer, EndpointName, PoolGiven, PoolKey, Scope};
use option::PoolSpec;

/// The key of a gateway in an IPAM driver's answer. With it the engine requests no gateway.
const GATEWAY: &str = "com.docker.network.gateway";

/// RequestPool. Where an existing network is named, its subnet is shared and the answer has its
/// gateway.
pub(crate) fn request_pool(
    engine: &Engine<'_>,
    call: &libnetwork::RequestPool,
    scope: Scope,
) -> Result<Answer> {
    let Some(space) = space_of(&call.space) else {
        return Err(Error::invalid(format!(
            "address space {:?} is none of Spoke's, which are {LOCAL} and {GLOBAL}",
            call.space.as_str()
        )));
    };
    let spec = PoolSpec::read(&call.options)?;
    let network = spec.network.map(|called| engine.records.name_of(&called)).transpose()?;
    // Its subnet is that of the runtime's file, also where no container has been on it.
    network.as_ref().map_or(Ok(()), |name| engine.networks.adopt(name))?;
    let is_of_nodes =
        network.as_ref().is_some_and(|name| is_of_nodes(engine, (scope, &space), name));
    let requested = match requested(call) {
        // A part is what the swarm's manager gives of it; this host's parts are its blocks.
        SubnetSpec::Exactly { net, .. } if is_of_nodes => SubnetSpec::Exactly { net, part: None },
        requested => requested,
    };
    let request = SubnetRequest {
        space: within(space, spec.address_space)?,
        spec: requested,
        network,
        runtime: Runtime::Docker,
        order: spec.order,
        sticky: spec.sticky,
        despite_others: spec.despite_others,
    };
    let subnet = engine.subnets.request_subnet(&request)?;
    let data = match gateway(engine, &subnet)? {
        Some(gateway) => BTreeMap::from([(GATEWAY.to_owned(), gateway.to_string())]),
        None => BTreeMap::new(),
    };
    Ok(Answer::Pool(PoolGiven { key: key_of(&subnet.id)?, pool: subnet.id.net, data }))
}

/// Whether a swarm asks for all of its nodes, each of which has its own blocks of the network.
fn is_of_nodes(
    engine: &Engine<'_>,
    (scope, space): (Scope, &Space),
    network: &NetworkName,
) -> bool {
    scope == Scope::Global && *space == Space::Host && engine.addresses.is_of_hosts(network)
}

/// A tenant's space is one of this host's.
fn within(space: Space, tenant: Option<AddressSpace>) -> Result<Space> {
    match (space, tenant) {
        (Space::Host, Some(name)) => Ok(Space::Named(name)),
        (_, Some(name)) => Err(Error::invalid(format!(
            "--ipam-opt address_space={name}: the subnet is to be agreed among the hosts of a \
             cluster, and tenants are of one host"
        ))),
        (space, None) => Ok(space),
    }
}

/// Since 29 `0.0.0.0/24` means any subnet of that size.
fn requested(call: &libnetwork::RequestPool) -> SubnetSpec {
    match call.pool {
        None => SubnetSpec::Any {
            family: if call.v6 { Family::V6 } else { Family::V4 },
            prefix_len: None,
        },
        Some(pool) if pool.addr().is_unspecified() => SubnetSpec::Any {
            family: Family::of(&pool),
            prefix_len: Some(pool.prefix_len()).filter(|length| *length > 0),
        },
        Some(net) => SubnetSpec::Exactly { net, part: call.sub },
    }
}

/// The gateway of the network that shares the subnet, with the subnet's prefix length.
fn gateway(engine: &Engine<'_>, subnet: &Subnet) -> Result<Option<IpNet>> {
    if subnet.id.space == Space::Global {
        return Ok(None);
    }
    let Some(network) = engine.records.declared(&subnet.network)? else { return Ok(None) };
    let mut ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let gateway =
        ranges.find(|range| range.subnet == subnet.id.net).and_then(|range| range.gateway);
    Ok(gateway.and_then(|gateway| IpNet::new(gateway, subnet.id.net.prefix_len()).ok()))
}

/// ReleasePool. A pool that is not allocated is no error.
pub(crate) fn release_pool(engine: &Engine<'_>, key: &PoolKey) -> Result<Answer> {
    engine.subnets.release_subnet(&subnet_of(key)?)?;
    Ok(Answer::Done {})
}

/// RequestAddress.
pub(crate) fn request_address(
    engine: &Engine<'_>,
    call: &libnetwork::RequestAddress,
    scope: Scope,
) -> Result<Answer> {
    let id = subnet_of(&call.pool)?;
    let subnet = engine.records.subnet(&id)?.ok_or_else(|| {
        Error::not_found(format!("pool {} is not allocated; request it first", call.pool))
    })?;
    if let Some(address) = call.address
        && call.purpose == libnetwork::Purpose::Gateway
        && is_of_nodes(engine, (scope, &id.space), &subnet.network)
    {
        // A swarm's manager chooses one for all nodes. Each has its own, which Join answers; this one is not used.
        let address = IpNet::new(address, id.net.prefix_len());
        let address = address.map_err(|_| Error::invalid("a gateway of another family"))?;
        return Ok(Answer::Address { address, data: BTreeMap::new() });
    }
    let request = AddressRequest {
        subnet: id,
        want: call.address.map_or(Want::Any, Want::Exactly),
        purpose: purpose(engine, call, &subnet)?,
        order: call.serial.then_some(Order::NextAfterLast),
    };
    let lease = engine.subnets.request_address(&request)?;
    Ok(Answer::Address { address: lease.address, data: BTreeMap::new() })
}

/// Auxiliary addresses come without options, and before their network is made; so do addresses of
/// containers where the engine has nothing to say about them.
fn purpose(
    engine: &Engine<'_>,
    call: &libnetwork::RequestAddress,
    subnet: &Subnet,
) -> Result<Purpose> {
    Ok(match call.purpose {
        libnetwork::Purpose::Gateway => Purpose::Gateway,
        libnetwork::Purpose::Auxiliary if call.address.is_some() && !is_made(engine, subnet)? => {
            Purpose::Auxiliary
        }
        libnetwork::Purpose::Auxiliary | libnetwork::Purpose::Endpoint => {
            Purpose::Container(owner(call, subnet.sticky)?)
        }
    })
}

fn is_made(engine: &Engine<'_>, subnet: &Subnet) -> Result<bool> {
    Ok(engine.records.aliases()?.iter().any(|alias| alias.network == subnet.network))
}

/// The key by which the address is kept, or else the holder to show.
fn owner(call: &libnetwork::RequestAddress, sticky: Sticky) -> Result<Option<OwnerName>> {
    match (sticky, &call.endpoint) {
        (Sticky::Mac, _) => Ok(call.mac.and_then(|mac| mac.to_string().parse().ok())),
        (_, None) | (Sticky::No, Some(EndpointName::Unusable(_))) => Ok(None),
        (_, Some(EndpointName::Usable(name))) => Ok(Some(name.clone())),
        (Sticky::Name, Some(EndpointName::Unusable(why))) => Err(Error::invalid(format!(
            "--ipam-opt sticky=name: no address can be kept for the container, give it another name: {why}"
        ))),
    }
}

/// ReleaseAddress. An address that is not allocated is no error.
pub(crate) fn release_address(
    engine: &Engine<'_>,
    call: &libnetwork::ReleaseAddress,
) -> Result<Answer> {
    engine.subnets.release_address(&subnet_of(&call.pool)?, call.address)?;
    Ok(Answer::Done {})
}
