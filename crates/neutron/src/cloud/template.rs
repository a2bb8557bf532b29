//! The template of a network's attachments.

use std::time::{SystemTime, UNIX_EPOCH};

use model::{
    AliasId, Ipam, Link, LinkKind, Mtu, Network, NetworkName, NeutronLink, PortSpec, ResourceRef,
    Result, Route, Runtime, Timestamp, Wiring,
};

use super::pool_state::is_id;
use crate::Neutron;
use crate::api::{NetworkResource, SubnetResource};
use crate::contract;

impl Neutron {
    /// The network that was made for the id, or joined under it, in another life or by
    /// kuryr-libnetwork.
    pub(super) fn network_of(&self, id: &AliasId) -> Result<Option<Network>> {
        let Some(network) = self.networks_of(id)?.pop() else { return Ok(None) };
        let subnets = self.api().subnets(&[("network_id", network.id.to_string())])?;
        let subnets = chosen(subnets, &self.use_of(id));
        self.template(id, &network, &subnets, PortSpec::default()).map(Some)
    }

    pub(super) fn template(
        &self,
        id: &AliasId,
        network: &NetworkResource,
        subnets: &[SubnetResource],
        spec: PortSpec,
    ) -> Result<Network> {
        let kind = LinkKind::Neutron(Box::new(NeutronLink {
            network: ResourceRef::Id(network.id.clone()),
            subnets: subnets.iter().map(|subnet| ResourceRef::Id(subnet.id.clone())).collect(),
            spec,
            binding: None,
        }));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let link = Link { kind, name: None, mac: None, mtu: Mtu::new(network.mtu) };
        Ok(Network {
            routes: subnets.iter().flat_map(routes).collect(),
            ..Network::new(
                name_of(id)?,
                Runtime::Docker,
                Timestamp(since.as_secs()),
                Wiring { link: Some(link), ..Wiring::default() },
                Ipam::None,
            )
        })
    }
}

/// Spoke's name for a runtime's network.
fn name_of(id: &AliasId) -> Result<NetworkName> {
    format!("kuryr-{}", id.as_str().get(..12).unwrap_or(id.as_str())).parse()
}

fn routes(subnet: &SubnetResource) -> impl Iterator<Item = Route> {
    subnet.host_routes.iter().map(|route| Route::new(route.destination, Some(route.nexthop)))
}

/// The subnets of the runtime's network, one of each family: those with its tag; else those that
/// kuryr-libnetwork made or joined.
fn chosen(mut all: Vec<SubnetResource>, once: &str) -> Vec<SubnetResource> {
    let rank = |subnet: &SubnetResource| {
        let is_used = subnet.tags.iter().any(|tag| tag == once);
        let is_joined = subnet.tags.iter().any(|tag| is_id(tag));
        let is_kuryrs = subnet.name.starts_with(contract::SUBNET);
        (!is_used, !(is_joined || is_kuryrs), subnet.id.clone())
    };
    all.sort_by_key(rank);
    let of = |is_v4: bool| move |subnet: &&SubnetResource| subnet.cidr.addr().is_ipv4() == is_v4;
    let both = [true, false].into_iter().filter_map(|is_v4| all.iter().find(of(is_v4)));
    both.cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subnet(id: &str, net: &str, tags: &[&str]) -> SubnetResource {
        serde_json::from_value(json!({
            "id": id, "network_id": "n", "cidr": net, "tags": tags, "name": id,
            "host_routes": [{ "destination": "10.9.0.0/16", "nexthop": "10.0.0.9" }],
        }))
        .unwrap()
    }

    #[test]
    fn one_subnet_of_each_family_is_of_the_network() {
        let pool = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";
        let all = vec![
            subnet("a", "10.0.0.0/24", &[]),
            subnet("b", "10.1.0.0/24", &[pool]),
            subnet("c", "fd00::/64", &[]),
        ];
        let ids = |all: Vec<SubnetResource>, once: &str| -> Vec<String> {
            chosen(all, once).iter().map(|subnet| subnet.id.to_string()).collect()
        };
        assert_eq!(ids(all.clone(), "use"), ["b", "c"]);
        let mut used = all;
        used.push(subnet("z", "10.2.0.0/24", &["use"]));
        assert_eq!(ids(used.clone(), "use"), ["z", "c"]);
        assert_eq!(routes(&used[0]).next().unwrap().dst, "10.9.0.0/16".parse().unwrap());
    }

    #[test]
    fn names_are_short() {
        let id = "286eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";
        assert_eq!(name_of(&id.parse().unwrap()).unwrap().as_str(), "kuryr-286eddb51ebc");
        let swarm = "x4b2k9s0dj3k2l1m5n6o7p8q9".parse().unwrap();
        assert_eq!(name_of(&swarm).unwrap().as_str(), "kuryr-x4b2k9s0dj3k");
    }
}
