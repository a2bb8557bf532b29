//! The addresses of this host that packets of a network leave with, where the network names some.

use std::net::IpAddr;

use model::{Error, Family, Network, NetworkName, Result};
use netlink::{RouteLookup, Routed, Socket};

/// An address that a network names, and that this host does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// What the network is called.
    pub network: NetworkName,
    /// The address.
    pub address: IpAddr,
    /// What becomes of the network's packets.
    pub what: String,
}

fn named(network: &Network) -> impl Iterator<Item = IpAddr> {
    let sources = network.wiring.masquerade.as_ref().map(|masquerade| &masquerade.sources);
    let of = move |family| sources.and_then(|sources| sources.of(family));
    [Family::V4, Family::V6].into_iter().filter_map(of)
}

/// The addresses of networks that this host does not have: no link of it has the address, and no route leads it to
/// this host.
///
/// # Errors
/// The kernel does not say which addresses there are.
pub fn unanswered(networks: &[Network]) -> Result<Vec<Unanswered>> {
    let named: Vec<(&Network, IpAddr)> =
        networks.iter().flat_map(|it| named(it).map(move |address| (it, address))).collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut route = Socket::route()?;
    let all = route.addresses(None)?;
    let mut missing = Vec::new();
    for (network, address) in named {
        let has = all.iter().any(|it| it.address.addr() == address && !it.duplicate);
        if !has && route.look_up_route(&Routed::new(address))? != RouteLookup::Local {
            missing.push(described(network.called(), address));
        }
    }
    Ok(missing)
}

fn described(network: &NetworkName, address: IpAddr) -> Unanswered {
    let what = format!(
        "packets of network {network} leave with {address}, which is no address of this host: they are answered \
         only if a router leads {address} here"
    );
    Unanswered { network: network.clone(), address, what }
}

/// Refuses a network whose packets would leave with an address that no host has: that of a broadcast on a link. An
/// address that this host lacks may come later, or be led here by a router, and is only reported ([`unanswered`]).
pub(crate) fn refuse_shared(network: &Network) -> Result<()> {
    for address in named(network) {
        if Socket::route()?.look_up_route(&Routed::new(address))? == RouteLookup::Many {
            return Err(Error::invalid(format!(
                "network {}: packets are to leave with {address}, which is a broadcast address: nothing would be \
                 answered; name an address of this host",
                network.called()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use model::{Backend, Ipam, Masquerade, Runtime, Sources, Timestamp, Wiring};

    use super::*;

    fn leaving_with(v4: &str, v6: Option<&str>) -> Network {
        let sources =
            Sources { v4: v4.parse().ok(), v6: v6.map(|address| address.parse().unwrap()) };
        let masquerade = Masquerade { sources, ..Masquerade::new(Backend::Nftables) };
        let wiring = Wiring { masquerade: Some(masquerade), ..Wiring::default() };
        Network::new("vpn".parse().unwrap(), Runtime::Spoke, Timestamp(0), wiring, Ipam::None)
    }

    #[test]
    fn what_no_host_can_have_is_refused() {
        let error = refuse_shared(&leaving_with("127.255.255.255", None)).unwrap_err();
        assert!(error.to_string().contains("which is a broadcast address"), "{error}");
    }

    /// A router may lead it here, or the address come later.
    #[test]
    fn what_this_host_lacks_is_reported_and_not_refused() {
        let here = leaving_with("127.0.0.1", None);
        let beyond = leaving_with("203.0.113.77", Some("2001:db8:113::77"));
        refuse_shared(&here).unwrap();
        refuse_shared(&beyond).unwrap();
        let found = unanswered(&[here, beyond]).unwrap();
        let addresses: Vec<String> = found.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(addresses, ["203.0.113.77", "2001:db8:113::77"]);
        assert!(found[0].what.contains("203.0.113.77, which is no address of this host"));
    }
}
