//! Which next hop a route gets.

use std::net::IpAddr;

use model::{Family, IfName, InterfaceAddress, Route};

use super::Step;

/// One step for each route, its next hop decided: its own, or the gateway of its family.
pub(super) fn steps(
    ifname: &IfName,
    routes: &[Route],
    addresses: &[InterfaceAddress],
) -> Vec<Step> {
    routes
        .iter()
        .map(|route| {
            let via = route.via.or_else(|| gateway(addresses, Family::of(&route.dst)));
            let route = Route { via, ..route.clone() };
            Step::Route { link: ifname.clone(), route, source: None }
        })
        .collect()
}

fn gateway(addresses: &[InterfaceAddress], family: Family) -> Option<IpAddr> {
    let same = |address: &&InterfaceAddress| Family::of(&address.address) == family;
    addresses.iter().filter(same).find_map(|address| address.gateway)
}
