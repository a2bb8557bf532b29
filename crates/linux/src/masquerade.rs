//! The addresses of this host that packets of a network leave with, where the network names some.

use std::net::IpAddr;

use model::{Error, Family, Network, Result, Sources};
use netlink::{Routed, Socket, Way};

/// Those of `sources` that this host does not have: no link of it has the address, and no route leads it to this host.
///
/// # Errors
/// The kernel does not say which addresses there are.
fn missing(sources: &Sources) -> Result<Vec<IpAddr>> {
    let named = [Family::V4, Family::V6].into_iter().filter_map(|family| sources.of(family));
    let mut missing = Vec::new();
    for address in named {
        let mut route = Socket::route()?;
        let all = route.addresses(None)?;
        let has = all.iter().any(|it| it.address.addr() == address && !it.duplicate);
        if !has && route.way(&Routed::new(address))? != Way::Local {
            missing.push(address);
        }
    }
    Ok(missing)
}

/// The addresses of a network that this host does not have, each with what becomes of its packets.
///
/// # Errors
/// As [`missing`].
pub fn unanswered(network: &Network) -> Result<Vec<(IpAddr, String)>> {
    let Some(masquerade) = &network.wiring.masquerade else { return Ok(Vec::new()) };
    let described = |address| {
        let what = format!(
            "packets of network {} leave with {address}, which is no address of this host any more: they are \
             answered only if a router leads {address} here",
            network.called()
        );
        (address, what)
    };
    Ok(missing(&masquerade.sources)?.into_iter().map(described).collect())
}

/// Refuses a network whose packets would leave with an address that this host does not have.
pub(crate) fn refuse_missing(network: &Network) -> Result<()> {
    let Some(masquerade) = &network.wiring.masquerade else { return Ok(()) };
    match missing(&masquerade.sources)?.first() {
        None => Ok(()),
        Some(address) => Err(Error::invalid(format!(
            "network {}: packets are to leave with {address}, which is no address of this host: nothing would \
             be answered; give the host the address first (ip address add), or name another one",
            network.called()
        ))),
    }
}
