//! The network that Podman's file describes.

use std::net::IpAddr;

use model::{
    Backend, Dns, Error, Family, Gateway, Ipam, LinkKind, Network, Order, Pool, PoolId, Range,
    Result, Route, Runtime, Space, Timestamp, Wiring, hosts_of,
};
use serde_json::Value;
use spec::{DefaultRoute, Frame, KindSpec, NetworkSpec, Source};

use crate::DRIVER;
use crate::option::Spec;
use crate::wire::{NetworkConfig, RouteConfig, SubnetConfig};

/// More subnets than this are no network.
const MOST_SUBNETS: usize = 64;

/// The network as it is the same for all its containers.
pub(crate) fn network(
    config: &NetworkConfig,
    spec: &NetworkSpec,
    (backend, now): (Backend, Timestamp),
) -> Result<Network> {
    let frame = Frame {
        name: config.name.clone(),
        runtime: Runtime::Podman,
        since: now,
        ipam: ipam(config, spec)?,
        routes: routes(config, spec)?,
    };
    let dns = Dns {
        nameservers: config.dns_servers().iter().map(ToString::to_string).collect(),
        ..Dns::default()
    };
    Ok(Network { dns, ..spec.network(frame, wiring(config, spec, backend)?) })
}

/// The network that Podman's file describes for its containers, by the document in it; none where it is of another
/// driver, or where containers join a network that is there.
///
/// # Errors
/// Where the driver's options are not understood.
pub fn described(document: &Value, backend: Backend, now: Timestamp) -> Result<Option<Network>> {
    if document["driver"] != DRIVER {
        return Ok(None);
    }
    let config = NetworkConfig::read(document)?;
    match Spec::recorded(&config)? {
        Spec::New(spec) => network(&config, &spec, (backend, now)).map(Some),
        Spec::Join(_) => Ok(None),
    }
}

fn wiring(config: &NetworkConfig, spec: &NetworkSpec, backend: Backend) -> Result<Wiring> {
    let gateway = match spec.source {
        Source::Book => spec.default_route().gateway(),
        Source::Dhcp | Source::Nothing | Source::Cloud => Gateway::None,
    };
    let kind = match &spec.kind {
        Some(KindSpec::Macvlan(macvlan)) => LinkKind::Macvlan(macvlan.clone()),
        Some(KindSpec::Ipvlan(ipvlan)) => LinkKind::Ipvlan(ipvlan.clone()),
        Some(KindSpec::Neutron(link)) => LinkKind::Neutron(link.clone()),
        Some(KindSpec::Ovs(ovs)) => LinkKind::Ovs(ovs.clone()),
        Some(KindSpec::Bridge | KindSpec::Plugins(_)) | None => {
            let named = || model::bridge_name(&config.name);
            spec.bridge(spec.bridge.clone().map_or_else(named, Ok)?, gateway)
        }
    };
    let masquerade = Some(gateway != Gateway::None && spec.masquerade.unwrap_or(true));
    Ok(NetworkSpec { masquerade, ..spec.clone() }.wiring(kind, backend))
}

fn ipam(config: &NetworkConfig, spec: &NetworkSpec) -> Result<Ipam> {
    match spec.source {
        Source::Nothing | Source::Cloud => Ok(Ipam::None),
        Source::Dhcp => Ok(spec.dhcp()),
        Source::Book if config.subnets().is_empty() => Err(Error::invalid(format!(
            "network {} has no subnet; make it again with `podman network create`",
            config.name
        ))),
        Source::Book => Ok(Ipam::Book { pools: pools(config, spec)? }),
    }
}

/// A pool for each subnet: a container has an address of each.
fn pools(config: &NetworkConfig, spec: &NetworkSpec) -> Result<Vec<Pool>> {
    if config.subnets().len() > MOST_SUBNETS {
        return Err(Error::unsupported(format!(
            "network {} has more than {MOST_SUBNETS} subnets",
            config.name
        )));
    }
    let pool = |(index, subnet): (u8, &SubnetConfig)| {
        Ok(Pool {
            id: PoolId { network: config.name.clone(), index },
            space: Space::of_networks(spec.address_space.as_ref()),
            ranges: vec![range(subnet, spec.address_space.is_none())?],
            order: Order::NextAfterLast,
        })
    };
    (0..).zip(config.subnets()).map(pool).collect()
}

/// The range of a subnet that may be leased. Podman names its last address too where `--ip-range`
/// ends there. Only a router has the gateway's address.
fn range(of: &SubnetConfig, is_routed: bool) -> Result<Range> {
    let subnet = of.subnet.trunc();
    let (lowest, highest) = hosts_of(&subnet);
    let gateway = gateway_of(of)?;
    let part = of.lease_range.as_ref();
    let start = part.and_then(|part| part.start_ip).unwrap_or(lowest);
    let end = part.and_then(|part| part.end_ip).unwrap_or(highest);
    for end in [start, end] {
        if !subnet.contains(&end) {
            return Err(Error::invalid(format!("--ip-range: {end} is not in subnet {subnet}")));
        }
    }
    Range::new(subnet, start.max(lowest), end.min(highest), is_routed.then_some(gateway))
}

/// The gateway of a subnet: its first host, where none is named.
pub(crate) fn gateway_of(of: &SubnetConfig) -> Result<IpAddr> {
    let (lowest, highest) = hosts_of(&of.subnet.trunc());
    match of.gateway {
        None => Ok(lowest),
        Some(given) if (lowest..=highest).contains(&given) => Ok(given),
        Some(given) => {
            Err(Error::invalid(format!("gateway {given} is no host of subnet {}", of.subnet)))
        }
    }
}

fn routes(config: &NetworkConfig, spec: &NetworkSpec) -> Result<Vec<Route>> {
    let mut routes = config.routes().iter().map(route).collect::<Result<Vec<_>>>()?;
    let by_bridge = spec.kind == Some(KindSpec::Bridge) && spec.metric.is_none();
    // A cloud sends its routes with the addresses.
    let by_cloud = spec.source == Source::Cloud && spec.metric.is_some();
    let leads_out = spec.default_route() == DefaultRoute::Bridge;
    if leads_out && ((spec.source == Source::Book && !by_bridge) || by_cloud) {
        for family in [Family::V4, Family::V6] {
            let all = family.everything();
            let is_served =
                by_cloud || config.subnets().iter().any(|of| Family::of(&of.subnet) == family);
            if is_served && routes.iter().all(|route| route.dst != all) {
                routes.push(Route { priority: spec.metric, ..Route::new(all, None) });
            }
        }
    }
    Ok(routes)
}

fn route(of: &RouteConfig) -> Result<Route> {
    match (of.route_type.as_deref(), of.gateway) {
        (None | Some("" | "unicast"), Some(gateway)) => {
            let route = Route::new(of.destination.trunc(), Some(gateway));
            Ok(Route { priority: of.metric, ..route })
        }
        (None | Some("" | "unicast"), None) => {
            Err(Error::invalid(format!("--route {}: it has no gateway", of.destination)))
        }
        (Some(other), _) => Err(Error::unsupported(format!(
            "--route {}: Spoke has no routes of type {}",
            of.destination,
            other.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(subnet: serde_json::Value) -> Result<String> {
        let of: SubnetConfig = serde_json::from_value(subnet).unwrap();
        range(&of, true).map(|r| format!("{}-{} {:?}", r.first, r.last, r.gateway.unwrap()))
    }

    #[test]
    fn ranges_hold_hosts_only() {
        for (subnet, expected) in [
            (json!({"subnet": "10.1.2.0/24"}), "10.1.2.1-10.1.2.254 10.1.2.1"),
            (
                json!({"subnet": "10.1.2.0/24", "gateway": "10.1.2.254"}),
                "10.1.2.1-10.1.2.254 10.1.2.254",
            ),
            (
                json!({"subnet": "10.1.2.0/24",
                       "lease_range": {"start_ip": "10.1.2.129", "end_ip": "10.1.2.255"}}),
                "10.1.2.129-10.1.2.254 10.1.2.1",
            ),
            (
                json!({"subnet": "fd00::/64", "lease_range": {"start_ip": null, "end_ip": "fd00::f"}}),
                "fd00::1-fd00::f fd00::1",
            ),
        ] {
            assert_eq!(shown(subnet).unwrap(), expected);
        }
        for wrong in [
            json!({"subnet": "10.1.2.0/24", "gateway": "10.1.3.1"}),
            json!({"subnet": "10.1.2.0/24", "gateway": "10.1.2.255"}),
            json!({"subnet": "10.1.2.0/24", "lease_range": {"start_ip": "10.1.3.1"}}),
            json!({"subnet": "10.1.2.0/24",
                   "lease_range": {"start_ip": "10.1.2.9", "end_ip": "10.1.2.5"}}),
            json!({"subnet": "10.1.2.0/24", "lease_range": {"start_ip": "fd00::1"}}),
        ] {
            assert_eq!(shown(wrong.clone()).unwrap_err().kind(), model::Kind::Invalid, "{wrong}");
        }
    }

    #[test]
    fn routes_need_what_the_kernel_needs() {
        let of = |route: serde_json::Value| super::route(&serde_json::from_value(route).unwrap());
        let one = of(json!({"destination": "10.9.0.0/24", "gateway": "10.1.2.9", "metric": 7}));
        assert_eq!(one.unwrap().priority, Some(7));
        assert_eq!(
            of(json!({"destination": "10.9.0.0/24"})).unwrap_err().kind(),
            model::Kind::Invalid
        );
        assert_eq!(
            of(json!({"destination": "10.9.0.0/24", "route_type": "blackhole"}))
                .unwrap_err()
                .kind(),
            model::Kind::Unsupported
        );
    }
}
