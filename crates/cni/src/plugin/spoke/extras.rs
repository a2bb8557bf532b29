//! The requests of one container beside its link.

use model::{Bandwidth, Error, IfName, LinkKind, Mac, Result, SourceRouting, Tuning, Vrf, Wiring};
use spec::Driver;

use super::own_fence;
use crate::call::Call;
use crate::capability;
use crate::plugin::{bandwidth, link, portmap, source_routing, tuning};
use crate::wire::{Node, Object};

/// The network's wiring with what the call asks for.
pub(super) fn of_container(call: &Call<'_>, template: &Wiring) -> Result<Wiring> {
    Ok(Wiring { publish: publish(call, template)?, ..of_interface(call, template)? })
}

/// The same without published ports.
pub(super) fn of_interface(call: &Call<'_>, template: &Wiring) -> Result<Wiring> {
    let root = call.config.root();
    let mut wiring = of_network(template);
    wiring.own_fence = own_fence::of(call, None)?;
    add_tuning(call, &root, &mut wiring)?;
    own_mac(call, &mut wiring)?;
    wiring.bandwidth = own_limits(call, &root, template)?;
    wiring.vrf = vrf(&root)?;
    wiring.source_routing = routing(&root)?;
    match (&wiring.vrf, root.get("sourceRouting")) {
        (Some(vrf), Some(node)) if wiring.source_routing.is_some() => {
            Err(node.wrong(format!("but VRF {} routes by a table of its own already", vrf.name)))
        }
        (_, _) => Ok(wiring),
    }
}

/// The network's wiring of a container that asks for nothing.
pub(super) fn of_network(template: &Wiring) -> Wiring {
    Wiring { publish: None, ..template.clone() }
}

fn driver(wiring: &Wiring) -> Option<Driver> {
    let driver = wiring.link.as_ref().and_then(|link| Driver::of_kind(&link.kind));
    driver.filter(|driver| Driver::CNI.contains(driver))
}

/// Whether ports of the host may lead to its containers.
fn publishes(driver: Driver) -> bool {
    driver.is_pair() || driver == Driver::Neutron
}

/// The ports that the runtime publishes.
pub(super) fn publish(call: &Call<'_>, template: &Wiring) -> Result<Option<model::Publish>> {
    let mut publish = portmap::publish(call, "backend")?;
    if publish.ports.is_empty() {
        return Ok(None);
    }
    super::tenant::refuse_ports(template)?;
    if driver(template).is_some_and(|driver| !publishes(driver)) {
        return Err(Error::invalid(
            "\"runtimeConfig.portMappings\" is not empty, but ports are published by drivers \
             bridge, ptp and neutron only; elsewhere a container is reached at its own address",
        ));
    }
    let bridge = template.bridge();
    publish.behind = bridge.map(|bridge| bridge.name.clone());
    if let Some(of_network) = &template.publish {
        publish.reach = of_network.reach;
    }
    Ok(Some(publish))
}

/// Links that are made for the container are made with it; others get it afterwards.
fn own_mac(call: &Call<'_>, wiring: &mut Wiring) -> Result<()> {
    let Some(mac) = link::own_mac(call)? else { return Ok(()) };
    set_mac(wiring, mac)
}

/// Gives the container's interface this hardware address.
pub(super) fn set_mac(wiring: &mut Wiring, mac: Mac) -> Result<()> {
    let Some(link) = &mut wiring.link else { return Ok(()) };
    match &link.kind {
        LinkKind::Vlan(_) | LinkKind::Device(_) | LinkKind::Dummy => {
            wiring.tuning.get_or_insert_default().mac = Some(mac);
        }
        LinkKind::Ipvlan(_) => {
            return Err(Error::invalid(format!(
                "\"mac\" is {mac}, but an ipvlan has the hardware address of its parent"
            )));
        }
        LinkKind::Loopback | LinkKind::Chain(_) | LinkKind::ExternalInterface(_) => {
            return Err(Error::invalid(format!(
                "\"mac\" is {mac}, but the network leaves no choice of hardware addresses"
            )));
        }
        _ => link.mac = Some(mac),
    }
    Ok(())
}

fn add_tuning(call: &Call<'_>, root: &Object<'_>, wiring: &mut Wiring) -> Result<()> {
    let Some((_, ifname)) = &call.subject else { return Ok(()) };
    let tuning = Tuning {
        sysctls: tuning::sysctls(call, ifname)?,
        promiscuous: root.maybe("promisc")?.filter(|on| *on),
        all_multicast: root.maybe("allmulti")?.filter(|on| *on),
        tx_queue: tuning::queue(root)?,
        ..wiring.tuning.take().unwrap_or_default()
    };
    wiring.tuning = Some(tuning).filter(|tuning| *tuning != Tuning::default());
    Ok(())
}

/// The network's own `bandwidth`, or else the capability of that name.
fn own_limits(call: &Call<'_>, root: &Object<'_>, template: &Wiring) -> Result<Option<Bandwidth>> {
    if let Some(own) = root.object("bandwidth")? {
        return limits(&own, template);
    }
    match call.config.runtime()? {
        Some(runtime) => match runtime.object(capability::BANDWIDTH)? {
            Some(asked) => limits(&asked, template),
            None => Ok(None),
        },
        None => Ok(None),
    }
}

/// The limits in an object, for a link whose packets can be limited.
pub(super) fn limits(asked: &Object<'_>, template: &Wiring) -> Result<Option<Bandwidth>> {
    const FIELDS: [&str; 4] = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];
    let known = |key: &str| FIELDS.iter().any(|field| field.eq_ignore_ascii_case(key));
    if let Some((key, node)) = asked.fields().find(|(key, _)| !known(key)) {
        let (meant, there) = (model::text::meant(key, FIELDS), FIELDS.join(", "));
        let why = format!("but bandwidth has no such option; {meant}it has {there}");
        return Err(Error::unsupported(node.wrong(why).to_string()));
    }
    let limits = bandwidth::of(asked)?;
    match (driver(template), limits) {
        (Some(Driver::Neutron), Some(_)) => Err(Error::invalid(
            "\"bandwidth\" is for drivers bridge and ptp: what a port of Neutron's sends and \
             receives is limited by its QoS policy, \"qosPolicy\" in \"neutron\"",
        )),
        (Some(driver), Some(_)) if !driver.is_pair() => Err(Error::invalid(format!(
            "\"bandwidth\" is for drivers bridge and ptp: one of driver {} has no end in the host \
             whose packets could be limited",
            driver.name()
        ))),
        (_, limits) => Ok(limits),
    }
}

/// `vrf`: its name, or an object with `name` and `table`.
fn vrf(root: &Object<'_>) -> Result<Option<Vrf>> {
    let Some(node) = root.get("vrf") else { return Ok(None) };
    if node.value().is_string() {
        let name = root.parse::<IfName>("vrf")?;
        return Ok(name.map(|name| Vrf { name, table: None }));
    }
    let object = object_of(&node, "which is neither a name nor an object", &["name", "table"])?;
    let name = object.parse("name")?.ok_or_else(|| node.wrong("which has no \"name\""))?;
    Ok(Some(Vrf { name, table: source_routing::table(&object)?.filter(|table| *table != 0) }))
}

/// `sourceRouting`: true, or an object as the configuration of `sbr` is.
fn routing(root: &Object<'_>) -> Result<Option<SourceRouting>> {
    const FIELDS: [&str; 3] = ["table", "gateways", "addSourceHints"];
    let Some(node) = root.get("sourceRouting") else { return Ok(None) };
    if let Some(on) = node.value().as_bool() {
        return Ok(on.then(SourceRouting::default));
    }
    let object = object_of(&node, "which is neither true, false nor an object", &FIELDS)?;
    source_routing::routing(&object).map(Some)
}

/// The object at `node`, which has none but these fields.
pub(super) fn object_of<'a>(
    node: &Node<'a>,
    otherwise: &str,
    fields: &[&str],
) -> Result<Object<'a>> {
    let object = node.object().map_err(|_| node.wrong(otherwise))?;
    let known = |key: &str| fields.iter().any(|field| field.eq_ignore_ascii_case(key));
    if let Some((key, unknown)) = object.fields().find(|(key, _)| !known(key)) {
        let (meant, there) = (model::text::meant(key, fields.iter().copied()), fields.join(", "));
        let why = format!("but there is no such option; {meant}there are {there}");
        return Err(Error::unsupported(unknown.wrong(why).to_string()));
    }
    Ok(object)
}
