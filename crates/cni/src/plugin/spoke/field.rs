//! Which fields there are, and which of them each driver has, by the table of options. What a driver
//! does not have is an error: a field that did nothing would be believed.

use model::text::meant;
use model::{Error, Fence, Passage, Result, Sources};
use spec::{Driver, FrontEnd, HOSTS, NetworkOption, NetworkSpec, Value, options};

use crate::plugin::firewall;
use crate::wire::{Node, Object};

const FRONT: FrontEnd = FrontEnd::Cni;

/// Those of them that apply to one container, and so are allowed for a network that is joined.
const PERSONAL: [&str; 8] =
    ["allmulti", "bandwidth", "mac", "promisc", "sourceRouting", "sysctl", "txQLen", "vrf"];

/// The fields that any plugin gets, and the names of networks to join.
const COMMON: [&str; 10] = [
    "args",
    "capabilities",
    "cniVersion",
    "name",
    "network",
    "networks",
    "prevResult",
    "runtimeConfig",
    "sysctl",
    "type",
];

/// Whether the field describes a network, rather than one container's part in it.
pub(super) fn describes(key: &str) -> bool {
    of(key).is_some() && !is_one_of(key, &PERSONAL)
}

/// Whether the field applies to one container, or is of any plugin, and says nothing of a network.
pub(super) fn is_personal(key: &str) -> bool {
    let is_common = is_one_of(key, &COMMON) && !is_one_of(key, &["network", "networks"]);
    is_common || is_one_of(key, &PERSONAL) || key.starts_with("cni.dev/")
}

/// Refuses what no driver has.
pub(super) fn refuse_unknown(root: &Object<'_>) -> Result<()> {
    let known =
        |key: &str| of(key).is_some() || is_one_of(key, &COMMON) || key.starts_with("cni.dev/");
    match root.fields().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((key, node)) => {
            let mut accepted: Vec<&str> =
                options(FRONT).flat_map(|option| option.cni).copied().collect();
            accepted.extend(["network", "networks", "sysctl"]);
            accepted.sort_unstable();
            let meant = meant(key, accepted.iter().copied().chain(COMMON));
            let accepted = accepted.join(", ");
            let wrong =
                node.wrong(format!("but type spoke has no such option; {meant}it has {accepted}"));
            Err(Error::unsupported(wrong.to_string()))
        }
    }
}

/// The fields by which a network, or a container on it, is reached or reaches others less, sorted: options of the table
/// that say so, and fields that are read beside it.
pub(super) fn closing() -> Vec<&'static str> {
    let options = options(FRONT).filter(|option| option.keeps_from().is_some());
    let mut names: Vec<&str> = options.flat_map(|option| option.cni).copied().collect();
    names.extend([HOSTS, "macspoofchk", "network", "networks"]);
    names.sort_unstable();
    names
}

/// Refuses `null` where a field that is absent would leave containers open: its author has not decided.
pub(super) fn refuse_null(object: &Object<'_>, keys: &[&str]) -> Result<()> {
    match keys.iter().find_map(|key| object.null(key)) {
        None => Ok(()),
        Some(node) => Err(node.wrong("which says nothing: give it a value, or leave it out")),
    }
}

/// Refuses what `driver` does not have, unless it says that it is off.
pub(super) fn refuse_senseless(root: &Object<'_>, driver: Driver) -> Result<()> {
    let is_senseless = |key: &str, node: &Node<'_>| {
        of(key).is_some_and(|option| !option.is_of(driver)) && !is_off(node)
    };
    match root.fields().find(|(key, node)| is_senseless(key, node)) {
        None => Ok(()),
        Some((key, node)) => {
            let has = |driver: &&Driver| of(key).is_some_and(|option| option.is_of(**driver));
            let names: Vec<&str> =
                Driver::CNI.iter().filter(has).map(|driver| driver.name()).collect();
            Err(node.wrong(format!(
                "but driver {} has no such option; {} {}",
                driver.name(),
                if names.len() == 1 { "it is of driver" } else { "it is of drivers" },
                names.join(", ")
            )))
        }
    }
}

/// The options that mean the same to every front end. Fields of the reference plugins are read with
/// their link, as the reference reads them.
pub(super) fn spec(root: &Object<'_>) -> Result<NetworkSpec> {
    let mut spec = NetworkSpec::default();
    for option in options(FRONT) {
        let Some(node) = option.cni.iter().find_map(|name| root.get(name)) else { continue };
        match option.value {
            Value::Flag(slot) => *slot(&mut spec) = Some(node.flag()?),
            Value::Not(slot) => *slot(&mut spec) = Some(!node.flag()?),
            Value::SourceV4(slot) => {
                let source = Sources::read_v4(node.text()?);
                *slot(&mut spec) = Some(source.ok_or_else(|| is_not(&node, Sources::V4))?);
            }
            Value::SourceV6(slot) => {
                let source = Sources::read_v6(node.text()?);
                *slot(&mut spec) = Some(source.ok_or_else(|| is_not(&node, Sources::V6))?);
            }
            Value::Trusted(slot) => {
                let devices = node.list()?.iter().map(Node::parse).collect::<Result<_>>()?;
                *slot(&mut spec) = Some(Passage::trusting(devices));
            }
            Value::Fence(slot) => *slot(&mut spec) = Some(recorded_fence(&node)?),
            Value::Via(_) | Value::Source(_) => {
                let put = option.value.put(&mut spec, node.text()?);
                if !put.map_err(|why| node.wrong(format!("but {why}")))? {
                    return Err(node.wrong("and another field says otherwise".to_owned()));
                }
            }
            Value::AddressSpace(slot) => *slot(&mut spec) = Some(node.parse()?),
            // The reference takes an empty text for `open`, too.
            Value::Ingress(slot, _) => *slot(&mut spec) = firewall::ingress(root)?,
            Value::Own
            | Value::Number(_)
            | Value::Mtu(_)
            | Value::Vlan(_)
            | Value::Device(_)
            | Value::Network(_)
            | Value::Reach(..) => {}
        }
    }
    Ok(spec)
}

/// Rules in a list, or between commas.
pub(super) fn fence(node: &Node<'_>) -> Result<Fence> {
    rules(node)?.parse().map_err(|error| node.wrong(format!("but {error}")))
}

/// The same of a file that an earlier version has read already ([`Fence::recorded`]): a list is not made by a command, and
/// comes with every container.
pub(super) fn recorded_fence(node: &Node<'_>) -> Result<Fence> {
    Fence::recorded(&rules(node)?).map_err(|error| node.wrong(format!("but {error}")))
}

fn rules(node: &Node<'_>) -> Result<String> {
    Ok(match node.value().is_array() {
        true => {
            let rules = node.list()?;
            let texts: Vec<&str> = rules.iter().map(Node::text).collect::<Result<_>>()?;
            if texts.is_empty() { "none".to_owned() } else { texts.join(",") }
        }
        false => node.text()?.to_owned(),
    })
}

fn is_not(node: &Node<'_>, what: &str) -> Error {
    node.wrong(format!("which is not {what}"))
}

fn is_off(node: &Node<'_>) -> bool {
    let value = node.value();
    value.as_bool() == Some(false)
        || value.as_i64() == Some(0)
        || value.as_str().is_some_and(str::is_empty)
}

/// Names are looked up without regard to case.
fn of(key: &str) -> Option<&'static NetworkOption> {
    options(FRONT).find(|option| is_one_of(key, option.cni))
}

fn is_one_of(key: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(key))
}
