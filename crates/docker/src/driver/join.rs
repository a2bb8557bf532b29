//! Join and Leave: an endpoint's way into its container and out again.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use engine::{Engine, Joining};
use model::{
    Alias, Attached, Attachment, Error, Family, Gateway, Handoff, IfName, InterfaceNamespace,
    IpNet, Ipv6Net, Kind, Network, Phase, Publisher, Result, Route, Sandbox, Sysctl,
};

use super::endpoint::{PLACEHOLDER, find, identity, unknown};
use super::network::alias_of;
use super::template::bridge_of;
use super::{Sandboxes, Within};
use libnetwork::{Answer, EndpointRef, Joined, Moved, StaticRoute};

/// The prefix of interface names where none is given.
const PREFIX: &str = "eth";

/// Docker joins a sandbox to several networks at once, and each wants the lowest free name.
const RACES: usize = 32;

/// No sandbox has more interfaces.
const MOST_INTERFACES: u32 = 10_000;

/// Join.
pub(super) fn join(
    engine: &Engine<'_>,
    call: &libnetwork::Join,
    sandboxes: &impl Sandboxes,
) -> Result<Answer> {
    let alias = alias_of(engine, &call.at.network)?;
    let network = engine.records.network_of(&alias.network)?;
    let joined = bring_in(engine, &alias, call, sandboxes)?;
    answer(&alias, &network, &joined).map(|joined| Answer::Joined(Box::new(joined)))
}

/// Makes the interface, or has the engine complete it.
pub(crate) fn bring_in(
    engine: &Engine<'_>,
    alias: &Alias,
    call: &libnetwork::Join,
    sandboxes: &impl Sandboxes,
) -> Result<Attachment> {
    let id = identity(&alias.network, &call.at)?;
    let reserved = engine.records.attachment(&id)?.ok_or_else(|| unknown(&call.at))?;
    let within = match is_ours(alias, &reserved) {
        true => sandboxes.inspect(&call.sandbox)?,
        false => None,
    };
    let within = match within {
        Some(within) if is_safe(engine, &reserved, &within, sandboxes)? => Some(within),
        Some(_) | None => None,
    };
    match within {
        Some(within) => finish(engine, alias, &reserved, call, (sandboxes, within)),
        None => hand_over(engine, &reserved, call),
    }
}

/// Leave. What is not known is gone.
pub(crate) fn leave(engine: &Engine<'_>, at: &EndpointRef) -> Result<Answer> {
    if let Some(id) = find(engine, at)? {
        engine.attachments.leave(&id)?;
    }
    Ok(Answer::Done {})
}

/// Whether Spoke completes the interface: because the network says so, or because it must have a
/// name that Docker gives only to interfaces of its own drivers.
fn is_ours(alias: &Alias, reserved: &Attachment) -> bool {
    alias.handoff == Handoff::Finish || reserved.spec().name.is_some()
}

/// Whether Spoke may complete the interface. An engine that restores containers learns then of an interface that it did
/// not move, without a name to return it by: 28.5 takes down all such interfaces of a sandbox when one of them leaves,
/// and ends by a panic when the second does. So the engine moves what it can; but an interface of Spoke's that it knows
/// nothing of has a name that the engine would choose, and then the next one is Spoke's, too.
fn is_safe(
    engine: &Engine<'_>,
    reserved: &Attachment,
    within: &Within,
    sandboxes: &impl Sandboxes,
) -> Result<bool> {
    if reserved.spec().name.is_some() || !sandboxes.may_restore() {
        return Ok(true);
    }
    let is_there = |other: &Attachment| {
        let sandbox = other.sandbox.as_ref();
        other.handoff == Handoff::Finish
            && other.spec().name.is_none()
            && sandbox.is_some_and(|sandbox| sandbox.inode == within.inode)
    };
    Ok(engine.records.attachments()?.iter().any(is_there))
}

/// Makes the interface in the sandbox. Where Spoke chooses its name, another Join may take it
/// first.
fn finish(
    engine: &Engine<'_>,
    alias: &Alias,
    reserved: &Attachment,
    call: &libnetwork::Join,
    (sandboxes, mut within): (&impl Sandboxes, Within),
) -> Result<Attachment> {
    let fixed = fixed_name(reserved, call, &within);
    for _ in 0..RACES {
        let name = match &fixed {
            Some(name) => name.clone(),
            None => lowest_free(alias.prefix.as_ref(), &within.links)?,
        };
        let joining = Joining {
            sandbox: Sandbox { path: call.sandbox.clone(), inode: within.inode },
            handoff: Handoff::Finish,
            sysctls: sysctls(reserved, &name),
            name: Some(name.clone()),
        };
        match engine.attachments.join(&reserved.id, &joining) {
            Err(error) if error.kind() == Kind::Conflict && fixed.is_none() => {
                within = sandboxes.inspect(&call.sandbox)?.unwrap_or(within);
                if !within.links.contains(&name) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
    Err(Error::try_again(format!(
        "joining {}: the interfaces of {} change all the time",
        reserved.id,
        call.sandbox.display()
    )))
}

/// The name that the user chose, or that the interface already has.
fn fixed_name(reserved: &Attachment, call: &libnetwork::Join, within: &Within) -> Option<IfName> {
    let is_there = matches!(reserved.phase, Phase::Attached(_))
        && reserved.handoff == Handoff::Finish
        && reserved
            .sandbox
            .as_ref()
            .is_some_and(|sandbox| sandbox.path == call.sandbox && sandbox.inode == within.inode);
    let made = match &reserved.phase {
        Phase::Attached(attached) if is_there => {
            let mut there =
                attached.interfaces.iter().filter(|i| i.place == InterfaceNamespace::Sandbox);
            there.next().map(|interface| interface.name.clone())
        }
        _ => None,
    };
    made.or_else(|| reserved.spec().name)
}

fn lowest_free(prefix: Option<&IfName>, links: &BTreeSet<IfName>) -> Result<IfName> {
    let prefix = prefix.map_or(PREFIX, IfName::as_str);
    for number in 0..MOST_INTERFACES {
        let name: IfName = format!("{prefix}{number}").parse()?;
        if !links.contains(&name) {
            return Ok(name);
        }
    }
    Err(Error::exhausted(format!("{MOST_INTERFACES} interfaces are called {prefix}…")))
}

/// The kernel parameters that were requested before the interface had a name.
fn sysctls(reserved: &Attachment, name: &IfName) -> Vec<Sysctl> {
    let named = |sysctl: &Sysctl| Sysctl {
        path: sysctl
            .path
            .iter()
            .map(|part| if part == PLACEHOLDER { name.as_str().as_ref() } else { part })
            .collect::<PathBuf>(),
        value: sysctl.value.clone(),
    };
    reserved.spec().sysctls.iter().map(named).collect()
}

/// The engine moves, names and addresses the interface: before 28.0 there is no sandbox yet.
fn hand_over(
    engine: &Engine<'_>,
    reserved: &Attachment,
    call: &libnetwork::Join,
) -> Result<Attachment> {
    let joining = Joining {
        sandbox: Sandbox { path: call.sandbox.clone(), inode: 0 },
        handoff: Handoff::Caller,
        name: reserved.spec().name,
        sysctls: Vec::new(),
    };
    engine.attachments.join(&reserved.id, &joining)
}

fn answer(alias: &Alias, network: &Network, joined: &Attachment) -> Result<Joined> {
    let ours = joined.handoff == Handoff::Finish;
    let routed = alias.publisher != Publisher::Runtime;
    let gateway = |family| gateway(network, joined, family).filter(|_| routed);
    let (v4, v6) = (gateway(Family::V4), gateway(Family::V6));
    Ok(Joined {
        interface: if ours { None } else { Some(moved(alias, joined)?) },
        gateway: v4.and_then(|gateway| match gateway {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        }),
        gateway_v6: v6.and_then(|gateway| match gateway {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => Some(v6),
        }),
        routes: if ours { Vec::new() } else { answered_routes(alias, network, joined) },
        no_gateway_service: match reported_by_plugin(network, joined) {
            Some(attached) => attached.keeps_in,
            None => routed && v4.is_none() && v6.is_none() && !network.wiring.is_internal(),
        },
    })
}

/// A third-party Docker plugin's answer to Join, where the network is one's.
fn reported_by_plugin<'a>(network: &Network, joined: &'a Attachment) -> Option<&'a Attached> {
    match &joined.phase {
        Phase::Attached(attached) if network.wiring.is_remote() => Some(attached),
        _ => None,
    }
}

/// The routes of the answer. Where Docker's own bridge is the default gateway, which has no IPv6,
/// they include the default route for IPv6. It is two halves because engines refuse a default route
/// among the others, and with a gateway some would not connect the sandbox to their bridge.
fn answered_routes(alias: &Alias, network: &Network, joined: &Attachment) -> Vec<StaticRoute> {
    let mut answered = match reported_by_plugin(network, joined) {
        Some(attached) => routes(joined, &attached.routes),
        None => routes(joined, &joined.routes),
    };
    if alias.publisher == Publisher::Runtime
        && let Some(router @ IpAddr::V6(_)) = gateway(network, joined, Family::V6)
    {
        answered.extend(HALVES.map(|half| StaticRoute::Via(half, router)));
    }
    answered
}

/// `::/1` and `8000::/1`.
const HALVES: [IpNet; 2] = [half(0), half(0x8000)];

const fn half(first: u16) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), 1))
}

/// The next hop for other networks: the gateway of the subnet that has the address. A bridge
/// without an address may have a router among its ports. The source of the addresses gave the
/// routes too: an interface that Spoke completes has them already. A Docker plugin is the
/// exception: Docker chooses its gateway.
fn gateway(network: &Network, joined: &Attachment, family: Family) -> Option<IpAddr> {
    if let Some(attached) = reported_by_plugin(network, joined) {
        let mut routes = attached.routes.iter();
        return routes.find(|route| route.dst == family.everything()).and_then(|route| route.via);
    }
    let first = joined.addresses.iter().find(|held| Family::of(&held.address) == family);
    let usual = first.and_then(|held| held.gateway);
    if network.wiring.chooses_addresses() || network.ipam.asks_over_link() {
        let mut routes = joined.routes.iter().filter(|_| joined.handoff == Handoff::Caller);
        let default = routes.find(|route| route.dst == family.everything());
        return default.and_then(|route| route.via.or(usual));
    }
    let is_way_out = match bridge_of(network).map(|bridge| bridge.gateway) {
        Some(Gateway::Default | Gateway::None) | None => !network.wiring.is_internal(),
        Some(Gateway::Address) => false,
    };
    usual.filter(|_| is_way_out)
}

pub(crate) fn moved(alias: &Alias, joined: &Attachment) -> Result<Moved> {
    let Phase::Attached(attached) = &joined.phase else {
        return Err(Error::bug(format!("{} was joined and is not attached", joined.id)));
    };
    let container_end =
        attached.interfaces.last().filter(|last| last.place == InterfaceNamespace::Host);
    let from = container_end.map(|interface| interface.name.clone()).ok_or_else(|| {
        Error::bug(format!("{} has no interface that Docker could move", joined.id))
    })?;
    let wanted = joined.wiring.link.as_ref().and_then(|link| link.name.as_ref());
    // Docker puts a number behind it, mostly the one that the user chose.
    let wanted = wanted.map(|name| name.as_str().trim_end_matches(|c: char| c.is_ascii_digit()));
    let prefix = wanted.filter(|prefix| !prefix.is_empty());
    let usual = alias.prefix.as_ref().or(attached.prefix.as_ref());
    let prefix = prefix.or(usual.map(IfName::as_str)).unwrap_or(PREFIX);
    Ok(Moved { from, prefix: prefix.to_owned() })
}

/// Never a default route: engines of different versions refuse one in different ways.
pub(crate) fn routes(joined: &Attachment, routes: &[Route]) -> Vec<StaticRoute> {
    let routes = routes.iter().filter(|route| route.dst.prefix_len() > 0);
    let gateway = |route: &Route| match route.scope {
        Some(Route::ON_LINK) => None,
        Some(_) | None => route.via.or_else(|| gateway_towards(joined, route)),
    };
    routes
        .map(|route| match gateway(route) {
            Some(via) => StaticRoute::Via(route.dst, via),
            None => StaticRoute::Connected(route.dst),
        })
        .collect()
}

fn gateway_towards(joined: &Attachment, route: &Route) -> Option<IpAddr> {
    let family = Family::of(&route.dst);
    let held = joined.addresses.iter().find(|held| Family::of(&held.address) == family);
    held.and_then(|held| held.gateway)
}
