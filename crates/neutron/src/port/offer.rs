//! The container's part of a port: addresses, routes, resolvers, an interface.

use engine::port::Offer;
use model::{
    Attachment, Binding, Dns, Error, Family, InterfaceAddress, IpNet, Link, LinkKind, Mtu,
    NeutronLink, ResourceRef, Result, Route,
};

use super::known::KnownNetwork;
use crate::api::{PortResource, SubnetResource};

/// The attachment's offer. `None`: the port has an address of an unknown subnet.
///
/// # Errors
/// Where Neutron's answer makes no sense.
pub(crate) fn offer(
    attachment: &Attachment,
    link: &NeutronLink,
    known: &KnownNetwork,
    port: &PortResource,
    binding: Binding,
) -> Result<Option<Offer>> {
    let Some(held) = addresses(attachment, known, port)? else { return Ok(None) };
    let subnets: Vec<&SubnetResource> = held.iter().map(|(_, subnet)| *subnet).collect();
    let made = NeutronLink {
        network: ResourceRef::Id(known.network.id.clone()),
        binding: Some(binding),
        ..link.clone()
    };
    let requested = attachment.wiring.link.as_ref();
    Ok(Some(Offer {
        routes: routes(&subnets),
        dns: dns(&subnets),
        link: Some(Link {
            kind: LinkKind::Neutron(Box::new(made)),
            name: requested.and_then(|link| link.name.clone()),
            mac: Some(port.mac_address),
            mtu: mtu(requested.and_then(|link| link.mtu), known),
        }),
        addresses: held.into_iter().map(|(address, _)| address).collect(),
    }))
}

/// Those that were asked for first, in their order.
fn addresses<'a>(
    attachment: &Attachment,
    known: &'a KnownNetwork,
    port: &PortResource,
) -> Result<Option<Vec<(InterfaceAddress, &'a SubnetResource)>>> {
    let mut held = Vec::new();
    for fixed in &port.fixed_ips {
        let Some(address) = fixed.ip_address else { continue };
        let is_it = |subnet: &&SubnetResource| Some(&subnet.id) == fixed.subnet_id.as_ref();
        let Some(subnet) = known.subnets.iter().find(is_it) else { return Ok(None) };
        let address = IpNet::new(address, subnet.cidr.prefix_len()).map_err(|cause| {
            Error::try_again(format!("Neutron says that {address} is in {}", subnet.cidr))
                .because(cause)
        })?;
        let held_one = InterfaceAddress { address, gateway: subnet.gateway_ip, interface: None };
        held.push((held_one, subnet));
    }
    let wanted: Vec<_> = attachment.leases.iter().map(|lease| lease.address.addr()).collect();
    held.sort_by_key(|(held, _)| {
        let address = held.address.addr();
        let place = wanted.iter().position(|wanted| *wanted == address);
        (place.unwrap_or(usize::MAX), Family::of(&held.address))
    });
    Ok(Some(held))
}

/// Each family's default route, then what the subnets say.
fn routes(subnets: &[&SubnetResource]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let gateways = subnets.iter().filter_map(|subnet| {
        let gateway = subnet.gateway_ip?;
        Some(Route::new(Family::of(&subnet.cidr).everything(), Some(gateway)))
    });
    let reported = subnets.iter().flat_map(|subnet| &subnet.host_routes);
    let reported = reported.map(|route| Route::new(route.destination.trunc(), Some(route.nexthop)));
    for route in gateways.chain(reported) {
        if !routes.iter().any(|there| there.dst == route.dst) {
            routes.push(route);
        }
    }
    routes
}

fn dns(subnets: &[&SubnetResource]) -> Dns {
    let mut nameservers: Vec<String> = Vec::new();
    for server in subnets.iter().flat_map(|subnet| &subnet.dns_nameservers) {
        let server = server.to_string();
        if !nameservers.contains(&server) {
            nameservers.push(server);
        }
    }
    Dns { nameservers, ..Dns::default() }
}

/// The network's MTU; a smaller one on request. Larger packets would be lost.
fn mtu(requested: Option<Mtu>, known: &KnownNetwork) -> Option<Mtu> {
    match (requested, Mtu::new(known.network.mtu)) {
        (Some(requested), Some(network)) => Some(requested.min(network)),
        (requested, network) => requested.or(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(cidr: &str, gateway: Option<&str>, routes: &[(&str, &str)]) -> SubnetResource {
        serde_json::from_value(serde_json::json!({
            "id": cidr.replace([':', '.', '/'], "-"),
            "network_id": "net",
            "cidr": cidr,
            "gateway_ip": gateway,
            "host_routes": routes
                .iter()
                .map(|(to, via)| serde_json::json!({ "destination": to, "nexthop": via }))
                .collect::<Vec<_>>(),
            "dns_nameservers": ["192.0.2.53"],
        }))
        .unwrap()
    }

    #[test]
    fn each_family_has_one_way_out() {
        let v4 = subnet("10.0.0.0/24", Some("10.0.0.1"), &[("172.16.0.0/12", "10.0.0.9")]);
        let second = subnet("10.1.0.0/24", Some("10.1.0.1"), &[]);
        let v6 = subnet("fd00::/64", Some("fd00::1"), &[]);
        let lost = subnet("10.2.0.0/24", None, &[]);
        let reported: Vec<String> = routes(&[&v4, &second, &v6, &lost])
            .iter()
            .map(|route| format!("{} {}", route.dst, route.via.unwrap()))
            .collect();
        assert_eq!(reported, ["0.0.0.0/0 10.0.0.1", "::/0 fd00::1", "172.16.0.0/12 10.0.0.9"]);
        assert_eq!(dns(&[&v4, &v6]).nameservers, ["192.0.2.53"]);
    }
}
