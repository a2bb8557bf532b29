//! Compares an existing network with what CreateNetwork describes.

use model::{
    Bridge, EgressPolicy, Error, Family, Fence, Gateway, IfName, LinkKind, Mtu, Network, Ovs,
    Passage, Publisher, Result,
};
use spec::{DefaultRoute, KindSpec, NetworkSpec};

use super::block::Block;
use super::option;
use super::template::{Circumstances, kind_of};
use libnetwork::parameters::NetworkParameters;

/// Fails where they differ, with what it is that the network has.
pub(super) fn agree(
    known: &Network,
    spec: &NetworkSpec,
    blocks: &[Block],
    circumstances: &Circumstances<'_>,
) -> Result<()> {
    let kind = kind_of(known)?;
    if let Some(there) = other_kind(kind, spec, circumstances)? {
        return differs(
            known,
            "-o driver, parent, vlan, mode, cni, neutron.… or ovs.…",
            there.to_owned(),
        );
    }
    refuse_other_reach(known, kind, spec)?;
    refuse_other_space(known, spec)?;
    let difference = match kind {
        LinkKind::Bridge(bridge) => first_difference(known, bridge, spec),
        _ if option::is_of_bridge(spec) => Some(("an option of bridges", named(kind).to_owned())),
        _ => other_mtu(known, spec),
    };
    if !spec.labels.is_empty() && spec.labels != known.labels {
        return differs(known, "-o label.…", "other labels".to_owned());
    }
    if let Some((what, there)) = difference {
        return differs(known, what, there);
    }
    refuse_other_subnets(known, spec, blocks)
}

fn differs(known: &Network, what: &str, there: String) -> Result<()> {
    Err(Error::conflict(format!(
        "network {} exists and has {there}, which {what} contradicts; leave that out to join the \
         network as it is",
        known.name
    )))
}

/// The link kind of its containers if it is not the requested one.
fn other_kind(
    kind: &LinkKind,
    spec: &NetworkSpec,
    circumstances: &Circumstances<'_>,
) -> Result<Option<&'static str>> {
    let is_it = match (&spec.kind, kind) {
        (None, _) | (Some(KindSpec::Bridge), LinkKind::Bridge(_)) => true,
        (Some(KindSpec::Macvlan(wanted)), LinkKind::Macvlan(there)) => wanted == there,
        (Some(KindSpec::Ipvlan(wanted)), LinkKind::Ipvlan(there)) => wanted == there,
        (Some(KindSpec::Plugins(file)), LinkKind::Chain(there)) => {
            (circumstances.plugins)(file)? == *there
        }
        (Some(KindSpec::Neutron(wanted)), LinkKind::Neutron(there)) => wanted == there,
        // The switch alone decides on checksums.
        (Some(KindSpec::Ovs(wanted)), LinkKind::Ovs(there)) => {
            Ovs { offload: there.offload, ..(**wanted).clone() } == **there
        }
        (Some(_), _) => false,
    };
    Ok((!is_it).then(|| named(kind)))
}

fn named(kind: &LinkKind) -> &'static str {
    match kind {
        LinkKind::Bridge(_) => "a bridge",
        LinkKind::Macvlan(_) => "another macvlan",
        LinkKind::Ipvlan(_) => "another ipvlan",
        LinkKind::Chain(_) => "plugins of its own",
        LinkKind::Neutron(_) => "a network of Neutron",
        LinkKind::Remote(_) => "a network of another plugin",
        LinkKind::Ovs(_) => "a segment of Open vSwitch",
        _ => "another kind of link",
    }
}

/// Only a bridge's packets can be kept inside by this host, and a plugin gets the network's
/// options. Elsewhere an internal network is one without a default route, and the options that it
/// is made with say so.
fn refuse_other_reach(known: &Network, kind: &LinkKind, spec: &NetworkSpec) -> Result<()> {
    let firewall = known.wiring.firewall.as_ref();
    let is_internal = match kind {
        LinkKind::Bridge(_) => firewall.is_some_and(|f| f.egress == EgressPolicy::Internal),
        LinkKind::Remote(link) => NetworkParameters::read(&link.network)?.internal,
        _ => spec.egress == EgressPolicy::Internal && !has_gateway(known),
    };
    if is_internal == (spec.egress == EgressPolicy::Internal) {
        return Ok(());
    }
    Err(Error::conflict(match is_internal {
        true => format!("network {} exists and is internal; add --internal", known.name),
        false => format!("network {} exists and is not internal", known.name),
    }))
}

/// Fails where the network is of another address space than the requested one.
fn refuse_other_space(known: &Network, spec: &NetworkSpec) -> Result<()> {
    let there = &known.wiring.address_space;
    match there {
        _ if *there == spec.address_space => Ok(()),
        Some(space) => Err(Error::conflict(format!(
            "network {} exists in address space {space}; add -o address_space={space}",
            known.name
        ))),
        None => Err(Error::conflict(format!(
            "network {} exists in this host's own address space; leave out -o address_space",
            known.name
        ))),
    }
}

fn has_gateway(network: &Network) -> bool {
    let mut ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    ranges.any(|range| range.gateway.is_some())
}

fn other_mtu(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    let mtu = known.wiring.link.as_ref().and_then(|link| link.mtu);
    let shown = |mtu: Mtu| format!("MTU {mtu}");
    (spec.mtu.is_some() && spec.mtu != mtu)
        .then(|| ("-o mtu", mtu.map_or_else(|| "the kernel's MTU".to_owned(), shown)))
}

fn other_fence(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    if known.wiring.fence.is_some() && spec.publisher == Some(Publisher::Runtime) {
        let there = "egress rules, which Docker's own bridge would lead past".to_owned();
        return Some(("-o ports=docker", there));
    }
    let (given, there) = (spec.fence(), &known.wiring.fence);
    let is_other = |given: &Fence| {
        there.as_ref().is_none_or(|there| {
            !given.same_rules(there) || spec.strict.is_some_and(|strict| strict != there.strict)
        })
    };
    if known.wiring.via.is_some() && spec.publisher == Some(Publisher::Runtime) {
        let there = "a way out of its own, which Docker's own bridge would lead past".to_owned();
        return Some(("-o ports=docker", there));
    }
    if given.as_ref().is_some_and(is_other) {
        let there = known.wiring.fence.as_ref().map_or("everywhere".to_owned(), Fence::to_string);
        return Some(("-o egress", format!("egress {there}; `spoke egress set` changes it")));
    }
    if spec.via.is_some() && spec.via != known.wiring.via {
        let there = known.wiring.via.as_ref().map_or("none".to_owned(), ToString::to_string);
        return Some(("-o via", format!("via {there}")));
    }
    None
}

/// The option that asks for something else than there is, and what there is.
type Difference = (&'static str, String);

fn first_difference(known: &Network, bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    other_bridge(bridge, spec)
        .or_else(|| other_mtu(known, spec))
        .or_else(|| other_absence(bridge, spec))
        .or_else(|| other_reach(known, spec))
        .or_else(|| other_gateway(known, bridge, spec))
        .or_else(|| other_direct(bridge, spec))
        .or_else(|| other_passage(known, spec))
        .or_else(|| other_source(known, spec))
        .or_else(|| other_names(known, spec))
        .or_else(|| other_fence(known, spec))
        .or_else(|| other_ports(bridge, spec))
}

fn other_bridge(bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    let is_other = spec.bridge.as_ref().is_some_and(|wanted| *wanted != bridge.name);
    is_other.then(|| ("-o bridge", format!("bridge {}", bridge.name)))
}

fn other_absence(bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    let differs = !spec.host_absent.is_nowhere() && spec.host_absent != bridge.host_absent;
    let there = || "addresses of this host in other families".to_owned();
    differs.then(|| ("-o gateway_mode_ipv4 and _ipv6", there()))
}

fn other_reach(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    let ingress = known.wiring.firewall.as_ref().map(|firewall| firewall.ingress);
    if spec.ingress.is_some() && spec.ingress != ingress {
        return Some(("-o isolation", "another isolation".to_owned()));
    }
    let reach = known.wiring.publish.as_ref().map(|publish| publish.reach).unwrap_or_default();
    let is_other = spec.reach.is_some_and(|wanted| wanted != reach);
    let there = || format!("another reach of its ports ({reach:?})").to_lowercase();
    is_other.then(|| ("-o publish", there()))
}

fn other_gateway(known: &Network, bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    let route = spec.route.map(DefaultRoute::gateway);
    if route.is_some_and(|wanted| wanted != bridge.gateway) && bridge.gateway != Gateway::None {
        return Some(("-o gateway", "another gateway".to_owned()));
    }
    let masquerades = known.wiring.masquerade.is_some();
    if spec.masquerade.is_some() && spec.masquerades() != masquerades {
        let there = if masquerades { "masquerading" } else { "no masquerading" };
        return Some(("-o masquerade", there.to_owned()));
    }
    None
}

fn other_direct(bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    if spec.direct.is_some_and(|wanted| wanted != bridge.port.direct) {
        return Some(("-o direct", format!("direct {}", bridge.port.direct)));
    }
    if spec.direct.is_some() && spec.direct_only != bridge.port.direct_only {
        return Some(("-o gateway_mode_ipv4 and _ipv6", "direct in other families".to_owned()));
    }
    None
}

fn other_passage(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    let passage = known.wiring.firewall.as_ref().map(|firewall| &firewall.passage);
    if spec.passage.is_none() || spec.passage.as_ref() == passage {
        return None;
    }
    let there = match passage {
        Some(Passage::Everybody) => "routed".to_owned(),
        Some(Passage::EverybodyOf(family)) => {
            let version = if *family == Family::V4 { 4 } else { 6 };
            format!("routed in IPv{version} only")
        }
        Some(Passage::Trusted(names)) => {
            let names: Vec<&str> = names.iter().map(IfName::as_str).collect();
            format!("as trusted interfaces {}", names.join(":"))
        }
        Some(Passage::Unjudged) | None => "no trusted interfaces, and is not routed".to_owned(),
    };
    Some(("-o trusted_host_interfaces or gateway_mode_ipv4", there))
}

fn other_source(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    let sources = known.wiring.masquerade.as_ref().map(|part| part.sources).unwrap_or_default();
    let is_other = |family: &Family| {
        spec.sources.of(*family).is_some_and(|wanted| sources.of(*family) != Some(wanted))
    };
    let family = [Family::V4, Family::V6].into_iter().find(is_other)?;
    let there = sources.of(family).map_or("no source".to_owned(), |it| format!("source {it}"));
    Some(("-o host_ipv4 or host_ipv6", there))
}

fn other_names(known: &Network, spec: &NetworkSpec) -> Option<Difference> {
    let is_other = spec.names.is_some_and(|wanted| wanted != known.wiring.names);
    is_other.then(|| ("-o names", format!("names {}", known.wiring.names)))
}

fn other_ports(bridge: &Bridge, spec: &NetworkSpec) -> Option<Difference> {
    if spec.hairpin.is_some_and(|wanted| wanted != bridge.hairpin) {
        return Some(("-o hairpin", format!("hairpin {}", bridge.hairpin)));
    }
    let is_other = spec.promiscuous.is_some_and(|wanted| wanted != bridge.promiscuous);
    is_other.then(|| ("-o promiscuous", format!("promiscuous {}", bridge.promiscuous)))
}

fn refuse_other_subnets(known: &Network, spec: &NetworkSpec, blocks: &[Block]) -> Result<()> {
    let ranges: Vec<_> = known.ipam.pools().iter().flat_map(|pool| &pool.ranges).collect();
    for block in blocks {
        let Some(range) = ranges.iter().find(|range| range.subnet == block.net) else {
            let subnets: Vec<String> =
                ranges.iter().map(|range| range.subnet.to_string()).collect();
            return Err(Error::conflict(format!(
                "network {} exists with the subnets {}, and {} is none of them",
                known.name,
                subnets.join(", "),
                block.net
            )));
        };
        let has_gateway = spec.has_gateway(Family::of(&block.net));
        if let (Some(gateway), Some(theirs), true) = (block.gateway, range.gateway, has_gateway)
            && gateway != theirs
        {
            return Err(Error::conflict(format!(
                "network {} exists with the gateway {theirs}; {gateway} cannot be another one of \
                 the same subnet",
                known.name
            )));
        }
    }
    Ok(())
}
