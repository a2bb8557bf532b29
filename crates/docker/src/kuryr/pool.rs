//! The IPAM driver: pools and addresses are the cloud's.

use std::collections::BTreeMap;

use engine::port::{AddressSpec, AddressUse, Cloud, PoolSpec};
use model::{Error, Family, IpNet, ResourceId, Result};

use super::option::KuryrNetworkOptions;
use super::pending::Pending;
use super::{Backstage, Stage};
use libnetwork::{Answer, PoolGiven, PoolKey, Purpose};

/// RequestPool. With a part (`--ip-range`), addresses that the user does not choose are from that;
/// the answer is the whole, which kuryr-libnetwork omits.
pub(super) fn request(
    cloud: &dyn Cloud,
    pending: &Pending,
    call: &libnetwork::RequestPool,
) -> Result<Answer> {
    let given = KuryrNetworkOptions::of_pool(&call.options)?;
    let whole = call.pool.filter(|net| !net.addr().is_unspecified());
    [whole, call.sub].into_iter().flatten().try_for_each(refuse_host_bits)?;
    let net = whole.or(call.sub);
    let family = match net {
        Some(net) => Family::of(&net),
        None if call.v6 => Family::V6,
        None => Family::V4,
    };
    let pool = cloud.request_pool(&PoolSpec {
        net,
        part: call.sub.filter(|part| Some(*part) != net),
        family,
        subnet: given.subnet(family).cloned(),
        pool: given.pool(family).cloned(),
        network: given.existing.clone(),
        address_scope: given.address_scope.clone(),
        shared: given.shared,
    })?;
    let key: PoolKey =
        pool.id.as_str().parse().map_err(|why| Error::bug(format!("pool {} {why}", pool.id)))?;
    pending.add(pool.id, pool.net, call.options.clone());
    Ok(Answer::Pool(PoolGiven { key, pool: pool.net, data: BTreeMap::new() }))
}

fn refuse_host_bits(net: IpNet) -> Result<()> {
    match net == net.trunc() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{net} is an address and no subnet; that would be {}",
            net.trunc()
        ))),
    }
}

/// ReleasePool. One that is not there is released.
pub(super) fn release<B: Backstage>(stage: &Stage<'_, B>, key: &PoolKey) -> Result<Answer> {
    let pool = id(key)?;
    stage.cloud.release_pool(&pool, &|| stage.engine.records.intact_attachments())?;
    stage.pending.remove(&pool);
    Ok(Answer::Done {})
}

/// RequestAddress.
pub(super) fn request_address(
    cloud: &dyn Cloud,
    call: &libnetwork::RequestAddress,
) -> Result<Answer> {
    let address = cloud.request_address(&AddressSpec {
        pool: id(&call.pool)?,
        address: call.address,
        mac: call.mac,
        purpose: purpose(call),
    })?;
    Ok(Answer::Address { address, data: BTreeMap::new() })
}

/// Engines do not say the purpose of an auxiliary address, nor of a container's where no hardware
/// address is required: the cloud distinguishes them by whether the network exists.
fn purpose(call: &libnetwork::RequestAddress) -> AddressUse {
    match call.purpose {
        Purpose::Gateway => AddressUse::Gateway,
        Purpose::Auxiliary | Purpose::Endpoint => AddressUse::Container,
    }
}

/// ReleaseAddress. One that is not allocated is released.
pub(super) fn release_address<B: Backstage>(
    stage: &Stage<'_, B>,
    call: &libnetwork::ReleaseAddress,
) -> Result<Answer> {
    let records = || stage.engine.records.intact_attachments();
    stage.cloud.release_address(&id(&call.pool)?, call.address, &records)?;
    Ok(Answer::Done {})
}

fn id(key: &PoolKey) -> Result<ResourceId> {
    key.as_str().parse().map_err(|error: Error| error.context("PoolID"))
}
