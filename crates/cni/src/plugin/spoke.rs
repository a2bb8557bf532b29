//! `spoke`: address, masquerade, ports, firewall and sysctls in one entry and one process.
//!
//! Its fields are those of `bridge`, `portmap`, `firewall` and `tuning` that make sense together,
//! with defaults for containers that reach the world. Unlike theirs, an unknown field is an error.

use model::{
    Backend, Error, Firewall, Gateway, IngressPolicy, Link, LinkKind, Masquerade, Network, Result,
    Space, Tuning, Wiring,
};

use super::joined::joined;
use super::{Call, Plan, bridge, firewall, link, portmap, tuning};
use crate::source::{self, Source};
use crate::wire::Object;

/// The fields that describe a network.
const OWN: [&str; 14] = [
    "backend",
    "bridge",
    "forceAddress",
    "hairpinMode",
    "ingressPolicy",
    "ipMasq",
    "isDefaultGateway",
    "isGateway",
    "masqAll",
    "mtu",
    "promiscMode",
    "snat",
    "sticky",
    "sysctl",
];

/// The fields that any plugin gets, and the name of a network to join.
const COMMON: [&str; 10] = [
    "args",
    "capabilities",
    "cniVersion",
    "dns",
    "ipam",
    "name",
    "network",
    "prevResult",
    "runtimeConfig",
    "type",
];

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    refuse_unknown(&root)?;
    let describes = |key: &str| is_one_of(key, &OWN) || is_one_of(key, &["ipam", "dns"]);
    if let Some(network) = joined(call, &root, describes)? {
        return join(call, network);
    }
    let backend = backend(call, &root)?;
    let mut bridge = bridge::bridge(&root, model::bridge_name(call.config.name())?.as_str())?;
    bridge.gateway = gateway(&root)?;
    let (name, gateway) = (bridge.name.clone(), bridge.gateway);
    let mut source = source(call, link::space(call, gateway))?;
    if gateway != Gateway::None {
        source.name_gateways();
    }
    let masquerade = root.maybe("ipMasq")?.unwrap_or(gateway == Gateway::Default);
    let ingress = firewall::ingress(&root)?.unwrap_or(IngressPolicy::Open);
    let template = Wiring {
        link: Some(Link {
            kind: LinkKind::Bridge(bridge),
            name: None,
            mac: None,
            mtu: link::mtu(&root)?,
        }),
        masquerade: masquerade.then_some(Masquerade { backend }),
        firewall: Some(Firewall {
            backend,
            ingress,
            egress: model::EgressPolicy::Open,
            bridge: Some(name),
            admin_chain: None,
        }),
        ..Wiring::default()
    };
    let wiring = of_container(call, &template)?;
    let sticky = root.flag("sticky")?;
    Ok(Plan { template, wiring, source, sticky, note: bandwidth(call)?, ..Plan::default() })
}

/// Joins a network as it was made.
fn join(call: &Call<'_>, network: Network) -> Result<Plan> {
    let wiring = of_container(call, &network.wiring)?;
    let wanted = source::wanted(call)?;
    let source = Source { ipam: network.ipam, routes: network.routes, dns: network.dns, wanted };
    Ok(Plan {
        network: Some(network.name),
        template: network.wiring,
        wiring,
        source,
        sticky: network.sticky,
        note: bandwidth(call)?,
        ..Plan::default()
    })
}

/// The network's wiring with what one container asks for.
fn of_container(call: &Call<'_>, template: &Wiring) -> Result<Wiring> {
    let mut wiring = bridge::with_mac(call, template)?;
    let mut publish = portmap::publish(call, "backend")?;
    let bridge = template.link.as_ref().and_then(|link| link.kind.bridge());
    publish.behind = bridge.map(|bridge| bridge.name.clone());
    if let Some(of_network) = &template.publish {
        publish.reach = of_network.reach;
    }
    wiring.publish = Some(publish).filter(|publish| !publish.ports.is_empty());
    wiring.tuning = own_tuning(call)?;
    Ok(wiring)
}

fn refuse_unknown(root: &Object<'_>) -> Result<()> {
    let known =
        |key: &str| is_one_of(key, &OWN) || is_one_of(key, &COMMON) || key.starts_with("cni.dev/");
    match root.fields().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((_, node)) => {
            let accepted = OWN.join(", ");
            let wrong = node.wrong(format!("but type spoke has no such option; it has {accepted}"));
            Err(Error::unsupported(wrong.to_string()))
        }
    }
}

/// Names are looked up without regard to case.
fn is_one_of(key: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(key))
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

/// The default route of its containers, unless the configuration says otherwise.
fn gateway(root: &Object<'_>) -> Result<Gateway> {
    let is_gateway = root.maybe("isGateway")?.unwrap_or(true);
    Ok(match root.maybe("isDefaultGateway")?.unwrap_or(is_gateway) {
        true => Gateway::Default,
        false if is_gateway => Gateway::Address,
        false => Gateway::None,
    })
}

/// Without a `type`, `ipam` is in the form of `host-local` and the book alone keeps it.
fn source(call: &Call<'_>, space: Space) -> Result<Source> {
    let ipam = call.config.root().object("ipam")?;
    match ipam {
        Some(ipam) if ipam.text("type")?.is_none() => {
            let mut source = source::book(call, &ipam, space)?;
            let dns = crate::wire::parse_dns(&call.config.root(), "dns")?;
            if dns != model::Dns::default() {
                source.dns = dns;
            }
            Ok(source)
        }
        _ => source::load(call, space),
    }
}

fn own_tuning(call: &Call<'_>) -> Result<Option<Tuning>> {
    let Some((_, ifname)) = &call.subject else { return Ok(None) };
    let sysctls = tuning::sysctls(call, ifname)?;
    Ok((!sysctls.is_empty()).then(|| Tuning { sysctls, ..Tuning::default() }))
}

/// The capability `bandwidth` is taken, but nothing is shaped.
fn bandwidth(call: &Call<'_>) -> Result<Option<String>> {
    let Some(runtime) = call.config.runtime()? else { return Ok(None) };
    let Some(bandwidth) = runtime.object("bandwidth")? else { return Ok(None) };
    let asked = ["ingressRate", "egressRate"];
    for node in asked.iter().filter_map(|key| bandwidth.get(key)) {
        if node.integer()? != 0 {
            let wrong = node.wrong("but type spoke does not limit bandwidth; it is ignored");
            return Ok(Some(wrong.to_string()));
        }
    }
    Ok(None)
}
