//! `spoke`: everything that a chain of plugins does, in one entry, one process and one record.
//!
//! Its fields are those of the reference plugins that make sense together, with defaults for
//! containers that reach the world. Unlike theirs, an unknown or senseless field is an error.

mod driver;
mod extras;
mod field;
mod join;
mod neutron;
mod several;

use model::{
    Backend, Error, Family, Firewall, Gateway, IfName, IngressPolicy, Ipam, Link, LinkKind,
    Masquerade, Passage, Result, Route, Sources, Space, Tuning, Wiring,
};

use super::joined::joined;
use super::{Call, Plan, firewall, link, parent};
use crate::plugin::Plugin;
use crate::source::{self, Source};
use crate::wire::{Node, Object};
use driver::Driver;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    field::refuse_unknown(&root)?;
    if let Some(plan) = several::plan(call, &root, field::describes)? {
        return Ok(plan);
    }
    call.config.args_labels()?;
    match joined(call, &root, field::describes)? {
        Some(network) => join::only(call, network),
        None => described(call, &root),
    }
}

/// A network that the configuration describes.
fn described(call: &Call<'_>, root: &Object<'_>) -> Result<Plan> {
    let driver = Driver::of(root)?;
    field::refuse_senseless(root, driver)?;
    let mut kind = driver.kind(call, root)?;
    let gateway = gateway(root, driver)?;
    if let LinkKind::Bridge(bridge) = &mut kind {
        bridge.gateway = gateway;
    }
    let mut source = source(call, driver.space(call, gateway))?;
    if driver == Driver::Neutron {
        source.wanted = source::wanted(call)?;
    }
    driver::refuse_source(root, &kind, &source.ipam)?;
    name_routes(root, &kind, gateway, &mut source)?;
    let template = template(call, root, kind, gateway)?;
    let wiring = extras::of_container(call, &template)?;
    let sticky = root.flag("sticky")?;
    let labels = call.config.labels()?;
    Ok(Plan { template, wiring, source, sticky, labels, ..Plan::default() })
}

/// What is done for every container of the network.
fn template(
    call: &Call<'_>,
    root: &Object<'_>,
    kind: LinkKind,
    gateway: Gateway,
) -> Result<Wiring> {
    let is_pair = kind.is_pair();
    let bridge = kind.bridge().map(|bridge| bridge.name.clone());
    let backend = backend(call, root)?;
    let masquerade = root.maybe("ipMasq")?.unwrap_or(is_pair && gateway == Gateway::Default);
    let ingress = firewall::ingress(root)?.unwrap_or(IngressPolicy::Open);
    if let (IngressPolicy::SameBridge | IngressPolicy::Isolated, None, Some(node)) =
        (ingress, &bridge, root.get("ingressPolicy"))
    {
        return Err(node.wrong("but that is said of bridges, and there is none"));
    }
    let (mtu, tuned) = mtu(root, &kind)?;
    let (sources, trusted) = (sources(root, masquerade)?, trusted(root)?);
    Ok(Wiring {
        link: Some(Link { kind, name: None, mac: None, mtu }),
        masquerade: masquerade.then_some(Masquerade { backend, sources }),
        firewall: is_pair.then_some(Firewall {
            backend,
            ingress,
            egress: model::EgressPolicy::Open,
            bridge,
            admin_chain: None,
            zone: None,
            passage: Passage::trusting(trusted),
        }),
        tuning: tuned,
        ..Wiring::default()
    })
}

/// `hostIPv4` and `hostIPv6`: the addresses that packets leave with, which only masqueraded ones do.
fn sources(root: &Object<'_>, masquerade: bool) -> Result<Sources> {
    let (v4, v6) = (root.get("hostIPv4"), root.get("hostIPv6"));
    if let (Some(node), false) = (v4.as_ref().or(v6.as_ref()), masquerade) {
        return Err(node.wrong("but nothing is masqueraded: \"ipMasq\" is off"));
    }
    let wrong = |node: &Node<'_>, what: &str| node.wrong(format!("which is not {what}"));
    Ok(Sources {
        v4: v4
            .map(|it| Sources::read_v4(it.text()?).ok_or_else(|| wrong(&it, Sources::V4)))
            .transpose()?,
        v6: v6
            .map(|it| Sources::read_v6(it.text()?).ok_or_else(|| wrong(&it, Sources::V6)))
            .transpose()?,
    })
}

/// `trustedHostInterfaces`: from where others reach published ports at containers' own addresses.
fn trusted(root: &Object<'_>) -> Result<Vec<IfName>> {
    root.list("trustedHostInterfaces")?.iter().map(Node::parse).collect()
}

/// Links that are made for the container are made with their MTU; others get it afterwards.
fn mtu(root: &Object<'_>, kind: &LinkKind) -> Result<(Option<model::Mtu>, Option<Tuning>)> {
    let mtu = match kind {
        LinkKind::Macvlan(_) | LinkKind::Ipvlan(_) | LinkKind::Vlan(_) => parent::mtu(root)?,
        _ => link::mtu(root)?,
    };
    match kind {
        LinkKind::Device(_) | LinkKind::Dummy if mtu.is_some() => {
            Ok((None, Some(Tuning { mtu, ..Tuning::default() })))
        }
        _ => Ok((mtu, None)),
    }
}

fn backend(call: &Call<'_>, root: &Object<'_>) -> Result<Backend> {
    match root.text("backend")? {
        None => Ok(call.context.backend),
        Some("nftables") => Ok(Backend::Nftables),
        Some("iptables") => Ok(Backend::Iptables),
        Some(other) => Err(Error::invalid(format!(
            "\"backend\" is {other:?}, which is neither nftables nor iptables"
        ))),
    }
}

/// The default route of its containers, unless the configuration says otherwise or a DHCP server
/// does.
fn gateway(root: &Object<'_>, driver: Driver) -> Result<Gateway> {
    if driver != Driver::Bridge {
        let leads_out = root.maybe("isDefaultGateway")?.unwrap_or(driver.leads_out());
        return Ok(if leads_out { Gateway::Default } else { Gateway::None });
    }
    let is_served = asks_dhcp(root)?;
    let is_left_down = root.flag("disableContainerInterface")?;
    let is_gateway = root.maybe("isGateway")?.unwrap_or(!is_served && !is_left_down);
    let gateway = match root.maybe("isDefaultGateway")?.unwrap_or(is_gateway) {
        true => Gateway::Default,
        false if is_gateway => Gateway::Address,
        false => Gateway::None,
    };
    match (root.get("ipam"), gateway) {
        (_, Gateway::None) | (None, _) => Ok(gateway),
        (Some(node), _) if is_served => {
            Err(node.wrong("but the gateway is the DHCP server's to name, not this bridge"))
        }
        (Some(_), _) => Ok(gateway),
    }
}

/// Whether addresses come from a server: `{"type": "dhcp"}`, or `{"mode": "dhcp"}`.
fn asks_dhcp(root: &Object<'_>) -> Result<bool> {
    let Some(ipam) = root.object("ipam")? else { return Ok(false) };
    match (ipam.text("type")?, ipam.get("mode")) {
        (Some(named), _) => Ok(named == Plugin::Dhcp.name()),
        (None, None) => Ok(false),
        (None, Some(node)) => match node.text()? {
            "dhcp" => Ok(true),
            "book" => Ok(false),
            _ => Err(node.wrong("which is neither dhcp nor book")),
        },
    }
}

/// Without a `type`, `ipam` is in the form of `host-local` and the book alone keeps it.
fn source(call: &Call<'_>, space: Space) -> Result<Source> {
    let root = call.config.root();
    let mut source = match root.object("ipam")? {
        Some(ipam) if ipam.text("type")?.is_none() => match asks_dhcp(&root)? {
            true => source::of_plugin(call, Plugin::Dhcp, &ipam, space)?,
            false => source::book(call, &ipam, space)?,
        },
        _ => return source::load(call, space),
    };
    source.prefer_own_dns(&root)?;
    Ok(source)
}

/// Names gateways, and routes everything through them where nothing else is said. A bridge that is
/// the gateway knows that by itself.
fn name_routes(
    root: &Object<'_>,
    kind: &LinkKind,
    gateway: Gateway,
    source: &mut Source,
) -> Result<()> {
    let is_bridge = kind.bridge().is_some();
    if matches!(kind, LinkKind::Ptp(_)) || (is_bridge && gateway != Gateway::None) {
        source.name_gateways();
    }
    let says_routes = match root.object("ipam")? {
        Some(ipam) => ipam.get("routes").is_some(),
        None => false,
    };
    if is_bridge || gateway != Gateway::Default || says_routes {
        return Ok(());
    }
    for family in with_gateway(&source.ipam) {
        source.routes.push(Route::new(family.everything(), None));
    }
    Ok(())
}

/// The families of whose addresses the gateway is known.
fn with_gateway(ipam: &Ipam) -> Vec<Family> {
    let ranges = ipam.pools().iter().filter_map(|pool| pool.ranges.first());
    let ranges = ranges.filter(|range| range.gateway.is_some()).map(|range| range.subnet);
    let reported = ipam.fixed_addresses().iter().filter(|lease| lease.gateway.is_some());
    let mut families: Vec<Family> =
        ranges.chain(reported.map(|lease| lease.address)).map(|net| Family::of(&net)).collect();
    families.sort_unstable();
    families.dedup();
    families
}
