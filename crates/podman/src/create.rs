//! `create`: a network is checked and completed. Nothing is changed: Podman may still refuse it.

use engine::{Occupancy, check_subnet};
use model::{
    Error, Family, IfName, IpNet, LABEL_PREFIX, LinkKind, Network, NetworkName, Result, Runtime,
    Space, overlap,
};
use serde_json::{Value, json};
use spec::{KindSpec, NetworkSpec, Source};

use crate::context::Context;
use crate::describe::gateway_of;
use crate::option::Spec;
use crate::wire::{NetworkConfig, SubnetConfig};
use crate::{DRIVER, describe, join};

/// The document, completed with what Podman omitted.
pub(crate) fn create(mut document: Value, context: &Context<'_>) -> Result<Value> {
    note_labels(&mut document);
    let config = &NetworkConfig::read(&document)?;
    let network = match Spec::read(config)? {
        Spec::Join(name) => {
            if config.internal {
                return Err(Error::invalid(format!(
                    "-o network={name} joins that network as it was made; leave out --internal"
                )));
            }
            let network = join::network(config, &name, context)?;
            document["internal"] = json!(network.wiring.is_internal());
            if !network.wiring.chooses_addresses() {
                document["subnets"] = subnets_of(&network);
            }
            network
        }
        Spec::New(spec) => {
            refuse_known(&config.name, context)?;
            document["subnets"] = subnets(config, &spec, context)?;
            let network =
                describe::network(&NetworkConfig::read(&document)?, &spec, context.site())?;
            context.engine.records.refuse_described(&network)?;
            refuse_shared_bridge(&network, context)?;
            if matches!(spec.kind, Some(KindSpec::Neutron(_) | KindSpec::Ovs(_))) {
                context.engine.attachments.status(&network)?;
            }
            network
        }
    };
    complete(&mut document, config, &network);
    Ok(document)
}

/// Podman sends its labels (`--label`) only here, and its options with every call.
fn note_labels(document: &mut Value) {
    let joins = document["options"].get("network").is_some();
    let Some(labels) = document["labels"].as_object().filter(|_| !joins).cloned() else { return };
    for (key, value) in labels.iter().filter(|(_, value)| value.is_string()) {
        let option = format!("{LABEL_PREFIX}{key}");
        if document["options"].is_null() {
            document["options"] = json!({});
        }
        if let Some(options) = document["options"].as_object_mut() {
            options.entry(option).or_insert_with(|| value.clone());
        }
    }
}

/// The fields that Podman shows of the network, and those that keep it from choosing addresses
/// itself.
fn complete(document: &mut Value, config: &NetworkConfig, network: &Network) {
    if let Some(device) = device(network) {
        document["network_interface"] = json!(device);
    }
    let is_v6 = |pool: &model::Pool| pool.ranges.iter().any(|r| r.subnet.addr().is_ipv6());
    let is_v6 = network.ipam.pools().iter().any(is_v6)
        || network.ipam.remote().is_some_and(|_| network.ipam.families().contains(&Family::V6));
    if is_v6 {
        document["ipv6_enabled"] = json!(true);
    }
    if document["subnets"].as_array().is_some_and(Vec::is_empty) {
        document["subnets"] = Value::Null;
    }
    let driver = match &network.ipam {
        model::Ipam::None if !network.wiring.chooses_addresses() => "none",
        model::Ipam::Dhcp(_) => "dhcp",
        model::Ipam::None
        | model::Ipam::Book { .. }
        | model::Ipam::HostLocal { .. }
        | model::Ipam::Fixed { .. }
        | model::Ipam::Foreign(_)
        | model::Ipam::Requested { .. }
        | model::Ipam::Remote(_) => DRIVER,
    };
    document["ipam_options"] = json!({"driver": driver});
    // Podman starts its name server for its own bridges only.
    if config.dns_servers().is_empty() {
        document["dns_enabled"] = json!(false);
    }
}

pub(crate) fn device(network: &Network) -> Option<&IfName> {
    match &network.wiring.link.as_ref()?.kind {
        LinkKind::Bridge(bridge) => Some(&bridge.name),
        kind => kind.parent()?.name.as_ref(),
    }
}

/// As the network has them that is joined.
fn subnets_of(network: &Network) -> Value {
    let ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let subnet = |range: &model::Range| {
        json!({
            "subnet": range.subnet, "gateway": range.gateway,
            "lease_range": {"start_ip": range.first, "end_ip": range.last},
        })
    };
    let given = network.ipam.remote().into_iter().flat_map(|remote| &remote.pools);
    let of_plugin = given.filter_map(|pool| pool.given.as_ref()).map(|given| {
        json!({"subnet": given.net, "gateway": given.gateway.map(|gateway| gateway.addr())})
    });
    ranges.map(subnet).chain(of_plugin).collect()
}

/// An existing network of another front end is joined only on request, not by accident. One that
/// Podman had under this name, and that has no attachments, is deleted.
fn refuse_known(name: &NetworkName, context: &Context<'_>) -> Result<()> {
    let has_it = |known: &Network| known.called() == name || known.name == *name;
    let Some(known) = context.engine.records.called(name)?.filter(has_it) else { return Ok(()) };
    if known.runtime == Runtime::Podman && context.engine.records.declared(name)?.is_none() {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "a network named {name} already exists (runtime {}); -o network={name} joins it",
        known.runtime
    )))
}

/// A bridge goes with its network, so no two have one.
fn refuse_shared_bridge(network: &Network, context: &Context<'_>) -> Result<()> {
    let Some(bridge) = network.wiring.bridge() else {
        return Ok(());
    };
    match context.engine.records.on_bridge(&bridge.name, &network.name)? {
        None => Ok(()),
        Some(other) => Err(Error::conflict(format!(
            "-o bridge={}: network {} has this bridge; -o network={} joins it",
            bridge.name, other.name, other.name
        ))),
    }
}

/// The subnets that were asked for, if they are free, or free ones.
fn subnets(config: &NetworkConfig, spec: &NetworkSpec, context: &Context<'_>) -> Result<Value> {
    match spec.source {
        Source::Book => {}
        Source::Dhcp | Source::Nothing => return Ok(json!([])),
        Source::Cloud => return config.subnets().iter().map(reported).collect(),
    }
    let on_parent = spec.kind != Some(KindSpec::Bridge);
    let space = Space::of_networks(spec.address_space.as_ref());
    let occupancy = context.engine.subnets.occupancy_of(&space)?;
    let mut subnets: Vec<SubnetConfig> = Vec::new();
    for of in config.subnets() {
        // As Podman does for its own drivers.
        let of = &SubnetConfig { subnet: of.subnet.trunc(), ..of.clone() };
        check(of, &subnets)?;
        occupancy.refuse_overlap(&of.subnet)?;
        if space == Space::Host {
            refuse_declared(&of.subnet, config, context)?;
        }
        subnets.push(of.clone());
    }
    for family in missing(config, on_parent) {
        if on_parent {
            return Err(Error::invalid(
                "a network on a parent device or a switch has the subnet of that segment: name it \
                 with --subnet, or let a parent's DHCP server choose addresses with -o mode=dhcp",
            ));
        }
        subnets.push(chosen(family, &occupancy, &subnets)?);
    }
    let is_routed = space == Space::Host;
    let rendered: Result<Vec<Value>> = subnets.iter().map(|of| render(of, is_routed)).collect();
    rendered.map(Value::from)
}

/// The store does not have Podman's networks without attachments, and Podman does not compare
/// subnets where a plugin has them.
fn refuse_declared(subnet: &IpNet, config: &NetworkConfig, context: &Context<'_>) -> Result<()> {
    let mut others = context.networks.iter().filter(|other| other.name != config.name);
    let clash = others.find_map(|other| {
        let theirs = other.subnets.iter().find(|theirs| overlap(theirs, subnet));
        theirs.map(|theirs| (other, theirs))
    });
    match clash {
        None => Ok(()),
        Some((other, theirs)) => Err(Error::conflict(format!(
            "subnet {subnet} overlaps {theirs} (Podman network {}); use that network, or another \
             subnet",
            other.name
        ))),
    }
}

/// IPv4 by default, and both where IPv6 is enabled: to name a subnet of it alone does not. On a
/// parent device nothing is added that can be left out.
fn missing(config: &NetworkConfig, on_parent: bool) -> Vec<Family> {
    let has = |family| config.subnets().iter().any(|of| Family::of(&of.subnet) == family);
    let mut missing = Vec::new();
    let is_dual = config.ipv6_enabled && !on_parent && !has(Family::V4);
    if config.subnets().is_empty() || is_dual {
        missing.push(Family::V4);
    }
    if config.ipv6_enabled && !has(Family::V6) {
        missing.push(Family::V6);
    }
    missing
}

fn check(of: &SubnetConfig, before: &[SubnetConfig]) -> Result<()> {
    check_subnet(&of.subnet)?;
    if of.subnet.max_prefix_len() - of.subnet.prefix_len() < 2 {
        let what = format!("subnet {} is too small: it needs 4 addresses", of.subnet);
        return Err(Error::invalid(what));
    }
    match before.iter().find(|other| overlap(&other.subnet, &of.subnet)) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "the subnets {} and {} of the network overlap",
            other.subnet, of.subnet
        ))),
    }
}

fn chosen(family: Family, all: &Occupancy, own: &[SubnetConfig]) -> Result<SubnetConfig> {
    let mut occupancy = all.clone();
    occupancy.avoided.extend(own.iter().map(|of| of.subnet));
    let subnet: IpNet = occupancy.choose(family, None)?;
    Ok(SubnetConfig { subnet, gateway: None, lease_range: None })
}

/// The subnet, so that Podman knows which addresses may be requested. Podman then adds a gateway
/// itself, which no device has.
fn reported(of: &SubnetConfig) -> Result<Value> {
    match of.gateway {
        None => Ok(json!({"subnet": of.subnet})),
        Some(gateway) => Err(Error::invalid(format!(
            "--gateway {gateway}: Neutron decides that for its networks; leave it out"
        ))),
    }
}

/// A subnet with its gateway, where this host routes it.
fn render(of: &SubnetConfig, is_routed: bool) -> Result<Value> {
    let mut rendered = json!({"subnet": of.subnet});
    match of.gateway {
        Some(gateway) if !is_routed => {
            return Err(Error::invalid(format!(
                "--gateway {gateway}: with -o address_space this host is no gateway; leave it out"
            )));
        }
        _ if is_routed => rendered["gateway"] = json!(gateway_of(of)?),
        _ => {}
    }
    if let Some(part) = &of.lease_range {
        rendered["lease_range"] = json!({"start_ip": part.start_ip, "end_ip": part.end_ip});
    }
    Ok(rendered)
}
