//! A third party's interface in the host, moved into the container.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attached, Attachment, Error, ExternalInterface, Handoff, IfName, Interface, InterfaceAddress,
    InterfaceNamespace, IpNet, Link, Mac, Result, Route, host_net,
};

use super::route;
use super::{ExternalFacts, ExternalLink, Facts, Plan, Step};
use crate::identity::Identity;

/// Where the container's interface stands in the result.
const CONTAINER: usize = 0;

pub(super) fn plan(
    attachment: &Attachment,
    link: &Link,
    external: &ExternalInterface,
    facts: &Facts,
) -> Result<Plan> {
    let none = ExternalFacts::default();
    let facts = facts.external.as_ref().unwrap_or(&none);
    let Some(there) = &facts.link else {
        return Err(Error::not_found(format!(
            "{}: interface {}, which is to be moved into the container, is not in the host",
            attachment.id, external.source
        )));
    };
    if attachment.handoff == Handoff::Caller {
        return Ok(result(
            attachment,
            external.source.clone(),
            there.mac,
            InterfaceNamespace::Host,
        ));
    }
    refuse_conflicts(attachment, facts)?;
    let name = name(attachment, external, there, facts)?;
    let mut plan =
        result(attachment, name.clone(), link.mac.or(there.mac), InterfaceNamespace::Sandbox);
    plan.host.extend(there.mark.clone().map(|alias| Step::Mark {
        link: there.name.clone(),
        group: Identity::of(&attachment.id).group(),
        alias,
    }));
    match there.place {
        InterfaceNamespace::Host => plan.host.push(Step::Move {
            from: there.name.clone(),
            to: name.clone(),
            remembers: false,
        }),
        InterfaceNamespace::Sandbox if there.name != name => {
            plan.sandbox.push(Step::Down(there.name.clone()));
            plan.sandbox.push(Step::Rename { from: there.name.clone(), to: name.clone() });
        }
        InterfaceNamespace::Sandbox => {}
    }
    plan.sandbox.extend(complete(attachment, link, &name));
    Ok(plan)
}

fn result(
    attachment: &Attachment,
    name: IfName,
    mac: Option<Mac>,
    place: InterfaceNamespace,
) -> Plan {
    let mtu = attachment.wiring.link.as_ref().and_then(|link| link.mtu);
    let here =
        |held: &InterfaceAddress| InterfaceAddress { interface: Some(CONTAINER), ..held.clone() };
    let attached = Attached {
        interfaces: vec![Interface { name, mac, mtu, place }],
        addresses: attachment.addresses.iter().map(here).collect(),
        routes: attachment.routes.clone(),
        dns: attachment.resolves_with(),
        ..Attached::default()
    };
    Plan { attached, ..Plan::default() }
}

/// Another interface's destinations must not become this one's as well.
fn refuse_conflicts(attachment: &Attachment, facts: &ExternalFacts) -> Result<()> {
    for held in &attachment.addresses {
        if let Some(route) = facts.routes.iter().find(|route| conflicts(route, &held.address)) {
            return Err(Error::conflict(format!(
                "{}: cannot program address {} in sandbox interface because it conflicts with existing route to {route}",
                attachment.id, held.address
            )));
        }
    }
    Ok(())
}

/// As libnetwork sees it. Every interface has a route to IPv6's link-local addresses.
fn conflicts(route: &IpNet, address: &IpNet) -> bool {
    let is_common = match route {
        IpNet::V4(_) => false,
        IpNet::V6(net) => net.addr().is_unicast_link_local() || net.addr().is_multicast(),
    };
    let is_meant = route.prefix_len() > 0 && !is_common;
    is_meant && (route.contains(&address.addr()) || address.contains(&route.addr()))
}

/// Its name in the container.
fn name(
    attachment: &Attachment,
    external: &ExternalInterface,
    there: &ExternalLink,
    facts: &ExternalFacts,
) -> Result<IfName> {
    let Some(prefix) = &external.prefix else {
        let exact = super::device(attachment);
        return match facts.taken.contains(exact) {
            true => Err(Error::conflict(format!(
                "{}: the container has another interface {exact} already",
                attachment.id
            ))),
            false => Ok(exact.clone()),
        };
    };
    match there.place == InterfaceNamespace::Sandbox && is_numbered(&there.name, prefix) {
        true => Ok(there.name.clone()),
        false => lowest_free(prefix, &facts.taken),
    }
}

/// Whether it is the prefix and a number.
fn is_numbered(name: &IfName, prefix: &IfName) -> bool {
    let number = name.as_str().strip_prefix(prefix.as_str());
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The prefix with the lowest number, from zero, that makes a free name.
///
/// # Errors
/// [`model::Kind::Invalid`] where that is no name of an interface.
pub(crate) fn lowest_free(prefix: &IfName, taken: &BTreeSet<IfName>) -> Result<IfName> {
    // One more than there are names: one of them is free.
    for number in 0..=taken.len() {
        let name: IfName = format!("{prefix}{number}").parse()?;
        if !taken.contains(&name) {
            return Ok(name);
        }
    }
    Err(Error::bug(format!("no number after {prefix} is free")))
}

/// Everything that is a message goes last, and together.
fn complete(attachment: &Attachment, link: &Link, device: &IfName) -> Vec<Step> {
    let addresses = &attachment.addresses;
    let mut steps = super::ipv6(device, addresses);
    steps.extend(super::announcements(device, addresses).into_iter().map(|(_, step)| step));
    steps.extend(link.mac.map(|mac| Step::Mac(device.clone(), mac)));
    steps.extend(link.mtu.map(|mtu| Step::Mtu(device.clone(), mtu)));
    steps.extend(addresses.iter().map(|held| Step::Address(device.clone(), held.address)));
    steps.push(Step::Up(device.clone()));
    steps.extend(routes(attachment, device));
    steps
}

/// Connected routes come first, because next hops may be there.
fn routes(attachment: &Attachment, device: &IfName) -> Vec<Step> {
    let reported = route::final_routes(&attachment.routes, &attachment.addresses);
    let (direct, via): (Vec<Route>, Vec<Route>) =
        reported.into_iter().partition(|route| route.via.is_none());
    let own: Vec<IpNet> = attachment.addresses.iter().map(|held| held.address).collect();
    let here: Vec<IpNet> = own.into_iter().chain(direct.iter().map(|route| route.dst)).collect();
    let through = |route: Route| Step::Route { link: device.clone(), route, source: None };
    let mut steps: Vec<Step> = direct.into_iter().map(through).collect();
    for route in via {
        let Some(hop) = route.via else { continue };
        if is_near(&here, hop) {
            steps.push(through(route));
        } else if route.is_default() {
            steps.push(through(to_hop(hop)));
            steps.push(through(route));
        } else {
            steps.push(Step::RouteAnywhere(route));
        }
    }
    steps
}

/// Whether `hop` is reached directly, where the interface leads to `here`.
pub(super) fn is_near(here: &[IpNet], hop: IpAddr) -> bool {
    let is_link_local = match hop {
        IpAddr::V4(_) => false,
        IpAddr::V6(hop) => hop.is_unicast_link_local(),
    };
    is_link_local || here.iter().any(|net| net.prefix_len() > 0 && net.contains(&hop))
}

/// The way to a next hop that is in no subnet of the interface.
pub(super) fn to_hop(hop: IpAddr) -> Route {
    Route { scope: Some(Route::ON_LINK), ..Route::new(host_net(hop), None) }
}

/// The steps in the container that remove what would stay there without the interface: routes
/// through other ones.
pub(crate) fn leave(attachment: &Attachment) -> Vec<Step> {
    let steps = routes(attachment, super::device(attachment)).into_iter();
    let elsewhere = steps.filter_map(|step| match step {
        Step::RouteAnywhere(Route { dst, via: Some(via), .. }) => {
            Some(Step::DropRouteAnywhere(dst, via))
        }
        _ => None,
    });
    elsewhere.collect()
}
