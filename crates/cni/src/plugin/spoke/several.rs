//! Several networks in one call: `"networks": ["front", {"name": "back", "ifname": "net1"}]`.

use std::net::IpAddr;

use model::{Error, IfName, LinkKind, Mac, Network, NetworkName, Result, Wiring};

use super::{extras, field, join, own_fence};
use crate::call::Call;
use crate::plugin::Plan;
use crate::plugin::joined::{described, named_among};
use crate::source;
use crate::wire::{Command, Node, Object};

/// The fields of an entry.
const FIELDS: [&str; 7] = ["name", "ifname", "mac", "ips", "bandwidth", "egress", "egressStrict"];

/// One entry of `networks`.
struct Entry<'a> {
    name: NetworkName,
    ifname: Option<IfName>,
    mac: Option<Mac>,
    ips: Vec<IpAddr>,
    /// Where it was read, for limits of its own.
    object: Option<Object<'a>>,
}

/// The networks that `networks` names, the first one as the call's own. `describing` are the fields
/// that would describe one.
pub(super) fn plan(
    call: &Call<'_>,
    root: &Object<'_>,
    describing: impl Fn(&str) -> bool,
) -> Result<Option<Plan>> {
    let Some(node) = root.get("networks") else { return Ok(None) };
    if let Some(other) = described(root, |key| describing(key) || key == "network") {
        let why = "but \"networks\" names networks, which are joined as they were made";
        return Err(Error::invalid(other.wrong(why).to_string()));
    }
    let is_leaving = matches!(call.command, Command::Del | Command::Gc);
    let entries = node.list()?;
    let entries = entries.iter().map(|node| entry(node, is_leaving)).collect::<Result<Vec<_>>>()?;
    if entries.is_empty() {
        return Err(node.wrong("which names no network"));
    }
    let names = names(call, &entries)?;
    let mut plans = Vec::with_capacity(entries.len());
    for (place, (entry, ifname)) in entries.iter().zip(names).enumerate() {
        match named_among(call, &entry.name, ifname.as_ref()) {
            Ok(network) => plans.push(of_entry(call, network, entry, (ifname, place == 0))?),
            // The store has the attachments of a network that is gone.
            Err(_) if call.command == Command::Del => {}
            Err(error) => return Err(error),
        }
    }
    claim_wanted(call, &entries, &mut plans)?;
    publish(call, &mut plans)?;
    let mut plans = plans.into_iter();
    let Some(first) = plans.next() else {
        return Err(Error::not_found("none of the \"networks\" is known"));
    };
    Ok(Some(Plan { further: plans.collect(), ..first }))
}

fn entry<'a>(node: &Node<'a>, is_leaving: bool) -> Result<Entry<'a>> {
    if node.value().is_string() {
        return Ok(Entry {
            name: node.parse()?,
            ifname: None,
            mac: None,
            ips: Vec::new(),
            object: None,
        });
    }
    let object = node.object().map_err(|_| node.wrong("which is neither a name nor an object"))?;
    if !is_leaving {
        field::refuse_null(&object, &field::closing())?;
    }
    let known = |key: &str| FIELDS.iter().any(|field| field.eq_ignore_ascii_case(key));
    if let Some((key, unknown)) = object.fields().find(|(key, _)| !known(key)) {
        let (meant, there) = (model::text::meant(key, FIELDS), FIELDS.join(", "));
        let why = format!("but a network to join has no such option; {meant}it has {there}");
        return Err(Error::unsupported(unknown.wrong(why).to_string()));
    }
    let name = object.parse("name")?.ok_or_else(|| node.wrong("which has no \"name\""))?;
    let address = |node: &Node<'_>| {
        source::bare(node.text()?).ok_or_else(|| node.wrong("which is not an IP address"))
    };
    Ok(Entry {
        name,
        ifname: object.parse("ifname")?,
        mac: object.parse("mac")?,
        ips: object.list("ips")?.iter().map(address).collect::<Result<_>>()?,
        object: Some(object),
    })
}

/// The names of the interfaces: the first as the runtime says, the others as their entries say, or
/// `net1`, `net2` and so on.
fn names(call: &Call<'_>, entries: &[Entry<'_>]) -> Result<Vec<Option<IfName>>> {
    let Some((_, own)) = &call.subject else { return Ok(vec![None; entries.len()]) };
    let mut names: Vec<IfName> = Vec::with_capacity(entries.len());
    let is_named = |name: &IfName| entries.iter().any(|entry| entry.ifname.as_ref() == Some(name));
    for (place, entry) in entries.iter().enumerate() {
        let name = match (&entry.ifname, place) {
            (Some(name), 0) if name != own => {
                return Err(Error::invalid(format!(
                    "\"networks[0].ifname\" is {name}, but the interface on the first network is \
                     the runtime's, {own}"
                )));
            }
            (_, 0) => own.clone(),
            (Some(name), _) => name.clone(),
            (None, _) => usual(|name| names.contains(name) || name == own || is_named(name))?,
        };
        if names.contains(&name) {
            return Err(Error::invalid(format!(
                "\"networks[{place}].ifname\" is {name}, which another of the networks has"
            )));
        }
        names.push(name);
    }
    Ok(names.into_iter().map(Some).collect())
}

fn usual(is_taken: impl Fn(&IfName) -> bool) -> Result<IfName> {
    let mut names = (1_u32..).map(|number| format!("net{number}").parse::<IfName>());
    let free = names.find(|name| name.as_ref().is_ok_and(|name| !is_taken(name)));
    free.unwrap_or_else(|| Err(Error::bug("no name is left")))
}

fn of_entry(
    call: &Call<'_>,
    network: Network,
    entry: &Entry<'_>,
    (ifname, is_first): (Option<IfName>, bool),
) -> Result<Plan> {
    let mut plan = match is_first {
        true => join::first(call, network)?,
        false => join::further(network),
    };
    plan.ifname = ifname;
    plan.source.wanted.clone_from(&entry.ips);
    if let Some(mac) = entry.mac {
        extras::set_mac(&mut plan.wiring, mac)?;
    }
    // What the runtime says of the container holds on each of its networks, whatever their entries say.
    plan.wiring.own_fence = own_fence::of(call, entry.object.as_ref())?;
    let limits = entry.object.as_ref().map(|object| object.object("bandwidth")).transpose()?;
    if let Some(limits) = limits.flatten() {
        plan.wiring.bandwidth = extras::limits(&limits, &plan.wiring)?;
    }
    Ok(plan)
}

/// The addresses that the runtime wants, each on the first network that has it.
fn claim_wanted(call: &Call<'_>, entries: &[Entry<'_>], plans: &mut [Plan]) -> Result<()> {
    for address in source::wanted(call)? {
        if entries.iter().any(|entry| entry.ips.contains(&address)) {
            continue;
        }
        let has = |plan: &&Plan| {
            let ipam = &plan.source.ipam;
            let given = ipam.remote().into_iter().flat_map(|remote| &remote.pools);
            let nets = given.filter_map(|pool| pool.given.as_ref()).map(|given| given.net);
            ipam.pools().iter().any(|pool| pool.range_of(address).is_some())
                || nets.into_iter().any(|net| net.contains(&address))
        };
        let by_pool = plans.iter().position(|plan| has(&plan));
        // An address that a third party chooses is known only there.
        let place = by_pool.or_else(|| plans.iter().position(|plan| is_elsewhere(&plan.template)));
        match place.and_then(|place| plans.get_mut(place)) {
            Some(plan) => plan.source.wanted.push(address),
            None if call.command != Command::Add => {}
            None => {
                return Err(Error::invalid(format!(
                    "requested address {address} is in no range of the \"networks\""
                )));
            }
        }
    }
    Ok(())
}

/// A port of the host leads to one interface: that on the first network which can have any.
fn publish(call: &Call<'_>, plans: &mut [Plan]) -> Result<()> {
    let can = |plan: &Plan| {
        let has_ports = plan.template.link.as_ref().is_some_and(|link| link.kind.has_ports());
        has_ports && plan.template.address_space.is_none()
    };
    let place = plans.iter().position(can).unwrap_or_default();
    if let Some(plan) = plans.get_mut(place) {
        plan.wiring.publish = extras::publish(call, &plan.template)?;
    }
    Ok(())
}

/// Whether a cloud or a Docker plugin makes the link.
fn is_elsewhere(template: &Wiring) -> bool {
    matches!(
        template.link.as_ref().map(|link| &link.kind),
        Some(LinkKind::Neutron(_) | LinkKind::Remote(_))
    )
}
