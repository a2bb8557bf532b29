//! The calls, each one request.

use model::{ResourceId, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::decode::field;
use super::{
    Filter, FloatingIp, NetworkResource, NewFloatingIp, NewGroup, NewNetwork, NewPool, NewPort,
    NewRule, NewSubnet, Of, PortChange, PortResource, Request, SecurityGroup, SubPort, SubnetPool,
    SubnetResource, Tagged, Transport, Trunk, Verb,
};

/// Neutron's API over a transport.
#[derive(Clone, Copy)]
pub struct Api<'a> {
    transport: &'a dyn Transport,
}

impl<'a> Api<'a> {
    /// Over this.
    pub fn new(transport: &'a dyn Transport) -> Self {
        Self { transport }
    }

    /// The networks that pass the filter.
    pub fn networks(&self, filter: Filter<'_>) -> Result<Vec<NetworkResource>> {
        self.list("networks", "networks", filter)
    }

    /// Makes a network.
    pub fn create_network(&self, network: &NewNetwork) -> Result<NetworkResource> {
        let find = [("description", network.description.clone())];
        self.create("networks", "network", network, Some(&find))
    }

    /// Removes a network; one that is gone is no error.
    pub fn delete_network(&self, id: Of<'_>) -> Result<()> {
        self.delete("networks", id)
    }

    /// Removes something, if it still has this revision; what is gone is no error.
    pub fn delete_unchanged(&self, what: Tagged, id: Of<'_>, revision: Option<u64>) -> Result<()> {
        let path = format!("v2.0/{}/{id}", what.path());
        self.gone(Request { revision, ..Request::of(Verb::Delete, &path) })
    }

    /// The subnets that pass the filter.
    pub fn subnets(&self, filter: Filter<'_>) -> Result<Vec<SubnetResource>> {
        self.list("subnets", "subnets", filter)
    }

    /// Makes a subnet.
    pub fn create_subnet(&self, subnet: &NewSubnet) -> Result<SubnetResource> {
        let of_network = ("network_id", subnet.network_id.to_string());
        let find = [of_network, ("cidr", subnet.cidr.to_string())];
        self.create("subnets", "subnet", subnet, Some(&find))
    }

    /// Removes a subnet; one that is gone is no error.
    pub fn delete_subnet(&self, id: Of<'_>) -> Result<()> {
        self.delete("subnets", id)
    }

    /// The subnet pools that pass the filter.
    pub fn pools(&self, filter: Filter<'_>) -> Result<Vec<SubnetPool>> {
        self.list("subnetpools", "subnetpools", filter)
    }

    /// Makes a subnet pool.
    pub fn create_pool(&self, pool: &NewPool) -> Result<SubnetPool> {
        let find = [("description", pool.description.clone())];
        self.create("subnetpools", "subnetpool", pool, Some(&find))
    }

    /// Removes a subnet pool, if it still has this revision; one that is gone is no error.
    pub fn delete_pool(&self, id: Of<'_>, revision: Option<u64>) -> Result<()> {
        let path = format!("v2.0/subnetpools/{id}");
        self.gone(Request { revision, ..Request::of(Verb::Delete, &path) })
    }

    /// The ports that pass the filter.
    pub fn ports(&self, filter: Filter<'_>) -> Result<Vec<PortResource>> {
        self.list("ports", "ports", filter)
    }

    /// The port of this id; none where it is gone.
    pub fn port(&self, id: Of<'_>) -> Result<Option<PortResource>> {
        self.find("ports", "port", id)
    }

    /// Makes a port.
    pub fn create_port(&self, port: &NewPort) -> Result<PortResource> {
        let described = ("description", port.description.clone());
        let find = match (port.is_unique, port.device_id.is_empty()) {
            (true, _) => vec![described],
            (false, false) => vec![("device_id", port.device_id.clone()), described],
            // It is one of many that are the same.
            (false, true) => Vec::new(),
        };
        let find = Some(find.as_slice()).filter(|find| !find.is_empty());
        self.create("ports", "port", port, find)
    }

    /// Makes several ports in one request: all or none.
    pub fn create_ports(&self, ports: &[NewPort]) -> Result<Vec<PortResource>> {
        let body = json!({ "ports": ports });
        let answer = self.send(Verb::Post, "v2.0/ports", Some(body), None)?;
        field(answer, "ports")
    }

    /// Changes a port, if it still has this revision.
    pub fn change_port(
        &self,
        id: Of<'_>,
        change: &PortChange,
        revision: Option<u64>,
    ) -> Result<PortResource> {
        let path = format!("v2.0/ports/{id}");
        let answer = self.send(Verb::Put, &path, Some(json!({ "port": change })), revision)?;
        field(answer, "port")
    }

    /// Removes a port; one that is gone is no error.
    pub fn delete_port(&self, id: Of<'_>) -> Result<()> {
        self.delete("ports", id)
    }

    /// Gives it these tags and no others.
    pub fn set_tags(&self, what: Tagged, id: Of<'_>, tags: &[String]) -> Result<()> {
        let path = format!("v2.0/{}/{id}/tags", what.path());
        self.send(Verb::Put, &path, Some(json!({ "tags": tags })), None).map(|_| ())
    }

    /// Adds one tag; one that exists is no error.
    pub fn add_tag(&self, what: Tagged, id: Of<'_>, tag: &str) -> Result<()> {
        let path = format!("v2.0/{}/{id}/tags/{tag}", what.path());
        self.send(Verb::Put, &path, None, None).map(|_| ())
    }

    /// Takes one tag away; one that is not there is no error.
    pub fn remove_tag(&self, what: Tagged, id: Of<'_>, tag: &str) -> Result<()> {
        let path = format!("v2.0/{}/{id}/tags/{tag}", what.path());
        self.gone(Request::of(Verb::Delete, &path))
    }

    /// The security groups that pass the filter.
    pub fn groups(&self, filter: Filter<'_>) -> Result<Vec<SecurityGroup>> {
        self.list("security-groups", "security_groups", filter)
    }

    /// Makes a security group.
    pub fn create_group(&self, group: &NewGroup) -> Result<SecurityGroup> {
        let find = [("name", group.name.clone()), ("description", group.description.clone())];
        self.create("security-groups", "security_group", group, Some(&find))
    }

    /// Adds rules to security groups, all or none.
    pub fn create_rules(&self, rules: &[NewRule]) -> Result<()> {
        let body = json!({ "security_group_rules": rules });
        self.send(Verb::Post, "v2.0/security-group-rules", Some(body), None).map(|_| ())
    }

    /// Removes a rule of a security group; one that is gone is no error.
    pub fn delete_rule(&self, id: Of<'_>) -> Result<()> {
        self.delete("security-group-rules", id)
    }

    /// Removes a security group; one that is gone is no error.
    pub fn delete_group(&self, id: Of<'_>) -> Result<()> {
        self.delete("security-groups", id)
    }

    /// The floating IP addresses that pass the filter.
    pub fn floating_ips(&self, filter: Filter<'_>) -> Result<Vec<FloatingIp>> {
        self.list("floatingips", "floatingips", filter)
    }

    /// Makes a floating IP address.
    pub fn create_floating_ip(&self, wanted: &NewFloatingIp) -> Result<FloatingIp> {
        let of_port = ("port_id", wanted.port_id.to_string());
        let find = [of_port, ("description", wanted.description.clone())];
        self.create("floatingips", "floatingip", wanted, Some(&find))
    }

    /// Removes a floating IP address; one that is gone is no error.
    pub fn delete_floating_ip(&self, id: Of<'_>) -> Result<()> {
        self.delete("floatingips", id)
    }

    /// The trunks that pass the filter.
    pub fn trunks(&self, filter: Filter<'_>) -> Result<Vec<Trunk>> {
        self.list("trunks", "trunks", filter)
    }

    /// Makes a trunk of a port.
    pub fn create_trunk(&self, name: &str, port: Of<'_>) -> Result<Trunk> {
        let find = [("port_id", port.to_string())];
        let trunk = json!({ "name": name, "port_id": port });
        self.create("trunks", "trunk", &trunk, Some(&find))
    }

    /// Removes a trunk; one that is gone is no error.
    pub fn delete_trunk(&self, id: Of<'_>) -> Result<()> {
        self.delete("trunks", id)
    }

    /// Lets a trunk carry more ports, if it still has this revision.
    pub fn add_subports(&self, id: Of<'_>, ports: &[SubPort], revision: Option<u64>) -> Result<()> {
        let path = format!("v2.0/trunks/{id}/add_subports");
        self.send(Verb::Put, &path, Some(json!({ "sub_ports": ports })), revision).map(|_| ())
    }

    /// Lets a trunk carry a port no longer; one that it does not carry is no error.
    pub fn remove_subport(&self, id: Of<'_>, port: Of<'_>) -> Result<()> {
        let path = format!("v2.0/trunks/{id}/remove_subports");
        let body = Some(json!({ "sub_ports": [{ "port_id": port }] }));
        self.gone(Request { body, ..Request::of(Verb::Put, &path) })
    }

    /// The ids of the resources of a kind that pass the filter: `("qos/policies", "policies")`.
    pub fn ids(&self, path: &str, key: &str, filter: Filter<'_>) -> Result<Vec<ResourceId>> {
        #[derive(Deserialize)]
        struct Only {
            id: ResourceId,
        }
        let all: Vec<Only> = self.list(path, key, filter)?;
        Ok(all.into_iter().map(|only| only.id).collect())
    }

    /// How many more ports the project may have; none where there is no limit or no such figure.
    pub fn port_room(&self, project: &str) -> Result<Option<u64>> {
        let path = format!("v2.0/quotas/{project}/details");
        let answer = self.send(Verb::Get, &path, None, None)?;
        let ports = &answer["quota"]["port"];
        let figure = |key: &str| ports[key].as_i64().unwrap_or_default();
        let used = figure("used").saturating_add(figure("reserved"));
        Ok(u64::try_from(figure("limit"))
            .ok()
            .map(|limit| limit.saturating_sub(u64::try_from(used).unwrap_or_default())))
    }

    fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        filter: Filter<'_>,
    ) -> Result<Vec<T>> {
        let path = format!("v2.0/{path}");
        let request = Request { query: filter, ..Request::of(Verb::Get, &path) };
        field(self.transport.carry(&request)?, key)
    }

    fn find<T: DeserializeOwned>(&self, path: &str, key: &str, id: Of<'_>) -> Result<Option<T>> {
        match self.send(Verb::Get, &format!("v2.0/{path}/{id}"), None, None) {
            Ok(answer) => field(answer, key).map(Some),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        what: &impl Serialize,
        find: Option<Filter<'_>>,
    ) -> Result<T> {
        let (path, body) = (format!("v2.0/{path}"), Some(json!({ key: what })));
        let request = Request { body, find, ..Request::of(Verb::Post, &path) };
        field(self.transport.carry(&request)?, key)
    }

    fn delete(&self, path: &str, id: Of<'_>) -> Result<()> {
        let path = format!("v2.0/{path}/{id}");
        self.gone(Request::of(Verb::Delete, &path))
    }

    fn gone(&self, request: Request<'_>) -> Result<()> {
        match self.transport.carry(&request) {
            Ok(_) => Ok(()),
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn send(
        &self,
        verb: Verb,
        path: &str,
        body: Option<Value>,
        revision: Option<u64>,
    ) -> Result<Value> {
        self.transport.carry(&Request { body, revision, ..Request::of(verb, path) })
    }
}

/// Neutron writes some numbers as texts.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    use serde::de::Error as _;
    match Value::deserialize(from)? {
        Value::Number(number) => number.as_u64().and_then(|number| u8::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| D::Error::custom("no small number"))
}
