//! Which next hop a route gets.

use std::net::IpAddr;

use model::{Family, IfName, InterfaceAddress, Route};

use super::Step;

/// `RT_SCOPE_LINK` (rtnetlink(7)); narrower scopes are above.
const ON_LINK: u8 = 253;

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
            // What is reached directly has no gateway: the kernel refuses that.
            let is_direct = route.via.is_none() && route.scope.is_some_and(|it| it >= ON_LINK);
            let via = via.filter(|_| !is_direct);
            let route = Route { via, ..route.clone() };
            Step::Route { link: ifname.clone(), route, source: None }
        })
        .collect()
}

fn gateway(addresses: &[InterfaceAddress], family: Family) -> Option<IpAddr> {
    let same = |address: &&InterfaceAddress| Family::of(&address.address) == family;
    addresses.iter().filter(same).find_map(|address| address.gateway)
}
