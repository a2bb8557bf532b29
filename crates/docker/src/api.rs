//! The API of a Docker Engine, as far as the reconciler needs it (Docker Engine API 1.41 and later;
//! the paths carry no version, so that each engine uses its own).
//!
//! Mostly lists are asked for. While an engine calls its network driver it holds the container's
//! lock: a program that inspects that container then waits for the engine, which waits for us.

mod decode;
mod events;
mod http;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{
    AliasId, ContainerId, EngineId, Error, HostName, IpNet, NetworkName, OwnerName, PortMap, Result,
};
use serde::de::DeserializeOwned;

pub use events::{Events, Named, News};
pub use shared::{SharedIn, SharedList};

/// An engine, by the socket on which it serves its API.
#[derive(Clone, Debug)]
pub struct Api {
    socket: PathBuf,
    timeout: Duration,
}

/// A network, as an engine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The engine's id of it.
    pub id: AliasId,
    /// Its name for people; `None` if no network of Spoke's could have the name.
    pub name: Option<NetworkName>,
    /// Its network driver.
    pub driver: String,
    /// Its IPAM driver.
    pub ipam: String,
    /// How far it reaches.
    pub reach: Reach,
    /// Its subnets.
    pub subnets: Vec<Subnet>,
}

/// How far a network reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It exists on this engine alone.
    Local,
    /// Swarm decides on its hosts and attachments, its ingress network among them.
    Swarm,
    /// Nowhere: other networks are made after it (`docker network create --config-only`).
    Template,
}

/// A subnet of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The whole of it.
    pub net: IpNet,
    /// The part of it that containers get their addresses from, where one was named.
    pub part: Option<IpNet>,
}

/// A container's endpoint on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The engine's id of it.
    pub id: ContainerId,
    /// The container's name.
    pub name: Option<OwnerName>,
    /// Its addresses, of both families.
    pub addresses: Vec<std::net::IpAddr>,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its endpoints, each on the network of that id.
    pub endpoints: Vec<(Option<AliasId>, Endpoint)>,
    /// What the engine calls those networks.
    pub networks: BTreeMap<AliasId, NetworkName>,
    /// The ports of the host that the engine itself maps to it. What cannot be understood is left
    /// out.
    pub ports: Vec<PortMap>,
}

/// What a container is called at one of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The engine's id of the endpoint.
    pub endpoint: ContainerId,
    /// The engine's id of the network, where it says that.
    pub network: Option<AliasId>,
    /// The container's name.
    pub owner: Option<OwnerName>,
    /// What else it is called there.
    pub names: Vec<HostName>,
}

/// What an engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its own id, which stays as long as its data do; none where it has none.
    pub id: Option<EngineId>,
    /// Whether containers go on while it does not run, and are restored when it starts (`live-restore`).
    pub restores: bool,
}

/// How long a container that may be starting is waited for.
const STARTING: Duration = Duration::from_millis(500);

impl Api {
    /// The engine that serves on `socket`. Each whole request has `timeout`, from connecting to the
    /// answer's last byte.
    pub fn new(socket: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self { socket: socket.into(), timeout }
    }

    /// Where the engine serves.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The engine's version, such as `28.5.2` (`GET /version`).
    pub fn version(&self) -> Result<String> {
        let version: decode::Version = self.get("/version")?;
        Ok(version.version())
    }

    /// What the engine says of itself (`GET /info`).
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn about(&self) -> Result<About> {
        let info: decode::Info = self.get("/info")?;
        Ok(About { id: info.id(), restores: info.restores() })
    }

    /// Every network that the engine knows (`GET /networks`).
    pub fn networks(&self) -> Result<Vec<Network>> {
        let listed: Vec<decode::Network> = self.get("/networks")?;
        listed.into_iter().map(|network| self.understood(network.network())).collect()
    }

    /// One network (`GET /networks/{id}`). None if there is no such network any more.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub fn network(&self, id: &AliasId) -> Result<Option<Network>> {
        let found: Option<decode::Network> = self.find(&format!("/networks/{id}"))?;
        found.map(|network| self.understood(network.network())).transpose()
    }

    /// The endpoints of a network: those of running containers (`GET /networks/{id}`). None if
    /// there is no such network any more.
    pub fn endpoints(&self, network: &AliasId) -> Result<Option<Vec<Endpoint>>> {
        let found: Option<decode::Network> = self.find(&format!("/networks/{network}"))?;
        found.map(|network| self.understood(network.endpoints())).transpose()
    }

    /// Every running container (`GET /containers/json`).
    pub fn containers(&self) -> Result<Vec<Container>> {
        let listed: Vec<decode::Container> = self.get("/containers/json")?;
        listed.into_iter().map(|container| self.understood(container.container())).collect()
    }

    /// The running containers that are on one of these networks.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub fn running_on(&self, networks: &BTreeSet<&AliasId>) -> Result<Vec<Named>> {
        let listed: Vec<decode::Container> = self.get("/containers/json")?;
        let ids = listed.iter().filter_map(|container| container.on(networks));
        Ok(ids.map(|container| Named { container, runs: true }).collect())
    }

    /// The endpoints of every running container, in all networks.
    pub fn running(&self) -> Result<Vec<(Option<AliasId>, Endpoint)>> {
        Ok(self.containers()?.into_iter().flat_map(|container| container.endpoints).collect())
    }

    /// What a container is called, by endpoint (`GET /containers/{id}/json`). None if it is gone. One that is
    /// being started is not waited for: the engine reports when it runs.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub fn names(&self, of: &Named) -> Result<Option<Vec<Names>>> {
        let timeout = if of.runs { self.timeout } else { self.timeout.min(STARTING) };
        let asked = Self { timeout, ..self.clone() };
        let path = format!("/containers/{}/json", of.container);
        let found: Option<decode::Inspected> = asked.find(&path)?;
        found.map(|container| self.understood(container.names())).transpose()
    }

    /// Whether the container of a name, or an id, runs (`GET /containers/{name}/json`). None if there is none.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub fn runs(&self, name: &str) -> Result<Option<bool>> {
        let is_safe = |it: char| it.is_ascii_alphanumeric() || "_.-".contains(it);
        if name.is_empty() || !name.chars().all(is_safe) {
            return Ok(None);
        }
        let found: Option<decode::Standing> = self.find(&format!("/containers/{name}/json"))?;
        Ok(found.and_then(|found| found.state?.running))
    }

    /// Those of these containers that run by now (`GET /containers/json`), for which no call has to wait.
    ///
    /// # Errors
    /// Where the engine does not answer.
    pub fn running_among<'c>(
        &self,
        containers: impl Iterator<Item = &'c ContainerId>,
    ) -> Result<BTreeSet<ContainerId>> {
        let ids: Vec<String> = containers.map(|id| format!("%22{id}%22")).collect();
        let filters = format!("%7B%22id%22%3A%5B{}%5D%7D", ids.join("%2C"));
        let listed: Vec<decode::Container> =
            self.get(&format!("/containers/json?filters={filters}"))?;
        Ok(listed.iter().filter_map(decode::Container::id).collect())
    }

    /// What happens to networks and containers from now on (`GET /events`). An engine that is not
    /// ready to serve has none to tell.
    pub fn events(&self) -> Result<Events> {
        let deadline = Instant::now() + self.timeout;
        Events::open(&self.socket, deadline).map_err(|error| self.failed("/events", error))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let missing = || self.failed(path, "404 Not Found");
        self.find(path)?.ok_or_else(missing)
    }

    fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let deadline = Instant::now() + self.timeout;
        let failed = |error| self.failed(path, error);
        let reply = http::get(&self.socket, path, deadline).map_err(failed)?;
        match reply.status {
            200 => {}
            404 => return Ok(None),
            status => return Err(self.failed(path, format!("status {status}"))),
        }
        let body = BufReader::new(reply.body);
        serde_json::from_reader(body).map(Some).map_err(|error| self.failed(path, error))
    }

    fn understood<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.context(format!("Docker Engine at {}", self.socket.display())))
    }

    fn failed(&self, path: &str, why: impl Display) -> Error {
        let socket = self.socket.display();
        Error::try_again(format!("Docker Engine at {socket} does not answer GET {path}: {why}"))
    }
}
