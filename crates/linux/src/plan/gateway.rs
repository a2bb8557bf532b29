//! Plans the default routes of a sandbox's default gateway.

use std::net::IpAddr;

use model::{Attached, Attachment, Family, IfName, InterfaceAddress, IpNet, Phase, Route};

use super::{Step, external, route};

/// A default route of the sandbox's through the attachment's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayRoute {
    pub(crate) family: Family,
    pub(crate) via: Option<IpAddr>,
}

/// Whether the attachment is the default gateway of its sandbox in this family now. It is where
/// Spoke does not decide on that.
pub(crate) fn is_gateway(attachment: &Attachment, family: Family) -> bool {
    attachment
        .gateway_role
        .as_ref()
        .is_none_or(|gateway_role| gateway_role.families.contains(&family))
}

/// Leaves out default routes of families in which the attachment is not the default gateway.
pub(super) fn withhold(attachment: &Attachment, steps: &mut Vec<Step>) {
    steps.retain(|step| match step {
        Step::Route { route, .. } | Step::RouteAnywhere(route) => {
            !route.is_default() || is_gateway(attachment, Family::of(&route.dst))
        }
        _ => true,
    });
}

/// The steps in the sandbox that make `device` the default gateway in `families` and in no others,
/// where these default routes exist.
pub(crate) fn steps(
    attachment: &Attachment,
    device: &IfName,
    families: &[Family],
    there: &[GatewayRoute],
) -> Vec<Step> {
    let mut steps = Vec::new();
    for family in [Family::V4, Family::V6] {
        let held: Vec<_> =
            there.iter().filter(|gateway_route| gateway_route.family == family).collect();
        let wanted = families.contains(&family).then(|| default_route(attachment, family));
        if let (Some(wanted), [only]) = (&wanted, &held[..])
            && only.via == wanted.via
        {
            continue;
        }
        let dropped = Step::DropRoute(device.clone(), family.everything());
        steps.extend(std::iter::repeat_n(dropped, held.len()));
        steps.extend(wanted.into_iter().flat_map(|route| through(attachment, device, route)));
    }
    steps
}

fn through(attachment: &Attachment, device: &IfName, route: Route) -> Vec<Step> {
    let here = near(attachment);
    let hop = route.via.filter(|hop| !external::is_near(&here, *hop)).map(external::to_hop);
    let add = |route| Step::Route { link: device.clone(), route, source: None };
    hop.into_iter().chain([route]).map(add).collect()
}

/// The other destinations of the interface.
fn near(attachment: &Attachment) -> Vec<IpNet> {
    let reported = route::final_routes(&attachment.routes, &attachment.addresses);
    let direct = reported.into_iter().filter(|route| route.via.is_none()).map(|route| route.dst);
    let own = attachment.addresses.iter().map(|held| held.address);
    own.chain(direct).collect()
}

/// The route that was withheld, or the one through the gateway; the interface itself where there is
/// none.
fn default_route(attachment: &Attachment, family: Family) -> Route {
    let attached = match &attachment.phase {
        Phase::Attached(attached) => Some(attached),
        _ => None,
    };
    // The gateway is in either of them.
    let mut addresses = attached.map_or(Vec::new(), |attached| attached.addresses.clone());
    addresses.extend(attachment.addresses.iter().cloned());
    let reported = attached.map_or(&[][..], |attached: &Attached| &attached.routes);
    let is_meant = |route: &&Route| route.is_default() && Family::of(&route.dst) == family;
    let reported = reported.iter().chain(&attachment.routes).find(is_meant);
    let reported = reported.cloned().unwrap_or_else(|| Route::new(family.everything(), None));
    let decided =
        route::final_routes(std::slice::from_ref(&reported), &addresses).into_iter().next();
    let mut route = decided.unwrap_or(reported);
    if route.via.is_none() && route.scope.is_none() {
        route.via = own_gateway(attachment, &addresses, family);
    }
    route
}

/// The gateway of links whose host is the gateway, where none is given so.
fn own_gateway(
    attachment: &Attachment,
    addresses: &[InterfaceAddress],
    family: Family,
) -> Option<IpAddr> {
    let link = attachment.wiring.link.as_ref();
    let is_gateway = link.is_some_and(|link| link.kind.has_gateway());
    let mut held = addresses.iter().map(|held| held.address);
    let first = held.find(|net| is_gateway && Family::of(net) == family)?;
    model::first_host(&first)
}
