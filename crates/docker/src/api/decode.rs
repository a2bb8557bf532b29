//! The engine's JSON. Keys that are not known are passed over; null is the same as nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::str::FromStr;

use model::{AliasId, ContainerId, EngineId, Error, HostName, IpNet, OwnerName, PortMap, Result};
use serde::Deserialize;

use super::{Endpoint, Reach, Subnet};

/// More names than this are an error or an attack.
const MOST_NAMES: usize = 64;

/// `GET /version`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Version {
    version: Option<String>,
}

/// `GET /info`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Info {
    #[serde(rename = "ID")]
    id: Option<String>,
    live_restore_enabled: Option<bool>,
}

impl Info {
    pub(super) fn id(&self) -> Option<EngineId> {
        self.id.as_ref()?.parse().ok()
    }

    pub(super) fn restores(&self) -> bool {
        self.live_restore_enabled.unwrap_or(false)
    }
}

/// An entry of `GET /networks`, or all of `GET /networks/{id}`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Network {
    #[serde(alias = "ID")]
    id: Option<String>,
    name: Option<String>,
    scope: Option<String>,
    driver: Option<String>,
    #[serde(rename = "IPAM")]
    ipam: Option<Ipam>,
    ingress: Option<bool>,
    config_only: Option<bool>,
    containers: Option<BTreeMap<String, Option<Member>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Ipam {
    driver: Option<String>,
    config: Option<Vec<Option<IpamConfig>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct IpamConfig {
    subnet: Option<String>,
    #[serde(rename = "IPRange")]
    range: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Member {
    name: Option<String>,
    #[serde(rename = "EndpointID")]
    endpoint: Option<String>,
    #[serde(rename = "IPv4Address")]
    v4: Option<String>,
    #[serde(rename = "IPv6Address")]
    v6: Option<String>,
}

/// An entry of `GET /containers/json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Container {
    id: Option<String>,
    names: Option<Vec<String>>,
    network_settings: Option<Settings>,
    ports: Option<Vec<Option<Port>>>,
}

/// An exposed port that is not published has no port of the host.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Port {
    #[serde(rename = "IP")]
    host: Option<String>,
    private_port: Option<u16>,
    public_port: Option<u16>,
    #[serde(rename = "Type")]
    protocol: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    networks: Option<BTreeMap<String, Option<Membership>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Membership {
    #[serde(rename = "NetworkID")]
    network: Option<String>,
    #[serde(rename = "EndpointID")]
    endpoint: Option<String>,
    #[serde(rename = "IPAddress")]
    v4: Option<String>,
    #[serde(rename = "GlobalIPv6Address")]
    v6: Option<String>,
}

/// A line of `GET /events`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Event {
    #[serde(rename = "Type")]
    kind: Option<String>,
    action: Option<String>,
    actor: Option<Actor>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Actor {
    #[serde(rename = "ID")]
    id: Option<String>,
    #[serde(rename = "Attributes")]
    attributes: Option<BTreeMap<String, String>>,
}

/// What `GET /containers/{id}/json` says of whether a container runs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Standing {
    pub(super) state: Option<State>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct State {
    pub(super) running: Option<bool>,
}

/// All of `GET /containers/{id}/json` that is about names.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Inspected {
    name: Option<String>,
    config: Option<Config>,
    network_settings: Option<CalledSettings>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    hostname: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct CalledSettings {
    networks: Option<BTreeMap<String, Option<Called>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Called {
    #[serde(rename = "NetworkID")]
    network: Option<String>,
    #[serde(rename = "EndpointID")]
    endpoint: Option<String>,
    aliases: Option<Vec<String>>,
    #[serde(rename = "DNSNames")]
    names: Option<Vec<String>>,
}

impl Inspected {
    /// By endpoint. The engine answers for the same names, and since version 26 lists them itself.
    pub(super) fn names(self) -> Result<Vec<super::Names>> {
        let name = self.name.as_deref().and_then(|name| name.strip_prefix('/'));
        let owner: Option<OwnerName> = name.and_then(|name| name.parse().ok());
        let hostname = self.config.and_then(|config| config.hostname);
        let networks = self.network_settings.and_then(|settings| settings.networks);
        let mut all = Vec::new();
        for called in networks.into_iter().flatten().filter_map(|(_, called)| called) {
            let Some(id) = given(called.endpoint) else { continue };
            let texts = called.names.into_iter().chain(called.aliases).flatten();
            let texts = texts.take(MOST_NAMES).chain(hostname.clone());
            let mut names: Vec<HostName> = texts.filter_map(|text| text.parse().ok()).collect();
            names.retain(|it| owner.as_ref().is_none_or(|owner| owner.as_str() != it.as_str()));
            names.sort();
            names.dedup();
            all.push(super::Names {
                endpoint: parsed("endpoint", &id)?,
                network: given(called.network).and_then(|id| id.parse().ok()),
                owner: owner.clone(),
                names,
            });
        }
        Ok(all)
    }
}

impl Event {
    /// The container that has other names after it.
    pub(super) fn named(&self) -> Option<super::events::Named> {
        let actor = self.actor.as_ref()?;
        let (id, runs) = match (self.kind.as_deref()?, self.action.as_deref()?) {
            ("container", "start" | "rename") => (actor.id.as_ref()?, true),
            ("network", "connect") => (actor.attributes.as_ref()?.get("container")?, false),
            _ => return None,
        };
        Some(super::events::Named { container: id.parse().ok()?, runs })
    }

    /// The network that is new.
    pub(super) fn made_network(&self) -> Option<AliasId> {
        let is_it =
            self.kind.as_deref() == Some("network") && self.action.as_deref() == Some("create");
        self.actor.as_ref().filter(|_| is_it)?.id.as_ref()?.parse().ok()
    }

    pub(super) fn removed_network(self) -> Option<AliasId> {
        let is_it = self.kind.as_deref() == Some("network")
            && matches!(self.action.as_deref(), Some("destroy" | "remove"));
        self.actor.filter(|_| is_it)?.id?.parse().ok()
    }
}

impl Version {
    pub(super) fn version(self) -> String {
        self.version.unwrap_or_default()
    }
}

impl Network {
    pub(super) fn network(self) -> Result<super::Network> {
        let ipam = self.ipam.unwrap_or_default();
        let id = self.id.unwrap_or_default();
        let configs = ipam.config.into_iter().flatten().flatten();
        Ok(super::Network {
            name: self.name.and_then(|name| name.parse().ok()),
            driver: self.driver.unwrap_or_default(),
            ipam: ipam.driver.unwrap_or_default(),
            reach: match (self.config_only, self.ingress, self.scope.as_deref()) {
                (Some(true), _, _) => Reach::Template,
                (_, Some(true), _) => Reach::Swarm,
                (_, _, None | Some("" | "local")) => Reach::Local,
                (_, _, Some(_)) => Reach::Swarm,
            },
            subnets: configs
                .filter_map(|config| config.subnet().transpose())
                .collect::<Result<_>>()?,
            id: parsed("network", &id)?,
        })
    }

    pub(super) fn endpoints(self) -> Result<Vec<Endpoint>> {
        let members = self.containers.into_iter().flatten().filter_map(|(_, member)| member);
        let endpoints = members.map(|member| {
            endpoint(member.endpoint, member.name.as_deref(), [member.v4, member.v6])
        });
        endpoints.filter_map(Result::transpose).collect()
    }
}

impl IpamConfig {
    /// A subnet that cannot be read must not be taken for unused: it is an error.
    fn subnet(self) -> Result<Option<Subnet>> {
        let Some(net) = given(self.subnet) else { return Ok(None) };
        let net: IpNet = parsed("subnet", &net)?;
        let part = given(self.range).map(|range| parsed::<IpNet>("range", &range)).transpose()?;
        Ok(Some(Subnet { net: net.trunc(), part: part.map(|part| part.trunc()) }))
    }
}

impl Container {
    /// Its id.
    pub(super) fn id(&self) -> Option<ContainerId> {
        self.id.as_ref()?.parse().ok()
    }

    /// The same, where it is on one of these networks.
    pub(super) fn on(&self, networks: &BTreeSet<&AliasId>) -> Option<ContainerId> {
        let all = self.network_settings.as_ref()?.networks.as_ref()?;
        let is_on = |it: &Membership| {
            let id = it.network.as_ref().and_then(|id| id.parse::<AliasId>().ok());
            id.is_some_and(|id| networks.contains(&id))
        };
        if !all.values().flatten().any(is_on) {
            return None;
        }
        self.id()
    }

    pub(super) fn container(self) -> Result<super::Container> {
        let listed = self.ports.into_iter().flatten().flatten();
        let ports = listed.filter_map(Port::map).collect();
        // A container's own name is the one without another container's in front of it.
        let names = self.names.unwrap_or_default();
        let own = names.iter().filter_map(|name| name.strip_prefix('/'));
        let name = own.into_iter().find(|name| !name.contains('/'));
        let networks = self.network_settings.and_then(|settings| settings.networks);
        let (mut endpoints, mut titles) = (Vec::new(), BTreeMap::new());
        for (title, membership) in networks.into_iter().flatten() {
            let Some(membership) = membership else { continue };
            let network: Option<AliasId> =
                given(membership.network).map(|id| parsed("network", &id)).transpose()?;
            let found = endpoint(membership.endpoint, name, [membership.v4, membership.v6])?;
            titles.extend(network.clone().zip(title.parse().ok()));
            endpoints.extend(found.map(|endpoint| (network, endpoint)));
        }
        Ok(super::Container { endpoints, networks: titles, ports })
    }
}

impl Port {
    fn map(self) -> Option<PortMap> {
        Some(PortMap {
            host: given(self.host).map(|host| host.parse()).transpose().ok()?,
            host_port: NonZeroU16::new(self.public_port?)?,
            container_port: NonZeroU16::new(self.private_port?)?,
            protocol: self.protocol?.parse().ok()?,
        })
    }
}

/// Addresses come with their subnet's length, and without.
fn endpoint(
    id: Option<String>,
    name: Option<&str>,
    addresses: [Option<String>; 2],
) -> Result<Option<Endpoint>> {
    let Some(id) = given(id) else { return Ok(None) };
    let given = addresses.into_iter().filter_map(given);
    let addresses = given.map(|text| {
        let address = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
        parsed::<IpAddr>("address", address)
    });
    Ok(Some(Endpoint {
        id: parsed("endpoint", &id)?,
        name: name.and_then(|name| name.parse().ok()),
        addresses: addresses.collect::<Result<_>>()?,
    }))
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn parsed<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T> {
    let shown: String = text.chars().take(80).collect();
    text.parse().map_err(|why| Error::try_again(format!("its {what} {shown:?}: {why}")))
}
