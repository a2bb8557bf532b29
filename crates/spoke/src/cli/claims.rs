//! Who on this host claims which subnet: Spoke's networks, and those that Docker, Podman and CNI
//! configurations made without asking.

use std::fmt;
use std::path::Path;

use model::{IpNet, LinkKind, Network};
use serde_json::Value;

use super::World;
use super::facts::{HostFacts, HostRoute};

/// A larger file is no network configuration.
const LARGEST: u64 = 1 << 20;

/// A subnet, and the network that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) subnet: IpNet,
    pub(super) network: String,
    pub(super) owner: Owner,
    pub(super) device: Option<String>,
}

/// Whose a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// In our book.
    Spoke,
    /// Declared in `/etc/cni/net.d`.
    Cni,
    /// Podman's own.
    Podman,
    /// Docker's.
    Docker,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Owner::Spoke => "spoke",
            Owner::Cni => "cni",
            Owner::Podman => "podman",
            Owner::Docker => "docker",
        })
    }
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} network {})", self.subnet, self.owner, self.network)
    }
}

impl Claimed {
    fn is_same_network(&self, other: &Self) -> bool {
        let by_name = self.network == other.network
            && (self.owner == other.owner
                || (self.owner != Owner::Docker && other.owner != Owner::Docker));
        let by_device = self.device.is_some() && self.device == other.device;
        by_name || by_device
    }

    /// The command that removes the network.
    pub(super) fn removal(&self) -> String {
        let name = &self.network;
        match self.owner {
            Owner::Spoke => format!("spoke network rm {name}"),
            Owner::Docker => format!("docker network rm {name}"),
            Owner::Podman | Owner::Cni => format!("podman network rm {name}"),
        }
    }
}

/// Every subnet that a container network of this host claims.
pub(super) fn claims(world: &World, networks: &[Network], facts: &HostFacts) -> Vec<Claimed> {
    let mut claims = ours(networks);
    claims.extend(declared(&world.root.join("etc/cni/net.d"), Owner::Cni));
    claims.extend(declared(&world.root.join("etc/containers/networks"), Owner::Podman));
    claims.extend(dockers(facts));
    claims
}

fn ours(networks: &[Network]) -> Vec<Claimed> {
    let claims_of = |network: &Network| {
        let device = device(network);
        let subnets = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
        let claim = move |subnet: IpNet| Claimed {
            subnet: subnet.trunc(),
            network: network.name.to_string(),
            owner: Owner::Spoke,
            device: device.clone(),
        };
        subnets.map(|range| claim(range.subnet)).collect::<Vec<_>>()
    };
    networks.iter().flat_map(claims_of).collect()
}

/// The network's bridge.
pub(super) fn device(network: &Network) -> Option<String> {
    match &network.wiring.link.as_ref()?.kind {
        LinkKind::Bridge(bridge) => Some(bridge.name.to_string()),
        LinkKind::Ptp(_) | LinkKind::Loopback => None,
    }
}

/// Docker's bridges have its own names, and the subnets that are routed to them.
fn dockers(facts: &HostFacts) -> Vec<Claimed> {
    let claim = |route: &HostRoute| {
        let id = route.device.strip_prefix("br-").filter(|id| is_docker_id(id));
        let network = match id {
            Some(id) => id,
            None if route.device == "docker0" => "bridge",
            None => return None,
        };
        Some(Claimed {
            subnet: route.dst,
            network: network.to_owned(),
            owner: Owner::Docker,
            device: Some(route.device.clone()),
        })
    };
    let is_local = |route: &&HostRoute| match route.dst {
        IpNet::V4(_) => true,
        IpNet::V6(net) => !net.addr().is_unicast_link_local() && !net.addr().is_multicast(),
    };
    facts.routes.iter().filter(is_local).filter_map(claim).collect()
}

fn is_docker_id(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What the configuration files of a directory declare. A file that cannot be read declares
/// nothing.
fn declared(directory: &Path, owner: Owner) -> Vec<Claimed> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_config = |path: &Path| {
        path.extension().is_some_and(|e| e == "conflist" || e == "conf" || e == "json")
    };
    let files = paths.iter().filter(|path| is_config(path));
    files.filter_map(|path| read_json(path)).flat_map(|config| subnets(&config, owner)).collect()
}

/// The JSON in a small file.
pub(super) fn read_json(path: &Path) -> Option<Value> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Podman's `subnets` and `network_interface`; CNI's `ipam` in each plugin, or of the only one.
fn subnets(config: &Value, owner: Owner) -> Vec<Claimed> {
    let Some(network) = config.get("name").and_then(Value::as_str) else { return Vec::new() };
    let plugins = config.get("plugins").and_then(Value::as_array);
    let plugins: Vec<&Value> = plugins.map_or_else(|| vec![config], |list| list.iter().collect());
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let device = text(config, "network_interface")
        .or_else(|| plugins.iter().find_map(|plugin| text(plugin, "bridge")));
    let mut found: Vec<&Value> = Vec::new();
    found.extend(config.get("subnets").and_then(Value::as_array).into_iter().flatten());
    for ipam in plugins.iter().filter_map(|plugin| plugin.get("ipam")) {
        found.push(ipam);
        let sets = ipam.get("ranges").and_then(Value::as_array).into_iter().flatten();
        found.extend(sets.filter_map(Value::as_array).flatten());
    }
    let subnets = found.iter().filter_map(|value| text(value, "subnet")?.parse::<IpNet>().ok());
    let claim = |subnet: IpNet| Claimed {
        subnet: subnet.trunc(),
        network: network.to_owned(),
        owner,
        device: device.clone(),
    };
    subnets.map(claim).collect()
}

/// Whether the two share an address.
pub(super) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Pairs of different networks whose subnets overlap.
pub(super) fn clashes(claims: &[Claimed]) -> Vec<(&Claimed, &Claimed)> {
    let mut pairs = Vec::new();
    for (at, one) in claims.iter().enumerate() {
        let later = claims.iter().skip(at + 1);
        let clash =
            |other: &&Claimed| overlap(&one.subnet, &other.subnet) && !one.is_same_network(other);
        pairs.extend(later.filter(clash).map(|other| (one, other)));
    }
    pairs
}

/// Routes of this host, to somewhere else than container networks, that `subnet` would hide.
pub(super) fn hidden_routes<'a>(
    subnet: &IpNet,
    own_device: Option<&str>,
    facts: &'a HostFacts,
) -> Vec<&'a HostRoute> {
    let is_hidden = |route: &&HostRoute| {
        let is_default = route.dst.prefix_len() == 0;
        let is_one_host = route.dst.prefix_len() == route.dst.max_prefix_len();
        !is_default
            && !is_one_host
            && own_device != Some(route.device.as_str())
            && overlap(&route.dst, subnet)
    };
    facts.routes.iter().filter(is_hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_podman_and_cni_declare() {
        let netavark = serde_json::json!({
            "name": "p", "network_interface": "podman1", "subnets": [{"subnet": "10.89.0.0/24"}]
        });
        let cni = serde_json::json!({"name": "c", "plugins": [
            {"type": "bridge", "bridge": "cni0", "ipam": {
                "subnet": "10.1.0.0/24", "ranges": [[{"subnet": "10.2.0.0/24"}], [{"subnet": 5}]]
            }},
            {"type": "portmap"},
        ]});
        let shown = |config, owner| {
            subnets(config, owner).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(shown(&netavark, Owner::Podman), ["10.89.0.0/24 (podman network p)"]);
        assert_eq!(
            shown(&cni, Owner::Cni),
            ["10.1.0.0/24 (cni network c)", "10.2.0.0/24 (cni network c)"]
        );
        assert_eq!(subnets(&cni, Owner::Cni)[0].device.as_deref(), Some("cni0"));
        assert!(subnets(&serde_json::json!([1]), Owner::Cni).is_empty());
    }

    #[test]
    fn a_network_does_not_clash_with_itself() {
        let claim = |subnet: &str, network: &str, owner, device: &str| Claimed {
            subnet: subnet.parse().unwrap(),
            network: network.to_owned(),
            owner,
            device: Some(device.to_owned()),
        };
        let claims = [
            claim("10.1.0.0/24", "podman", Owner::Spoke, "cni-podman0"),
            claim("10.1.0.0/16", "podman", Owner::Cni, "cni-podman0"),
            claim("10.1.0.0/24", "bridge", Owner::Docker, "docker0"),
        ];
        assert_eq!(clashes(&claims).len(), 2);
    }
}
