//! Netavark's messages (`network/types.rs` of netavark).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use ipnet::IpNet;
use model::{
    Attached, ContainerId, Error, HostName, IfName, InterfaceNamespace, Mac, NetworkName,
    OwnerName, PortMap, Protocol, Result,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A few ranges of all ports.
const MOST_PORTS: usize = 4 << 16;

/// More names than this are an error or an attack.
const MOST_ALIASES: usize = 64;

/// Podman's file of a network.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NetworkConfig {
    pub(crate) name: NetworkName,
    #[serde(default)]
    pub(crate) internal: bool,
    #[serde(default)]
    pub(crate) ipv6_enabled: bool,
    pub(crate) network_interface: Option<String>,
    pub(crate) options: Option<BTreeMap<String, String>>,
    pub(crate) ipam_options: Option<BTreeMap<String, String>>,
    subnets: Option<Vec<SubnetConfig>>,
    routes: Option<Vec<RouteConfig>>,
    network_dns_servers: Option<Vec<IpAddr>>,
}

/// A subnet of a network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct SubnetConfig {
    pub(crate) subnet: IpNet,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) lease_range: Option<LeaseRange>,
}

/// The part of a subnet that addresses are chosen from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct LeaseRange {
    pub(crate) start_ip: Option<IpAddr>,
    pub(crate) end_ip: Option<IpAddr>,
}

/// A route that containers get.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RouteConfig {
    pub(crate) destination: IpNet,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) metric: Option<u32>,
    pub(crate) route_type: Option<String>,
}

/// The document of `setup` and `teardown`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Exec {
    pub(crate) container_id: ContainerId,
    #[serde(default)]
    container_name: String,
    port_mappings: Option<Vec<PortMapping>>,
    pub(crate) network: NetworkConfig,
    network_options: PerNetworkOptions,
}

#[derive(Clone, Debug, Deserialize)]
struct PerNetworkOptions {
    interface_name: IfName,
    static_ips: Option<Vec<IpAddr>>,
    static_mac: Option<String>,
    aliases: Option<Vec<String>>,
    options: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct PortMapping {
    container_port: u16,
    #[serde(default)]
    host_ip: String,
    host_port: u16,
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    range: u16,
}

impl NetworkConfig {
    pub(crate) fn read(document: &Value) -> Result<Self> {
        Self::deserialize(document)
            .map_err(|cause| Error::invalid("the network is not understood").because(cause))
    }

    pub(crate) fn subnets(&self) -> &[SubnetConfig] {
        self.subnets.as_deref().unwrap_or_default()
    }

    pub(crate) fn routes(&self) -> &[RouteConfig] {
        self.routes.as_deref().unwrap_or_default()
    }

    pub(crate) fn dns_servers(&self) -> &[IpAddr] {
        self.network_dns_servers.as_deref().unwrap_or_default()
    }
}

impl Exec {
    pub(crate) fn read(document: &Value) -> Result<Self> {
        Self::deserialize(document)
            .map_err(|cause| Error::invalid("the container is not understood").because(cause))
    }

    /// The container's lasting name; a name that Spoke cannot keep is no error.
    pub(crate) fn owner(&self) -> Option<OwnerName> {
        self.container_name.parse().ok()
    }

    /// What it is called on the network besides (`--network-alias`); what cannot be a name is none.
    pub(crate) fn aliases(&self) -> Vec<HostName> {
        let given = self.network_options.aliases.iter().flatten().take(MOST_ALIASES);
        let mut aliases: Vec<HostName> = given.filter_map(|alias| alias.parse().ok()).collect();
        aliases.sort();
        aliases.dedup();
        aliases
    }

    pub(crate) fn ifname(&self) -> &IfName {
        &self.network_options.interface_name
    }

    /// The addresses that were asked for (`--ip`, `--ip6`), each once: `podman network reload` names
    /// one that was asked for again, as one that the container had.
    pub(crate) fn wanted(&self) -> Vec<IpAddr> {
        let mut wanted = Vec::new();
        for address in self.network_options.static_ips.iter().flatten() {
            if !wanted.contains(address) {
                wanted.push(*address);
            }
        }
        wanted
    }

    /// The hardware address that was asked for (`--mac-address`).
    pub(crate) fn mac(&self) -> Result<Option<Mac>> {
        let given = self.network_options.static_mac.as_deref().filter(|text| !text.is_empty());
        given.map(str::parse).transpose()
    }

    /// The options of this container alone (`--network NAME:KEY=VALUE`).
    pub(crate) fn options(&self) -> BTreeMap<String, String> {
        self.network_options.options.clone().unwrap_or_default()
    }

    /// The ports of the host that were asked for (`--publish`), one by one.
    pub(crate) fn ports(&self) -> Result<Vec<PortMap>> {
        let mut ports = Vec::new();
        for mapping in self.port_mappings.iter().flatten() {
            mapping.expand(&mut ports)?;
        }
        Ok(ports)
    }
}

impl PortMapping {
    fn expand(&self, ports: &mut Vec<PortMap>) -> Result<()> {
        let host = self.host()?;
        for protocol in self.protocols()? {
            for offset in 0..self.range.max(1) {
                if ports.len() >= MOST_PORTS {
                    let what = format!("more than {MOST_PORTS} published ports of one container");
                    return Err(Error::invalid(what));
                }
                ports.push(PortMap {
                    host,
                    host_port: port("host", self.host_port, offset)?,
                    container_port: port("container", self.container_port, offset)?,
                    protocol,
                });
            }
        }
        Ok(())
    }

    fn host(&self) -> Result<Option<IpAddr>> {
        match self.host_ip.as_str() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|cause| {
                Error::invalid(format!("host address {text:?} of a port")).because(cause)
            }),
        }
    }

    /// TCP where none is named; several stand between commas.
    fn protocols(&self) -> Result<Vec<Protocol>> {
        match self.protocol.as_str() {
            "" => Ok(vec![Protocol::Tcp]),
            several => several.split(',').map(|one| one.trim().parse()).collect(),
        }
    }
}

fn port(whose: &str, first: u16, offset: u16) -> Result<NonZeroU16> {
    let port = first.checked_add(offset).and_then(NonZeroU16::new);
    port.ok_or_else(|| {
        Error::invalid(format!("{whose} port {first} + {offset} is not between 1 and 65535"))
    })
}

/// The answer of `setup`.
#[derive(Clone, Debug)]
pub(crate) struct StatusBlock {
    pub(crate) attached: Attached,
    /// The name servers of containers.
    pub(crate) dns_servers: Vec<IpAddr>,
    /// Whether containers get a gateway.
    pub(crate) has_gateway: bool,
}

impl StatusBlock {
    pub(crate) fn render(&self) -> Value {
        let mut interfaces = Map::new();
        let inside =
            |(_, one): &(usize, &model::Interface)| one.place == InterfaceNamespace::Sandbox;
        for (index, one) in self.attached.interfaces.iter().enumerate().filter(inside) {
            let mac = one.mac.map(|mac| mac.to_string()).unwrap_or_default();
            let reported = json!({"mac_address": mac, "subnets": self.addresses(index)});
            interfaces.insert(one.name.to_string(), reported);
        }
        json!({
            "dns_search_domains": self.attached.dns.search,
            "dns_server_ips": self.dns_servers,
            "interfaces": interfaces,
        })
    }

    fn addresses(&self, interface: usize) -> Vec<Value> {
        let of = self
            .attached
            .addresses
            .iter()
            .filter(|held| held.interface.is_none_or(|index| index == interface));
        of.map(|held| {
            let gateway = held.gateway.filter(|_| self.has_gateway);
            json!({"ipnet": held.address, "gateway": gateway})
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(mapping: Value) -> Result<Vec<String>> {
        let exec = Exec::read(&json!({
            "container_id": "c", "container_name": "web", "port_mappings": [mapping],
            "network": {"name": "n"}, "network_options": {"interface_name": "eth0"},
        }))?;
        Ok(exec.ports()?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ports_are_expanded() {
        let one = json!({"container_port": 80, "host_ip": "", "host_port": 8080, "protocol": "tcp", "range": 3});
        assert_eq!(ports(one).unwrap(), ["8080->80/tcp", "8081->81/tcp", "8082->82/tcp"]);
        let both =
            json!({"container_port": 53, "host_ip": "::1", "host_port": 53, "protocol": "udp,tcp"});
        assert_eq!(ports(both).unwrap(), ["[::1]:53->53/udp", "[::1]:53->53/tcp"]);
        let last = json!({"container_port": 1, "host_port": 65535, "protocol": "sctp", "range": 2});
        assert!(ports(last).unwrap_err().to_string().contains("65535"), "past the end");
        let all = json!({"container_port": 1, "host_port": 1, "protocol": "tcp,udp,tcp,udp,sctp", "range": 65535});
        assert!(ports(all).unwrap_err().to_string().contains("more than"), "without end");
        for wrong in [
            json!({"container_port": 0, "host_port": 1}),
            json!({"container_port": 1, "host_port": 1, "protocol": "icmp"}),
            json!({"container_port": 1, "host_port": 1, "host_ip": "here"}),
        ] {
            assert_eq!(ports(wrong.clone()).unwrap_err().kind(), model::Kind::Invalid, "{wrong}");
        }
    }

    /// As `podman network reload` sends it.
    #[test]
    fn an_address_that_is_named_twice_is_one() {
        let exec = Exec::read(&json!({
            "container_id": "c", "container_name": "c", "network": {"name": "n"},
            "network_options": {
                "interface_name": "eth0", "static_ips": ["10.0.0.2", "fd00::2", "10.0.0.2"],
            },
        }))
        .unwrap();
        assert_eq!(
            exec.wanted(),
            ["10.0.0.2", "fd00::2"].map(|one| one.parse::<IpAddr>().unwrap())
        );
    }

    #[test]
    fn nulls_are_nothing() {
        let exec = Exec::read(&json!({
            "container_id": "c", "container_name": "", "port_mappings": null,
            "network": {"name": "n", "options": null, "subnets": null, "routes": null},
            "network_options": {"interface_name": "eth0", "static_ips": null, "static_mac": ""},
        }))
        .unwrap();
        assert!(exec.owner().is_none() && exec.wanted().is_empty());
        assert!(exec.mac().unwrap().is_none() && exec.ports().unwrap().is_empty());
        assert!(exec.network.subnets().is_empty() && exec.network.routes().is_empty());
    }
}
