//! The network that CreateNetwork describes.

use std::path::Path;

use model::{
    Backend, Bridge, Error, Family, Gateway, IfName, IngressPolicy, IpNet, Ipam, LinkKind, Network,
    NetworkName, PluginChain, Result, Runtime, Space, Sticky, SubnetId, Timestamp, Wiring,
};
use spec::{Frame, KindSpec, NetworkSpec, Source};

use super::block::{Block, pools};
use super::option::pools_of_others;

/// Networks of Docker are apart unless they are asked not to be, as with Docker's own bridges.
pub(super) const INGRESS: IngressPolicy = IngressPolicy::SameBridge;

/// The properties of a network that are not among its options.
pub(crate) struct Circumstances<'a> {
    /// Which packet filter.
    pub(crate) backend: Backend,
    /// When.
    pub(crate) now: Timestamp,
    /// Reads a list of CNI plugins.
    pub(crate) plugins: &'a dyn Fn(&Path) -> Result<PluginChain>,
}

/// A network of this name.
pub(crate) fn network(
    name: &NetworkName,
    spec: &NetworkSpec,
    blocks: &[Block],
    circumstances: &Circumstances<'_>,
) -> Result<Network> {
    let kept = |block: &Block| block.subnet.as_ref().is_some_and(|s| s.sticky == Sticky::Name);
    let spec = &NetworkSpec { sticky: Some(blocks.iter().any(kept)), ..spec.clone() };
    let frame = Frame {
        name: name.clone(),
        runtime: Runtime::Docker,
        since: circumstances.now,
        ipam: ipam(name, spec, blocks)?,
        routes: Vec::new(),
    };
    Ok(spec.network(frame, wiring(name, spec, blocks, circumstances)?))
}

fn ipam(name: &NetworkName, spec: &NetworkSpec, blocks: &[Block]) -> Result<Ipam> {
    match (&spec.kind, blocks) {
        (_, []) if spec.source == Source::Dhcp => Ok(spec.dhcp()),
        (_, []) => Ok(Ipam::None),
        _ if spec.source == Source::Dhcp => Err(pools_of_others("mode=dhcp")),
        (Some(KindSpec::Plugins(_)), _) => Err(pools_of_others("cni")),
        (Some(KindSpec::Neutron(_)), _) => Err(pools_of_others("driver=neutron")),
        (_, blocks) => Ok(Ipam::Book {
            pools: pools(name, &with_gateways(spec, blocks), spec.address_space.as_ref())?,
        }),
    }
}

/// Docker up to 27 takes a gateway's address for networks, too, that have none.
fn with_gateways(spec: &NetworkSpec, blocks: &[Block]) -> Vec<Block> {
    let of = |block: &Block| {
        let has_one = spec.has_gateway(Family::of(&block.net));
        Block { gateway: block.gateway.filter(|_| has_one), ..block.clone() }
    };
    blocks.iter().map(of).collect()
}

fn wiring(
    name: &NetworkName,
    spec: &NetworkSpec,
    blocks: &[Block],
    circumstances: &Circumstances<'_>,
) -> Result<Wiring> {
    let kind = match &spec.kind {
        None | Some(KindSpec::Bridge) => bridge(name, spec, blocks)?,
        Some(KindSpec::Macvlan(macvlan)) => LinkKind::Macvlan(macvlan.clone()),
        Some(KindSpec::Ipvlan(ipvlan)) => LinkKind::Ipvlan(ipvlan.clone()),
        Some(KindSpec::Plugins(file)) => LinkKind::Chain((circumstances.plugins)(file)?),
        Some(KindSpec::Neutron(link)) => LinkKind::Neutron(link.clone()),
        Some(KindSpec::Ovs(ovs)) => LinkKind::Ovs(ovs.clone()),
    };
    let ingress = Some(spec.ingress.unwrap_or(INGRESS));
    Ok(NetworkSpec { ingress, ..spec.clone() }.wiring(kind, circumstances.backend))
}

fn bridge(name: &NetworkName, spec: &NetworkSpec, blocks: &[Block]) -> Result<LinkKind> {
    let device = match &spec.bridge {
        Some(bridge) => bridge.clone(),
        None => bridge_name(name, blocks.first().map(|block| block.net))?,
    };
    let gateway = if blocks.is_empty() { Gateway::None } else { spec.default_route().gateway() };
    Ok(spec.bridge(device, gateway))
}

/// The name of a network without a given name: `docker-10.1.0.0-16`.
pub(crate) fn name_after(net: IpNet) -> Result<NetworkName> {
    engine::subnet_name(&SubnetId { space: Space::Host, net, part: None }, Runtime::Docker)
}

/// `sp-` and the network's name; without a given name, a part of its subnet (`sp-172-18`); a hash
/// of the name where it is too long.
fn bridge_name(network: &NetworkName, subnet: Option<IpNet>) -> Result<IfName> {
    if let Some(IpNet::V4(net)) = subnet
        && name_after(IpNet::V4(net))? == *network
        && net.prefix_len() <= 24
    {
        let octets = net.network().octets();
        let particular = octets.iter().take(usize::from(net.prefix_len()).div_ceil(8).max(1));
        let particular: Vec<String> = particular.map(ToString::to_string).collect();
        return format!("sp-{}", particular.join("-")).parse();
    }
    model::bridge_name(network)
}

/// The link kind of the network.
///
/// # Errors
/// Where Docker cannot use such a network.
pub(crate) fn kind_of(network: &Network) -> Result<&LinkKind> {
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(
            kind @ (LinkKind::Bridge(_)
            | LinkKind::Macvlan(_)
            | LinkKind::Ipvlan(_)
            | LinkKind::Chain(_)
            | LinkKind::Neutron(_)
            | LinkKind::Ovs(_)
            | LinkKind::Remote(_)),
        ) => Ok(kind),
        Some(_) | None => Err(Error::unsupported(format!(
            "network {}: Docker can be on bridges, macvlans, ipvlans, networks of Neutron, segments of \
             Open vSwitch and what plugins make",
            network.name
        ))),
    }
}

/// The bridge of a network, where it has one.
pub(crate) fn bridge_of(network: &Network) -> Option<&Bridge> {
    network.wiring.bridge()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(network: &str, subnet: Option<&str>) -> String {
        let subnet = subnet.map(|subnet| subnet.parse().unwrap());
        bridge_name(&network.parse().unwrap(), subnet).unwrap().to_string()
    }

    #[test]
    fn bridges_are_named_after_what_is_particular() {
        for (network, subnet, expected) in [
            ("front", Some("10.1.0.0/16"), "sp-front"),
            ("docker-10.1.0.0-16", Some("10.1.0.0/16"), "sp-10-1"),
            ("docker-172.18.0.0-16", Some("172.18.0.0/16"), "sp-172-18"),
            ("docker-192.168.100.0-24", Some("192.168.100.0/24"), "sp-192-168-100"),
            ("docker-172.16.0.0-12", Some("172.16.0.0/12"), "sp-172-16"),
        ] {
            assert_eq!(bridge(network, subnet), expected);
        }
        for (network, subnet) in [
            ("docker-10.1.0.128-25", Some("10.1.0.128/25")),
            ("docker-fd00---64", Some("fd00::/64")),
            ("a-rather-long-name-of-a-network", None),
        ] {
            assert_eq!(bridge(network, subnet).len(), 15, "{network}");
        }
    }

    #[test]
    fn unnamed_networks_have_the_name_of_their_subnet() {
        let name = |net: &str| name_after(net.parse().unwrap()).unwrap().to_string();
        assert_eq!(name("10.1.0.0/16"), "docker-10.1.0.0-16");
        assert_eq!(name("fd88::/64"), "docker-fd88---64");
    }
}
