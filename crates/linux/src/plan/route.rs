//! Which next hop a route gets.

use std::net::IpAddr;

use model::{Family, IfName, InterfaceAddress, Route};

use super::Step;

/// One step for each route.
pub(super) fn steps(
    ifname: &IfName,
    routes: &[Route],
    addresses: &[InterfaceAddress],
) -> Vec<Step> {
    let through = |route| Step::Route { link: ifname.clone(), route, source: None };
    final_routes(routes, addresses).into_iter().map(through).collect()
}

/// The routes with their next hops decided: their own, or the gateway of their family.
pub(super) fn final_routes(routes: &[Route], addresses: &[InterfaceAddress]) -> Vec<Route> {
    routes
        .iter()
        .map(|route| {
            let via = route.via.or_else(|| gateway(addresses, Family::of(&route.dst)));
            // A connected route has no gateway: the kernel refuses one.
            let is_direct =
                route.via.is_none() && route.scope.is_some_and(|it| it >= Route::ON_LINK);
            Route { via: via.filter(|_| !is_direct), ..route.clone() }
        })
        .collect()
}

fn gateway(addresses: &[InterfaceAddress], family: Family) -> Option<IpAddr> {
    let same = |address: &&InterfaceAddress| Family::of(&address.address) == family;
    addresses.iter().filter(same).find_map(|address| address.gateway)
}
