//! Addresses that the configuration names, as for the reference plugin `static`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, Family, IpNet, Lease, Result, Space};

use super::ranges::is_single;
use crate::call::Call;
use crate::capability;
use crate::wire::{Node, Object, Version};
use crate::words::reported;

/// The addresses of `ipam.addresses` and `CNI_ARGS`; those of `args.cni.ips` replace them, and
/// those of the capability `ips` replace all.
pub(super) fn leases(call: &Call<'_>, ipam: &Object<'_>, space: &Space) -> Result<Vec<Lease>> {
    let config = call.config;
    let mut addresses =
        ipam.list("addresses")?.iter().map(configured).collect::<Result<Vec<_>>>()?;
    by_environment(call, &mut addresses)?;
    for object in [config.args()?, config.runtime()?].iter().flatten() {
        let ips = object.texts(capability::IPS)?;
        if !ips.is_empty() {
            addresses = ips.iter().map(|ip| requested(ip)).collect::<Result<Vec<_>>>()?;
        }
    }
    refuse_several(config.version(), addresses.iter().map(|(address, _)| *address))?;
    let mut seen = BTreeSet::new();
    if let Some((twice, _)) = addresses.iter().find(|(address, _)| !seen.insert(address.addr())) {
        return Err(Error::invalid(format!("address {twice} is given twice")));
    }
    let lease = |(address, gateway)| Lease { space: space.clone(), pool: None, address, gateway };
    Ok(addresses.into_iter().map(lease).collect())
}

type Address = (IpNet, Option<IpAddr>);

fn configured(node: &Node<'_>) -> Result<Address> {
    let object = node.object()?;
    let text = object.text("address")?.unwrap_or_default();
    let address = cidr(text).ok_or_else(|| {
        Error::invalid(format!(
            "the 'address' field is expected to be in CIDR notation, got: '{text}'"
        ))
    })?;
    let gateway = match object.text("gateway")? {
        None => None,
        Some(text) => Some(ip(text).ok_or_else(|| {
            let more = format!(", the \"gateway\" of {address}");
            reported(format!("invalid IP address: {text}"), &more)
        })?),
    };
    Ok((address, gateway))
}

fn by_environment(call: &Call<'_>, addresses: &mut Vec<Address>) -> Result<()> {
    let args = call.args()?;
    for text in args.ip.iter().flat_map(|list| list.split(',')).map(str::trim) {
        let address = cidr(text).ok_or_else(|| {
            Error::invalid(format!(
                "the 'ip' field is expected to be in CIDR notation, got: '{text}'"
            ))
        })?;
        addresses.push((address, None));
    }
    for text in args.gateway.iter().flat_map(|list| list.split(',')).map(str::trim) {
        let gateway =
            ip(text).ok_or_else(|| Error::invalid(format!("invalid gateway address: {text}")))?;
        for (_, its) in addresses.iter_mut().filter(|(net, _)| net.contains(&gateway)) {
            *its = Some(gateway);
        }
    }
    Ok(())
}

fn requested(text: &str) -> Result<Address> {
    let address = cidr(text).ok_or_else(|| {
        Error::invalid(format!(
            "an entry in the 'ips' field is NOT in CIDR notation, got: '{text}'"
        ))
    })?;
    Ok((address, None))
}

fn cidr(text: &str) -> Option<IpNet> {
    text.parse().ok()
}

fn ip(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Results before 0.3.0 have one address per family.
pub(super) fn refuse_several(
    version: Version,
    nets: impl Iterator<Item = IpNet> + Clone,
) -> Result<()> {
    let count = |family| nets.clone().filter(|net| Family::of(net) == family).count();
    match is_single(version) && (count(Family::V4) > 1 || count(Family::V6) > 1) {
        false => Ok(()),
        true => Err(Error::invalid(format!(
            "CNI version {version} does not support more than 1 address per family"
        ))),
    }
}
