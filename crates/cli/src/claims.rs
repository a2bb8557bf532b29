//! The subnets in use on this host: those of Spoke's networks, and those of networks that Docker,
//! Podman and CNI configurations made without Spoke.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use cni::list::{self, Declared};
use host::facts::{HostFacts, HostRoute};
use model::{IpNet, Network, NetworkName, Runtime, overlap, overlapping_pairs};

use crate::context::CommandContext;

/// A subnet, and the network that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) subnet: IpNet,
    pub(super) network: String,
    /// What people call it.
    pub(super) called: String,
    pub(super) owner: Owner,
    pub(super) device: Option<String>,
    /// What a person does to remove the network.
    pub(super) removal: String,
}

/// The owner of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// In Spoke's store.
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
        write!(f, "{} ({})", self.subnet, self.holder())
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

    /// The holder, for messages.
    pub(super) fn holder(&self) -> String {
        format!("{} network {}", self.owner, self.called)
    }
}

/// Every subnet that a container network of this host claims.
pub(super) fn claims(
    context: &CommandContext,
    networks: &[Network],
    facts: &HostFacts,
) -> Vec<Claimed> {
    let described = host::podman_networks::known(&context.root).networks;
    let described: BTreeSet<NetworkName> = described.into_iter().map(|it| it.name).collect();
    let mut claims = ours(networks, &described, facts);
    claims.extend(declared(&context.root.join(host::podman_networks::LISTS), Owner::Cni));
    claims.extend(declared(&context.root.join("etc/containers/networks"), Owner::Podman));
    claims.extend(dockers(facts));
    claims
}

fn ours(
    networks: &[Network],
    described: &BTreeSet<NetworkName>,
    facts: &HostFacts,
) -> Vec<Claimed> {
    let claims_of = |network: &Network| {
        let device = device(network).or_else(|| segment(network, facts));
        let subnets = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
        let claim = move |subnet: IpNet| Claimed {
            subnet: subnet.trunc(),
            network: network.name.to_string(),
            called: network.called().to_string(),
            owner: Owner::Spoke,
            device: device.clone(),
            removal: removal(network, described.contains(&network.name)),
        };
        subnets.map(|range| claim(range.subnet)).collect::<Vec<_>>()
    };
    // What a tenant has is not this host's.
    let routed = networks.iter().filter(|network| network.wiring.address_space.is_none());
    routed.flat_map(claims_of).collect()
}

/// A network in the book is removed where it was made: its runtime would make it again. One that no file of a runtime
/// describes any more, or that came on standard input, is in the book only.
fn removal(network: &Network, is_described: bool) -> String {
    let (name, own) = (network.called(), network.in_commands());
    match network.runtime {
        Runtime::Podman | Runtime::Cni | Runtime::Reference if !is_described => {
            format!("spoke network rm {own}")
        }
        Runtime::Docker => format!("docker network rm {name}"),
        Runtime::Podman => format!("podman network rm {name}"),
        Runtime::Cni | Runtime::Reference => {
            format!(
                "remove the configuration of {name} from /etc/cni/net.d, and then: spoke network rm {own}"
            )
        }
        Runtime::Kurma => format!("remove {name} from Kurma's configuration"),
        Runtime::Spoke => format!("spoke network rm {own}"),
    }
}

/// The network's bridge.
pub(super) fn device(network: &Network) -> Option<String> {
    let bridge = network.wiring.link.as_ref()?.kind.bridge()?;
    Some(bridge.name.to_string())
}

/// The host's device on the network's segment: its subnet is the network's as well, and meant to be.
fn segment(network: &Network, facts: &HostFacts) -> Option<String> {
    let parent = network.wiring.link.as_ref()?.kind.parent()?;
    let name = match &parent.name {
        Some(name) => name.to_string(),
        None => facts.uplink()?.name.clone(),
    };
    Some(parent.vlan.map_or_else(|| name.clone(), |vlan| format!("{name}.{vlan}")))
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
            called: network.to_owned(),
            owner: Owner::Docker,
            device: Some(route.device.clone()),
            removal: format!("docker network rm {network}"),
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

/// The networks that the configuration files of a directory declare.
fn declared(directory: &Path, owner: Owner) -> Vec<Claimed> {
    let claims_of = |network: Declared| {
        let removal = match owner {
            // It can be run as it is: Podman 4 keeps its networks there, too.
            Owner::Cni => format!(
                "rm {}  # or, where Podman made it: podman network rm {}",
                network.path.display(),
                network.name
            ),
            _ => format!("podman network rm {}", network.name),
        };
        let claim = move |subnet: &IpNet| Claimed {
            subnet: *subnet,
            network: network.joins.as_ref().unwrap_or(&network.name).clone(),
            called: network.name.clone(),
            owner,
            device: network.device.clone(),
            removal: removal.clone(),
        };
        network.subnets.iter().map(claim).collect::<Vec<_>>()
    };
    list::declared(directory).into_iter().flat_map(claims_of).collect()
}

/// Pairs of different networks whose subnets overlap. What a runtime declares of a network in the book clashes as that one
/// does: it is no second network to remove.
pub(super) fn clashes(claims: &[Claimed]) -> Vec<(&Claimed, &Claimed)> {
    let subnets: Vec<IpNet> = claims.iter().map(|claim| claim.subnet).collect();
    let pairs = overlapping_pairs(&subnets).into_iter();
    let pairs = pairs.map(|(one, other)| (&claims[one], &claims[other]));
    let booked = |claim: &Claimed| {
        let is_it = |ours: &Claimed| {
            ours.owner == Owner::Spoke && ours.subnet == claim.subnet && ours.is_same_network(claim)
        };
        claim.owner != Owner::Spoke && claims.iter().any(is_it)
    };
    pairs
        .filter(|(one, other)| !one.is_same_network(other) && !booked(one) && !booked(other))
        .collect()
}

/// For each claim that hides routes of this host, the claim and such a route.
pub(super) fn hiding<'a>(
    claims: &'a [Claimed],
    facts: &'a HostFacts,
) -> Vec<(&'a Claimed, &'a HostRoute)> {
    let routes: Vec<&HostRoute> = routed(facts).collect();
    let nets = claims.iter().map(|claim| claim.subnet);
    let nets: Vec<IpNet> = nets.chain(routes.iter().map(|route| route.dst)).collect();
    let hidden = overlapping_pairs(&nets).into_iter().filter_map(|(one, other)| {
        let route = routes.get(other.checked_sub(claims.len())?)?;
        Some((claims.get(one)?, *route))
    });
    hidden.filter(|(claim, route)| claim.device.as_ref() != Some(&route.device)).collect()
}

/// Routes of this host, to somewhere else than container networks, that `subnet` would hide.
pub(super) fn hidden_routes<'a>(
    subnet: &IpNet,
    own_device: Option<&str>,
    facts: &'a HostFacts,
) -> Vec<&'a HostRoute> {
    let is_hidden = |route: &&HostRoute| {
        own_device != Some(route.device.as_str()) && overlap(&route.dst, subnet)
    };
    routed(facts).filter(is_hidden).collect()
}

/// Routes of this host to subnets.
pub(super) fn routed(facts: &HostFacts) -> impl Iterator<Item = &HostRoute> {
    facts.routes.iter().filter(|route| {
        let length = route.dst.prefix_len();
        length > 0 && length < route.dst.max_prefix_len()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use model::{Ipam, Timestamp, Wiring};

    use super::*;

    #[test]
    fn a_network_is_removed_by_the_name_that_the_command_knows() {
        let of = |runtime, is_described| {
            let name = "0123abcd".parse().unwrap();
            let network = Network::new(name, runtime, Timestamp(0), Wiring::default(), Ipam::None);
            removal(&Network { title: "shop".parse().ok(), ..network }, is_described)
        };
        assert_eq!(of(Runtime::Docker, false), "docker network rm shop");
        assert_eq!(of(Runtime::Podman, true), "podman network rm shop");
        assert_eq!(of(Runtime::Spoke, false), "spoke network rm shop");
        for runtime in [Runtime::Podman, Runtime::Cni] {
            assert_eq!(of(runtime, false), "spoke network rm 0123abcd", "{runtime}");
        }
        let of_file = of(Runtime::Cni, true);
        assert!(of_file.contains("of shop from"), "{of_file}");
        assert!(of_file.ends_with(": spoke network rm 0123abcd"), "{of_file}");
    }

    #[test]
    fn a_network_does_not_clash_with_itself() {
        let claim = |subnet: &str, network: &str, owner, device: &str| Claimed {
            subnet: subnet.parse().unwrap(),
            network: network.to_owned(),
            called: network.to_owned(),
            owner,
            device: Some(device.to_owned()),
            removal: String::new(),
        };
        let claims = [
            claim("10.1.0.0/24", "podman", Owner::Spoke, "cni-podman0"),
            claim("10.1.0.0/16", "podman", Owner::Cni, "cni-podman0"),
            claim("10.1.0.0/24", "bridge", Owner::Docker, "docker0"),
        ];
        assert_eq!(clashes(&claims).len(), 2);
    }

    /// Podman's file of a network that it joined is that network: its removal would be no repair.
    #[test]
    fn what_has_joined_a_network_is_not_the_one_to_remove() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let subnets = r#""subnets": [{"subnet": "10.70.1.0/24"}], "network_interface": "podman1""#;
        let joined = format!(r#"{{"name": "pods", "options": {{"network": "front"}}, {subnets}}}"#);
        put("podman/pods.json", &joined);
        put("cni/clash.conf", r#"{"name": "clash", "ipam": {"subnet": "10.70.1.0/24"}}"#);
        let front = Claimed {
            subnet: "10.70.1.0/24".parse().unwrap(),
            network: "front".to_owned(),
            called: "front".to_owned(),
            owner: Owner::Spoke,
            device: Some("sp-front".to_owned()),
            removal: "spoke network rm front".to_owned(),
        };
        let mut claims = vec![front];
        claims.extend(declared(&root.path().join("cni"), Owner::Cni));
        claims.extend(declared(&root.path().join("podman"), Owner::Podman));
        let found = clashes(&claims);
        let [(one, other)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.owner, other.owner), (Owner::Spoke, Owner::Cni));
        assert!(other.removal.starts_with("rm /"), "{}", other.removal);
    }
}
