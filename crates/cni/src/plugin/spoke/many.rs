//! A network of many hosts: `"hosts": "all"`. The first ADD or STATUS of any host has the daemon declare it under the
//! list's name; from then on containers join it as it was made, and the daemon is not asked.

use std::collections::BTreeMap;

use model::{EngineKind, Error, IpNet, Network, Result};
use spec::{FrontEnd, HOSTS, ManyHosts, ManyHostsSpec};

use super::field;
use crate::call::Call;
use crate::plugin::joined;
use crate::wire::{Command, Node, Object};

/// The subnets, one of each family at most; chosen where none is named.
const SUBNET: &str = "subnet";

/// The network that the configuration asks for on many hosts; `None` where it is one of this host's.
pub(super) fn network(call: &Call<'_>, root: &Object<'_>) -> Result<Option<Network>> {
    if root.get(HOSTS).is_none() {
        return Ok(None);
    }
    let has = |key: &str| {
        spec::is_of_many_hosts(FrontEnd::Cni, key)
            || key.eq_ignore_ascii_case(SUBNET)
            || field::is_personal(key)
    };
    if let Some((_, node)) = root.fields().find(|(key, _)| !has(key)) {
        let why = format!("but {}", spec::lacks(&format!("\"{HOSTS}\"")));
        return Err(Error::unsupported(node.wrong(why).to_string()));
    }
    let name = call.config.name();
    match call.command {
        Command::Add | Command::Status => {
            let network = (call.context.share)(&wanted(call, root)?)?;
            let elsewhere = || {
                Error::not_found(format!(
                    "network {name} is on other hosts of the cluster, and not on this one (\"{HOSTS}\")"
                ))
            };
            network.ok_or_else(elsewhere).map(Some)
        }
        Command::Check | Command::Del | Command::Gc | Command::Version => {
            joined::named(call, name).map(Some)
        }
    }
}

fn wanted(call: &Call<'_>, root: &Object<'_>) -> Result<ManyHosts> {
    let mut options = BTreeMap::new();
    for (key, node) in root.fields().filter(|(key, _)| !field::is_personal(key)) {
        options.insert(key.to_ascii_lowercase(), text(&node)?);
    }
    let subnets = options.remove(SUBNET).unwrap_or_default();
    let subnets = subnets.split(',').filter(|text| !text.is_empty());
    let subnet = |text: &str| {
        let net = text.parse::<IpNet>();
        net.map_err(|_| Error::invalid(format!("\"{SUBNET}\" {text:?} is no subnet")))
    };
    let spec = ManyHostsSpec::take(&mut options, EngineKind::Cni)?;
    let spec = spec.ok_or_else(|| Error::bug(format!("a network without \"{HOSTS}\"")))?;
    let rules = field::spec(root)?.shared_rules();
    let spec = ManyHostsSpec { rules, ..spec };
    Ok(ManyHosts {
        name: call.config.name().clone(),
        subnets: subnets.map(subnet).collect::<Result<_>>()?,
        ipv6: false,
        spec,
    })
}

/// A text, a truth value, or texts in a list as others have them between commas.
fn text(node: &Node<'_>) -> Result<String> {
    match node.value() {
        value if value.is_array() => {
            let nodes = node.list()?;
            let texts: Vec<&str> = nodes.iter().map(Node::text).collect::<Result<_>>()?;
            Ok(texts.join(","))
        }
        value if value.is_boolean() => Ok(node.flag()?.to_string()),
        _ => node.text().map(str::to_owned),
    }
}
