//! `spoke`: everything that a chain of plugins does, in one entry, one process and one record.
//!
//! Its fields are those of the reference plugins that make sense together, with defaults for
//! containers that reach the world. Unlike theirs, an unknown or senseless field is an error.

mod driver;
mod extras;
mod field;
mod join;
mod many;
mod neutron;
mod ovs;
mod own_fence;
mod several;
mod tenant;

use model::{
    Backend, Error, Family, Gateway, IngressPolicy, Ipam, LinkKind, Result, Route, Space, Tuning,
    Wiring,
};
use spec::{Driver, NetworkSpec};

use super::joined::joined;
use super::{Plan, device, link, parent};
use crate::call::Call;
use crate::plugin_type::Plugin;
use crate::source::{self, Source};
use crate::wire::{Command, Object};

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    // What an earlier version attached goes on to be checked.
    if call.command == Command::Add {
        field::refuse_null(&root, &field::closing())?;
    }
    if let Some(network) = many::network(call, &root)? {
        call.config.args_labels()?;
        return join::only(call, network);
    }
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

/// Whether the configuration describes a network of this host, rather than joining one.
pub(super) fn describes_network(root: &Object<'_>) -> bool {
    let joins = ["network", "networks", spec::HOSTS].iter().any(|key| root.get(key).is_some());
    !joins && root.fields().any(|(key, _)| field::describes(key))
}

/// A network that the configuration describes.
fn described(call: &Call<'_>, root: &Object<'_>) -> Result<Plan> {
    let driver = driver::named(root)?;
    field::refuse_senseless(root, driver)?;
    let answer = field::spec(root)?;
    if driver == Driver::Device && device::is_given_at_add(call)? {
        let source = source(call, driver::space(driver, call, Gateway::None))?;
        return Ok(Plan { source, ..Plan::default() });
    }
    let mut kind = driver::kind(driver, call, root, &answer)?;
    tenant::refuse_routed(root)?;
    let gateway = match &answer.address_space {
        Some(_) => Gateway::None,
        None => gateway(root, driver)?,
    };
    if let LinkKind::Bridge(bridge) = &mut kind {
        bridge.gateway = gateway;
    }
    let space = match &answer.address_space {
        Some(name) => Space::Named(name.clone()),
        None => driver::space(driver, call, gateway),
    };
    let mut source = source(call, space)?;
    if answer.address_space.is_some() {
        tenant::without_gateway(root, &mut source)?;
    }
    if driver == Driver::Neutron {
        source.wanted = source::wanted(call)?;
    }
    driver::refuse_source(root, &kind, &source.ipam)?;
    name_routes(root, &kind, gateway, &mut source)?;
    let sticky = answer.sticky.unwrap_or(false);
    let template = template(call, root, answer, kind, gateway)?;
    tenant::refuse_source(root, &template, &source.ipam)?;
    let wiring = extras::of_container(call, &template)?;
    let labels = call.config.labels()?;
    Ok(Plan { template, wiring, source, sticky, labels, ..Plan::default() })
}

/// What is made for every container of the network.
fn template(
    call: &Call<'_>,
    root: &Object<'_>,
    answer: NetworkSpec,
    kind: LinkKind,
    gateway: Gateway,
) -> Result<Wiring> {
    let backend = backend(call, root)?;
    let masquerade = answer.masquerade.unwrap_or(kind.is_pair() && gateway == Gateway::Default);
    if let (Some(IngressPolicy::SameBridge | IngressPolicy::Isolated), None, Some(node)) =
        (answer.ingress, kind.bridge(), root.get("ingressPolicy"))
    {
        return Err(node.wrong("but the network has no bridge, and only bridges have it"));
    }
    // Only masqueraded packets leave with other addresses than their own.
    if let (Some(node), false) = (root.get("hostIPv4").or(root.get("hostIPv6")), masquerade) {
        return Err(node.wrong("but nothing is masqueraded: \"ipMasq\" is off"));
    }
    let (mtu, tuning) = mtu(root, &kind)?;
    let spec = NetworkSpec { masquerade: Some(masquerade), mtu, ..answer };
    Ok(Wiring { tuning, ..spec.wiring(kind, backend) })
}

/// Links that are made for the container are made with their MTU; others get it afterwards.
fn mtu(root: &Object<'_>, kind: &LinkKind) -> Result<(Option<model::Mtu>, Option<Tuning>)> {
    let mtu = match kind {
        LinkKind::Macvlan(_) | LinkKind::Ipvlan(_) | LinkKind::Vlan(_) => parent::mtu(root, None)?,
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
        let leads_out = root.maybe("isDefaultGateway")?.unwrap_or(driver::leads_out(driver));
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

/// Without a `type`, `ipam` is in the form of `host-local` and the store alone keeps it.
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

/// Names gateways, and routes everything through them unless another one is given. A bridge that is
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
