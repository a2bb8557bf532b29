//! Checks of `spoke doctor` that packets reach containers and leave them.

use std::collections::BTreeSet;
use std::path::Path;

use host::facts::{DroppingChain, Forward, HostFacts};
use linux::Exposed;
use model::{Attachment, Family, LinkKind, Network, Runtime};
use netlink::sysctl::Parameter;

use crate::check::{Check, parameter};
use crate::claims::{self, Claimed, Owner};
use crate::commands::findings;
use crate::context::CommandContext;
use crate::daemon::restart;

/// The default MTU of Ethernet devices, in bytes.
const ETHERNET_MTU: u32 = 1500;

/// Routing between interfaces. Spoke turns it on with the first container, together with the guard against strangers: a
/// failure only once there are some, and nothing that a bare `sysctl` repairs.
pub(super) fn forwarding(
    root: &Path,
    networks: &[Network],
    attachments: &[Attachment],
) -> Vec<Check> {
    let ranges = networks.iter().flat_map(|network| network.ipam.pools()).flat_map(|p| &p.ranges);
    let subnets: Vec<Family> = ranges.map(|range| Family::of(&range.subnet)).collect();
    let mut checks = Vec::new();
    for family in [Family::V4, Family::V6] {
        let name = Parameter::host_forwarding(family);
        if read(root, &name).as_deref() != Some("0") {
            continue;
        }
        if let Some(attached) = attachments.iter().find(|it| is_forwarded(it, family)) {
            let what = format!(
                "{name} is off: containers reach nothing beyond this host; the next one that starts turns it \
                 on, with the guard inet spoke_transit"
            );
            let (name, container) = (attached.network(), attached.container_name());
            let network = networks.iter().find(|network| network.name == *name);
            let network = network.map_or(name, Network::in_commands);
            let fix = explain::forward(attached.runtime, &container, Some(network.as_str()))
                .unwrap_or_else(|| made_again(attached.runtime, &container));
            checks.push(Check::fail(what, fix));
        } else if subnets.contains(&family) {
            checks.push(Check::ok(format!("{name} is turned on with the first container")));
        }
    }
    if checks.is_empty() {
        checks.push(Check::ok("packets are forwarded where networks need it"));
    }
    checks
}

/// What gives a container its interfaces again where its runtime has no command for that: it gives them when it starts.
fn made_again(runtime: Runtime, container: &impl std::fmt::Display) -> String {
    match runtime {
        Runtime::Cni | Runtime::Reference | Runtime::Kurma => format!(
            "have the runtime of {container} remove it and make it again (of Kubernetes: kubectl delete pod, where a \
             controller makes the next one)"
        ),
        Runtime::Spoke | Runtime::Docker | Runtime::Podman => format!("restart {container}"),
    }
}

/// Whether the host forwards for a container, and turns forwarding on for it.
fn is_forwarded(attachment: &Attachment, family: Family) -> bool {
    let is_led = match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Bridge(bridge)) => bridge.is_gateway_of(family),
        Some(LinkKind::Ptp(_)) => true,
        _ => false,
    };
    attachment.first(family).is_some() && is_led && !attachment.wiring.is_internal()
}

fn read(root: &Path, name: &Parameter) -> Option<String> {
    parameter(root, &format!("proc/sys/{}", name.path()))
}

/// What strangers reach because Spoke has the host forward: nothing, where all is well.
pub(super) fn exposed(exposed: Option<&[Exposed]>, fix: &str) -> Vec<Check> {
    let Some(exposed) = exposed else { return Vec::new() };
    if exposed.is_empty() {
        return vec![Check::ok("what Spoke has the host forward is its containers' packets alone")];
    }
    exposed.iter().map(|it| warned(it, fix)).collect()
}

fn warned(exposed: &Exposed, fix: &str) -> Check {
    match exposed {
        Exposed::Host => Check::fail(
            "the host forwards because of Spoke, and the table inet spoke_transit is missing: strangers reach \
             whatever they have a route to",
            fix,
        ),
        Exposed::Docker(family) => {
            let (version, program) = match family {
                Family::V4 => ("IPv4", "iptables"),
                Family::V6 => ("IPv6", "ip6tables"),
            };
            Check::fail(
                format!(
                    "the host forwarded because of Spoke before dockerd started: strangers reach unpublished \
                     ports of Docker's containers over {version}"
                ),
                format!("{program} -P FORWARD DROP"),
            )
        }
    }
}

/// The treatment of forwarded packets that no rule decides about.
pub(super) fn policy(forward: &Forward, bridges: &[String], fix: &str) -> Check {
    match forward {
        Forward::Accepted => Check::ok("no packet filter chain drops forwarded packets by policy"),
        Forward::Unknown(why) => {
            Check::warn(format!("the packet filter cannot be read: {why}"), "").without_fix()
        }
        Forward::Dropped(chains) => {
            let cut = cut_off(chains, bridges);
            if bridges.is_empty() {
                return Check::ok(format!(
                    "{} drops what no rule accepts; Spoke lets its containers' packets pass with the first one",
                    names(chains.iter())
                ));
            }
            if cut.is_empty() {
                return Check::ok(format!(
                    "{} drops what no rule accepts, and Spoke lets its containers' packets pass",
                    names(chains.iter())
                ));
            }
            let what = format!(
                "{} drops what no rule accepts: containers may be cut off",
                names(cut.iter().copied())
            );
            let_pass(what, &cut, fix)
        }
    }
}

/// Spoke lets its containers pass in iptables' chains. In others the operator knows where a rule belongs.
fn let_pass(what: String, cut: &[&DroppingChain], fix: &str) -> Check {
    match cut.iter().any(|chain| IPTABLES.contains(&chain.chain.as_str())) {
        true => Check::warn(what, fix),
        false => Check::warn(what, "").without_fix(),
    }
}

/// Where Spoke itself lets its containers' packets pass.
const IPTABLES: [&str; 2] = ["ip filter FORWARD", "ip6 filter FORWARD"];

/// Bridged packets that pass the rules for routed ones are dropped by a policy meant for those.
pub(super) fn bridge_filter(
    context: &CommandContext,
    forward: &Forward,
    bridges: &[String],
) -> Option<Check> {
    let calls = Parameter::bridge_calls(Family::V4);
    let is_on = read(&context.root, &calls).as_deref() == Some("1");
    match (is_on, forward) {
        (true, Forward::Dropped(chains)) if !cut_off(chains, bridges).is_empty() => {
            let what = format!(
                "{calls} is on and forwarded packets are dropped by policy: containers on one bridge may not \
                 reach each other"
            );
            Some(let_pass(what, &cut_off(chains, bridges), restart(context)))
        }
        (true, _) => {
            Some(Check::ok("br_netfilter filters bridged packets, and no policy drops them"))
        }
        (false, _) => None,
    }
}

/// The bridges of Spoke's that there are. The first container makes them, and has the packet filter let them pass.
pub(super) fn bridges(networks: &[Network], facts: &HostFacts) -> Vec<String> {
    let links = facts.by_name();
    let all = networks.iter().filter_map(claims::device);
    all.filter(|name| links.contains_key(name.as_str())).collect()
}

/// The chains that drop packets of one of the bridges.
fn cut_off<'a>(chains: &'a [DroppingChain], bridges: &[String]) -> Vec<&'a DroppingChain> {
    let passes = |chain: &DroppingChain| bridges.iter().all(|name| chain.passing.contains(name));
    chains.iter().filter(|chain| !passes(chain)).collect()
}

fn names<'a>(chains: impl Iterator<Item = &'a DroppingChain>) -> String {
    chains.map(|chain| chain.chain.as_str()).collect::<Vec<_>>().join(", ")
}

/// Subnets that two networks have, or that hide what this host reaches otherwise.
pub(super) fn subnets(
    context: &CommandContext,
    networks: &[Network],
    facts: &HostFacts,
) -> Vec<Check> {
    let overlaps = overlaps(context, networks, facts).into_iter();
    let mut checks: Vec<Check> = overlaps.map(|overlap| overlap.check).collect();
    if checks.is_empty() {
        checks.push(Check::ok("no subnets overlap"));
    }
    checks
}

/// A subnet that two networks have, or that hides what this host reaches otherwise.
pub(super) struct Overlap {
    pub(super) check: Check,
    /// The names in the book of those that are there.
    pub(super) ours: Vec<String>,
}

impl Overlap {
    fn new(check: Check, claims: &[&Claimed]) -> Self {
        let ours = claims.iter().filter(|claim| claim.owner == Owner::Spoke);
        Self { check, ours: ours.map(|claim| claim.network.clone()).collect() }
    }
}

/// All of them.
pub(super) fn overlaps(
    context: &CommandContext,
    networks: &[Network],
    facts: &HostFacts,
) -> Vec<Overlap> {
    let claims = claims::claims(context, networks, facts);
    let mut overlaps: Vec<Overlap> = claims::clashes(&claims)
        .into_iter()
        .map(|(one, other)| {
            let what = format!("{one} and {other} overlap: both give out the same addresses");
            let check = Check::warn(what, findings::newer(one, other).removal.clone());
            Overlap::new(check, &[one, other])
        })
        .collect();
    let devices: BTreeSet<&String> =
        claims.iter().filter_map(|claim| claim.device.as_ref()).collect();
    for (claim, route) in claims::hiding(&claims, facts) {
        if claim.owner == Owner::Spoke && !devices.contains(&route.device) {
            let what =
                format!("{claim} overlaps the route to {} through {}", route.dst, route.device);
            let check = Check::warn(what, claim.removal.clone());
            overlaps.push(Overlap::new(check, &[claim]));
        }
    }
    overlaps
}

/// What gives the network's containers a lower MTU. A runtime that describes its network with each container
/// would undo what a command set.
fn lower_mtu(network: &Network, mtu: u32) -> String {
    let name = network.called();
    match network.runtime {
        Runtime::Spoke | Runtime::Docker => {
            format!("spoke network set --mtu {mtu} {}", network.in_commands())
        }
        Runtime::Podman => format!(
            "podman network create -d spoke -o mtu={mtu} NEW, and podman network connect NEW CONTAINER for \
             those on {name}"
        ),
        Runtime::Cni | Runtime::Reference | Runtime::Kurma => {
            format!(
                "\"mtu\": {mtu} in the configuration of {name}; containers that start afterwards have it"
            )
        }
    }
}

/// Packets that are larger than the uplink's MTU are lost where the error message is filtered.
pub(super) fn mtu(networks: &[Network], facts: &HostFacts) -> Vec<Check> {
    let Some(uplink) = facts.uplink() else {
        return vec![Check::ok("no default route: containers reach this host's networks only")];
    };
    let links = facts.by_name();
    // Others are not led out through the uplink, or have the MTU that the maker of their links chose.
    let mtu_of = |network: &Network| {
        if network.wiring.is_internal() {
            return None;
        }
        let link = network.wiring.link.as_ref()?;
        let is_routed = matches!(link.kind, LinkKind::Bridge(_) | LinkKind::Ptp(_));
        if !is_routed {
            return None;
        }
        let made = claims::device(network).and_then(|name| Some(links.get(name.as_str())?.mtu));
        Some(link.mtu.map(model::Mtu::bytes).or(made).unwrap_or(ETHERNET_MTU))
    };
    let too_large = networks.iter().filter_map(|network| {
        let mtu = mtu_of(network).filter(|mtu| *mtu > uplink.mtu)?;
        let what = format!(
            "network {} has MTU {mtu}, and {} on the way out only {}",
            network.called(),
            uplink.name,
            uplink.mtu
        );
        Some(Check::warn(what, lower_mtu(network, uplink.mtu)))
    });
    let checks: Vec<Check> = too_large.collect();
    match checks.is_empty() {
        true => vec![Check::ok(format!("every MTU fits {} ({})", uplink.name, uplink.mtu))],
        false => checks,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use model::{Ipam, Timestamp, Wiring};

    use super::*;

    #[test]
    fn a_command_of_spoke_has_the_name_in_the_book() {
        let name = "0123abcd".parse().unwrap();
        let network =
            Network::new(name, Runtime::Docker, Timestamp(0), Wiring::default(), Ipam::None);
        let network = Network { title: "shop".parse().ok(), ..network };
        assert_eq!(lower_mtu(&network, 1400), "spoke network set --mtu 1400 0123abcd");
        let renamed = Network { runtime: Runtime::Spoke, ..network.clone() };
        assert_eq!(lower_mtu(&renamed, 1400), "spoke network set --mtu 1400 shop");
        let of_file = lower_mtu(&Network { runtime: Runtime::Cni, ..network }, 1400);
        assert!(of_file.contains("configuration of shop;"), "{of_file}");
    }

    /// CNI has no restart: a runtime calls it for containers that it makes.
    #[test]
    fn a_container_that_no_command_restarts_is_made_again() {
        for runtime in [Runtime::Cni, Runtime::Reference, Runtime::Kurma] {
            let advice = made_again(runtime, &"shop/web");
            assert!(
                advice.starts_with("have the runtime of shop/web remove it and make"),
                "{advice}"
            );
        }
    }
}
