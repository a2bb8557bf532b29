//! The network that CreateNetwork describes.

use std::path::{Path, PathBuf};

use model::{
    Backend, Bridge, BridgePort, Dhcp, Dns, Error, Firewall, Gateway, IfName, IngressPolicy, IpNet,
    Ipam, Link, LinkKind, Masquerade, Network, NetworkName, PluginChain, Publish, Reach, Result,
    Runtime, Space, Sticky, SubnetId, Timestamp, Wiring,
};

use super::block::{Block, pools};
use super::option::{KindWish, NetworkWish, pools_of_others};

/// Where Spoke's own DHCP client listens, and the reference's.
const DHCP_SOCKET: &str = "/run/cni/dhcp.sock";

/// Networks of Docker are apart unless they are asked not to be, as with Docker's own bridges.
const INGRESS: IngressPolicy = IngressPolicy::SameBridge;

/// What else goes into a network than what it was created with.
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
    wish: &NetworkWish,
    blocks: &[Block],
    circumstances: &Circumstances<'_>,
) -> Result<Network> {
    let kept = |block: &Block| block.subnet.as_ref().is_some_and(|s| s.sticky == Sticky::Name);
    Ok(Network {
        name: name.clone(),
        runtime: Runtime::Docker,
        since: circumstances.now,
        wiring: wiring(name, wish, blocks, circumstances)?,
        ipam: ipam(name, wish, blocks)?,
        routes: Vec::new(),
        dns: Dns::default(),
        sticky: blocks.iter().any(kept),
        labels: wish.labels.clone(),
        stage: model::Stage::Made,
    })
}

fn ipam(name: &NetworkName, wish: &NetworkWish, blocks: &[Block]) -> Result<Ipam> {
    match (&wish.kind, blocks) {
        (_, []) if wish.dhcp => Ok(Ipam::Dhcp(Dhcp {
            socket: PathBuf::from(DHCP_SOCKET),
            request: Vec::new(),
            skip: Vec::new(),
            provide: Vec::new(),
            priority: None,
        })),
        (_, []) => Ok(Ipam::None),
        _ if wish.dhcp => Err(pools_of_others("mode=dhcp")),
        (Some(KindWish::Plugins(_)), _) => Err(pools_of_others("cni")),
        (Some(KindWish::Neutron(_)), _) => Err(pools_of_others("driver=neutron")),
        (_, blocks) => Ok(Ipam::Book { pools: pools(name, &with_gateways(wish, blocks))? }),
    }
}

/// Docker up to 27 takes a gateway's address for networks, too, that have none.
fn with_gateways(wish: &NetworkWish, blocks: &[Block]) -> Vec<Block> {
    let has_one = wish.default_route().has_gateway();
    let of = |block: &Block| Block { gateway: block.gateway.filter(|_| has_one), ..block.clone() };
    blocks.iter().map(of).collect()
}

fn wiring(
    name: &NetworkName,
    wish: &NetworkWish,
    blocks: &[Block],
    circumstances: &Circumstances<'_>,
) -> Result<Wiring> {
    let kind = match &wish.kind {
        None | Some(KindWish::Bridge) => {
            return through_bridge(name, wish, blocks, circumstances.backend);
        }
        Some(KindWish::Macvlan(macvlan)) => LinkKind::Macvlan(macvlan.clone()),
        Some(KindWish::Ipvlan(ipvlan)) => LinkKind::Ipvlan(ipvlan.clone()),
        Some(KindWish::Plugins(file)) => LinkKind::Chain((circumstances.plugins)(file)?),
        Some(KindWish::Neutron(link)) => LinkKind::Neutron(link.clone()),
    };
    let link = Link { kind, name: None, mac: None, mtu: wish.mtu };
    Ok(Wiring { link: Some(link), ..Wiring::default() })
}

fn through_bridge(
    name: &NetworkName,
    wish: &NetworkWish,
    blocks: &[Block],
    backend: Backend,
) -> Result<Wiring> {
    let bridge = match &wish.bridge {
        Some(bridge) => bridge.clone(),
        None => bridge_name(name, blocks.first().map(|block| block.net))?,
    };
    let gateway = if blocks.is_empty() { Gateway::None } else { wish.default_route().gateway() };
    Ok(Wiring {
        link: Some(Link {
            kind: LinkKind::Bridge(Bridge {
                name: bridge.clone(),
                gateway,
                force_address: false,
                hairpin: wish.hairpin.unwrap_or(true),
                promiscuous: wish.promiscuous.unwrap_or(false),
                port: BridgePort { direct: wish.direct.unwrap_or(false), ..BridgePort::default() },
            }),
            name: None,
            mac: None,
            mtu: wish.mtu,
        }),
        masquerade: wish.masquerades().then_some(Masquerade { backend, sources: wish.sources }),
        publish: wish
            .reach
            .filter(|reach| *reach != Reach::default())
            .map(|reach| Publish { reach, ..Publish::new(backend) }),
        firewall: Some(Firewall {
            backend,
            ingress: wish.ingress.unwrap_or(INGRESS),
            egress: wish.egress,
            bridge: Some(bridge),
            admin_chain: None,
            zone: None,
            passage: wish.passage.clone().unwrap_or_default(),
        }),
        ..Wiring::default()
    })
}

/// The name of a network that nobody named: `docker-10.1.0.0-16`.
pub(crate) fn name_after(net: IpNet) -> Result<NetworkName> {
    engine::subnet_name(&SubnetId { space: Space::Host, net, part: None }, Runtime::Docker)
}

/// `sp-` and the network's name; where nobody named that, what is particular to its subnet
/// (`sp-172-18`); a hash of the name where it is too long.
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

/// What connects the containers of a network.
///
/// # Errors
/// Where Docker cannot be on such a network.
pub(crate) fn kind_of(network: &Network) -> Result<&LinkKind> {
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(
            kind @ (LinkKind::Bridge(_)
            | LinkKind::Macvlan(_)
            | LinkKind::Ipvlan(_)
            | LinkKind::Chain(_)
            | LinkKind::Neutron(_)
            | LinkKind::Remote(_)),
        ) => Ok(kind),
        Some(
            LinkKind::Ptp(_)
            | LinkKind::Loopback
            | LinkKind::Vlan(_)
            | LinkKind::Device(_)
            | LinkKind::Dummy
            | LinkKind::Tap(_)
            | LinkKind::Plug(_)
            | LinkKind::Ready(_),
        )
        | None => Err(Error::unsupported(format!(
            "network {}: Docker can be on bridges, macvlans, ipvlans, networks of Neutron and what \
             plugins make",
            network.name
        ))),
    }
}

/// The bridge of a network, where it has one.
pub(crate) fn bridge_of(network: &Network) -> Option<&Bridge> {
    network.wiring.link.as_ref().and_then(|link| link.kind.bridge())
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
