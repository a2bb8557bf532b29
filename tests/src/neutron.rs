//! Neutron as a test asks it: without anything of the product's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, Reply};
use crate::neutron_lab::FullLab;
use crate::snapshot::report;

/// All that a project may have of ours. Security groups' rules, subports and the like are in them.
const KINDS: [&str; 8] = [
    "networks",
    "subnets",
    "subnetpools",
    "ports",
    "security-groups",
    "trunks",
    "floatingips",
    "routers",
];

/// Longer than anything takes that Neutron does in the background.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A project of its own in some Neutron.
#[derive(Clone, Debug)]
pub struct Project {
    pub(crate) id: String,
    /// Where Neutron itself listens.
    pub(crate) neutron: SocketAddr,
    pub(crate) asking: Asking,
}

/// Asks again where a token has expired on its way: on a busy machine a life of seconds is short.
pub(crate) fn in_time(mut ask: impl FnMut() -> Reply) -> Reply {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        let reply = ask();
        if reply.status != 401 {
            return reply;
        }
    }
    ask()
}

/// What tells Neutron who asks.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    /// The project's id, where Neutron believes it.
    Header,
    /// A token of Keystone's. Tokens of tests may live for seconds only: each call has its own.
    Token(FullLab, String),
}

impl Project {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// One call below `/v2.0`; `body` is sent unless it is null.
    ///
    /// # Panics
    /// When Neutron does not answer.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        let target = format!("/v2.0{path}");
        in_time(|| call(self.neutron, method, &target, &self.headers(), body).0)
    }

    /// What tells Neutron who asks.
    #[track_caller]
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        match &self.asking {
            Asking::Header => vec![("X-Project-Id".to_owned(), self.id.clone())],
            Asking::Token(lab, name) => vec![("X-Auth-Token".to_owned(), lab.token(name))],
        }
    }

    /// What a GET answers.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).ok()
    }

    /// What a PUT answers.
    #[track_caller]
    pub fn put(&self, path: &str, body: &Value) -> Value {
        self.call("PUT", path, body).ok()
    }

    /// Deletes one resource.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        self.call("DELETE", path, &Value::Null).ok();
    }

    /// A new resource, of one of the kinds that are named so in the API's bodies: `network`,
    /// `security_group`, …
    #[track_caller]
    pub fn create(&self, kind: &str, with: Value) -> Value {
        let path = format!("/{}s", kind.replace('_', "-"));
        self.call("POST", &path, &json!({ kind: with })).ok()[kind].take()
    }

    /// The project's resources of a kind, such as `ports`, that `query` asks for.
    #[track_caller]
    pub fn list(&self, kind: &str, query: &str) -> Vec<Value> {
        let path = format!("/{kind}?project_id={}&{query}", self.id);
        let mut answer = self.get(path.trim_end_matches('&'));
        let Value::Array(found) = answer[kind.replace('-', "_")].take() else {
            panic!("{kind}: {answer}")
        };
        found
    }

    /// The only such resource.
    #[track_caller]
    pub fn only(&self, kind: &str, query: &str) -> Value {
        let mut found = self.list(kind, query);
        assert_eq!(found.len(), 1, "{kind} with {query}: {found:#?}");
        found.remove(0)
    }

    /// Asks for a resource until `is` is true of it.
    ///
    /// # Panics
    /// When it does not become so, with what it is then.
    #[track_caller]
    pub fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = self.get(path);
            if is(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "it stays so: {answer:#}");
            crate::glance();
        }
    }

    /// A network with one subnet, as an operator makes it; the ids of both.
    #[track_caller]
    pub fn network(&self, name: &str, cidr: &str) -> (String, String) {
        let network = id(&self.create("network", json!({"name": name})));
        (network.clone(), self.subnet(&network, name, cidr))
    }

    /// A further subnet of a network; its id.
    #[track_caller]
    pub fn subnet(&self, network: &str, name: &str, cidr: &str) -> String {
        let version = if cidr.contains(':') { 6 } else { 4 };
        let with =
            json!({"network_id": network, "name": name, "cidr": cidr, "ip_version": version});
        id(&self.create("subnet", with))
    }

    /// All that is the project's.
    #[track_caller]
    pub fn everything(&self) -> Everything {
        let mut found = BTreeMap::new();
        for kind in KINDS {
            for resource in self.list(kind, "") {
                found.insert((kind, id(&resource)), lasting(resource));
            }
        }
        Everything(found)
    }
}

/// The resources of a project, by kind and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Everything(BTreeMap<(&'static str, String), Value>);

impl Everything {
    /// What came (`+`) and went (`-`) since `before`, one line each. Something that changed does
    /// both. Neutron's own are left out: the default security group, that comes with the first
    /// network, and ports of its DHCP and routers.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        report(&before.lines(), &self.lines())
    }

    /// How many of a kind there are.
    pub fn count(&self, kind: &str) -> usize {
        let all = self.0.iter().filter(|((other, _), value)| *other == kind && !is_neutrons(value));
        all.count()
    }

    fn lines(&self) -> BTreeSet<String> {
        let ours = self.0.iter().filter(|(_, value)| !is_neutrons(value));
        ours.map(|((kind, id), value)| format!("{kind} {id} {value}")).collect()
    }
}

fn is_neutrons(resource: &Value) -> bool {
    let owner = resource["device_owner"].as_str().unwrap_or_default();
    let is_default = resource["name"] == "default" && resource["security_group_rules"].is_array();
    is_default || ["network:dhcp", "network:distributed"].contains(&owner)
}

/// Without what changes of itself: times, revisions, states and what is another resource's.
fn lasting(mut resource: Value) -> Value {
    if let Some(fields) = resource.as_object_mut() {
        let passing =
            ["created_at", "updated_at", "revision_number", "status", "subnets", "dns_assignment"];
        fields.retain(|name, _| !passing.contains(&name.as_str()));
        if let Some(tags) = fields.get_mut("tags").and_then(Value::as_array_mut) {
            tags.sort_by_key(Value::to_string);
        }
    }
    resource
}

/// A resource's id.
#[track_caller]
pub fn id(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_else(|| panic!("no id: {resource}")).to_owned()
}

/// One call of a service at `address`; the answer and its headers.
#[track_caller]
pub(crate) fn call(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: &Value,
) -> (Reply, Vec<(String, String)>) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Connection: close\r\nContent-Type: application/json\r\n");
    head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let answer = TcpStream::connect(address).and_then(|stream| {
        stream.set_read_timeout(Some(4 * TIMEOUT))?;
        let (status, mut said) = http::exchange(stream, head.as_bytes())?;
        let headers = said.headers().to_vec();
        let mut body = Vec::new();
        said.read_to_end(&mut body)?;
        Ok((Reply { status, body }, headers))
    });
    answer.unwrap_or_else(|error| panic!("{method} {target} at {address}: {error}"))
}
