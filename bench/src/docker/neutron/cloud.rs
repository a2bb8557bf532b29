//! What the stand-in knows: collections of JSON objects, with as much of Neutron's sense as two
//! plugins notice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::http::{Answered, Asked};

/// The collections, with the name of one member.
const KINDS: [(&str, &str); 6] = [
    ("networks", "network"),
    ("subnets", "subnet"),
    ("subnetpools", "subnetpool"),
    ("ports", "port"),
    ("security-groups", "security_group"),
    ("security-group-rules", "security_group_rule"),
];

/// Extensions that the plugins look for.
const EXTENSIONS: [&str; 4] =
    ["subnet_allocation", "standard-attr-tag", "revision-if-match", "binding"];

/// Keystone and Neutron.
pub(super) struct Cloud {
    url: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: BTreeMap<&'static str, BTreeMap<String, Map<String, Value>>>,
    /// Addresses that ports have, by subnet.
    held: BTreeMap<String, BTreeSet<IpAddr>>,
    /// How many objects were made, ever.
    made: u64,
}

impl Cloud {
    /// Whose endpoint is at this URL.
    /// Its ids begin with `series`, so that what is left of one's ports is in no other one's way.
    pub(super) fn new(url: &str, series: u16) -> Self {
        let state = State { made: u64::from(series) << 16, ..State::default() };
        Self { url: url.to_owned(), state: Mutex::new(state) }
    }

    /// How many members a collection has.
    pub(super) fn count(&self, kind: &str) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.kinds.get(kind).map_or(0, BTreeMap::len)
    }

    /// Carries out a request.
    pub(super) fn answer(&self, asked: &Asked) -> Answered {
        let words: Vec<&str> = asked.path.split('/').filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["v3", "auth", "tokens"] => Answered { status: 201, body: self.token(), token: true },
            ["v3"] => done(200, json!({ "version": self.version() })),
            [] => done(300, json!({ "versions": { "values": [self.version()] } })),
            ["v2.0", rest @ ..] => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).answer(asked, rest)
            }
            _ => refused(404, "there is nothing"),
        }
    }

    fn version(&self) -> Value {
        let link = json!([{ "rel": "self", "href": format!("{}/v3/", self.url) }]);
        json!({ "id": "v3.14", "status": "stable", "links": link })
    }

    fn token(&self) -> Value {
        let endpoint = |interface: &str| {
            json!({
                "id": interface, "interface": interface, "region": "RegionOne",
                "region_id": "RegionOne", "url": self.url,
            })
        };
        let endpoints: Vec<Value> = ["public", "internal", "admin"].map(endpoint).into();
        json!({ "token": {
            "methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": { "id": "u", "name": "u", "domain": { "id": "default", "name": "Default" } },
            "project": { "id": "p", "name": "p", "domain": { "id": "default", "name": "Default" } },
            "roles": [{ "id": "r", "name": "admin" }],
            "catalog": [{ "id": "n", "type": "network", "name": "neutron", "endpoints": endpoints }],
        } })
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, words: &[&str]) -> Answered {
        match (asked.method.as_str(), words) {
            ("GET", ["extensions"]) => {
                let all: Vec<Value> = EXTENSIONS.iter().map(|alias| extension(alias)).collect();
                done(200, json!({ "extensions": all }))
            }
            ("GET", ["extensions", alias]) if EXTENSIONS.contains(alias) => {
                done(200, json!({ "extension": extension(alias) }))
            }
            (method, [kind, rest @ ..]) => match KINDS.iter().find(|(name, _)| name == kind) {
                Some((kind, one)) => self.resource(asked, method, (kind, one), rest),
                None => refused(404, "there is no such collection"),
            },
            _ => refused(404, "there is nothing"),
        }
    }

    fn resource(
        &mut self,
        asked: &Asked,
        method: &str,
        (kind, one): (&'static str, &'static str),
        rest: &[&str],
    ) -> Answered {
        let key = kind.replace('-', "_");
        match (method, rest) {
            ("GET", []) => {
                let all = self.kinds.entry(kind).or_default().values();
                let found: Vec<&Map<_, _>> = all.filter(|it| passes(it, &asked.query)).collect();
                done(200, json!({ key: found }))
            }
            ("POST", []) => match asked.body.get(&key).and_then(Value::as_array) {
                Some(many) => {
                    let made = many.iter().map(|wanted| self.make(kind, wanted));
                    match made.collect::<Option<Vec<_>>>() {
                        Some(made) => done(201, json!({ key: made })),
                        None => refused(409, "it is taken"),
                    }
                }
                None => match self.make(kind, &asked.body[one]) {
                    Some(made) => done(201, json!({ one: made })),
                    None => refused(409, "it is taken"),
                },
            },
            (method, [id, rest @ ..]) => self.member(asked, method, (kind, one, id), rest),
            _ => refused(405, "that cannot be done"),
        }
    }

    fn member(
        &mut self,
        asked: &Asked,
        method: &str,
        (kind, one, id): (&'static str, &'static str, &str),
        rest: &[&str],
    ) -> Answered {
        let Some(there) = self.kinds.entry(kind).or_default().get_mut(id) else {
            return refused(404, "it is not there");
        };
        match (method, rest) {
            ("GET", []) => done(200, json!({ one: there })),
            ("PUT", []) => {
                let changes = asked.body[one].as_object().cloned().unwrap_or_default();
                there.extend(changes);
                bind(there);
                done(200, json!({ one: there }))
            }
            ("PUT", ["tags"]) => {
                there.insert("tags".to_owned(), asked.body["tags"].clone());
                done(200, json!({ "tags": asked.body["tags"] }))
            }
            ("PUT", ["tags", tag]) => {
                if let Some(tags) = there.get_mut("tags").and_then(Value::as_array_mut) {
                    tags.push(json!(tag));
                }
                done(201, Value::Null)
            }
            ("DELETE", ["tags", tag]) => {
                if let Some(tags) = there.get_mut("tags").and_then(Value::as_array_mut) {
                    tags.retain(|own| own != tag);
                }
                done(204, Value::Null)
            }
            ("DELETE", []) => {
                if let Some(gone) = self.kinds.entry(kind).or_default().remove(id) {
                    self.free(&gone);
                }
                done(204, Value::Null)
            }
            _ => refused(405, "that cannot be done"),
        }
    }

    /// A new member; none where an address that it wants is taken.
    fn make(&mut self, kind: &'static str, wanted: &Value) -> Option<Map<String, Value>> {
        self.made += 1;
        let id = format!("{:08x}-0000-4000-8000-{:012x}", self.made, self.made);
        let mut new = wanted.as_object().cloned().unwrap_or_default();
        new.insert("id".to_owned(), json!(id));
        let defaults = json!({
            "tags": [], "project_id": "p", "tenant_id": "p", "revision_number": 1, "name": "",
            "description": "", "shared": false,
        });
        default(&mut new, defaults);
        match kind {
            "networks" => {
                default(&mut new, json!({ "mtu": 1442, "subnets": [], "status": "ACTIVE" }));
            }
            "subnets" => {
                let gateway = first(&new["cidr"], 1).map(|ip| json!(ip));
                default(
                    &mut new,
                    json!({ "host_routes": [], "dns_nameservers": [], "ip_version": 4,
                            "gateway_ip": gateway, "subnetpool_id": null }),
                );
                let held = new["gateway_ip"].as_str().and_then(|ip| ip.parse().ok());
                self.held.entry(id.clone()).or_default().extend::<Option<IpAddr>>(held);
            }
            "ports" => self.address(&mut new)?,
            _ => {}
        }
        self.kinds.entry(kind).or_default().insert(id, new.clone());
        Some(new)
    }

    /// Gives a port its addresses and the rest that a port has.
    fn address(&mut self, port: &mut Map<String, Value>) -> Option<()> {
        let mut ips = port.get("fixed_ips").and_then(Value::as_array).cloned().unwrap_or_default();
        for ip in &mut ips {
            let subnet = ip["subnet_id"].as_str()?.to_owned();
            let cidr = self.kinds.get("subnets")?.get(&subnet)?.get("cidr")?.clone();
            let held = self.held.entry(subnet).or_default();
            let chosen = match ip["ip_address"].as_str() {
                Some(wanted) => Some(wanted.parse().ok()?).filter(|ip| !held.contains(ip)),
                None => (2..).map_while(|at| first(&cidr, at)).find(|ip| !held.contains(ip)),
            }?;
            held.insert(chosen);
            ip["ip_address"] = json!(chosen);
        }
        port.insert("fixed_ips".to_owned(), json!(ips));
        let octets = self.made.to_be_bytes();
        let mac = format!(
            "fa:16:{:02x}:{:02x}:{:02x}:{:02x}",
            octets[4], octets[5], octets[6], octets[7]
        );
        let defaults = json!({
            "mac_address": mac, "device_id": "", "device_owner": "", "status": "ACTIVE",
            "admin_state_up": true, "security_groups": [], "allowed_address_pairs": [],
            "binding:vnic_type": "normal", "binding:profile": {}, "binding:vif_details": {},
            "binding:host_id": "",
        });
        default(port, defaults);
        bind(port);
        Some(())
    }

    fn free(&mut self, port: &Map<String, Value>) {
        for ip in port.get("fixed_ips").and_then(Value::as_array).into_iter().flatten() {
            let subnet = ip["subnet_id"].as_str().unwrap_or_default();
            if let (Some(held), Some(Ok(address))) =
                (self.held.get_mut(subnet), ip["ip_address"].as_str().map(str::parse))
            {
                held.remove(&address);
            }
        }
    }
}

/// A port that has a host is bound to it.
fn bind(port: &mut Map<String, Value>) {
    if let Some(host) = port.get("binding:host_id").and_then(Value::as_str) {
        let kind = if host.is_empty() { "unbound" } else { "tap" };
        port.insert("binding:vif_type".to_owned(), json!(kind));
    }
}

fn extension(alias: &str) -> Value {
    json!({ "alias": alias, "name": alias, "description": "", "links": [] })
}

fn default(of: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (key, value) in defaults {
        of.entry(key).or_insert(value);
    }
}

/// The address so far behind the start of a subnet, within it.
fn first(cidr: &Value, at: u32) -> Option<IpAddr> {
    let net: ipnet::Ipv4Net = cidr.as_str()?.parse().ok()?;
    let address = Ipv4Addr::from(u32::from(net.network()).checked_add(at)?);
    (net.contains(&address) && address != net.broadcast()).then_some(IpAddr::V4(address))
}

fn passes(of: &Map<String, Value>, query: &[(String, String)]) -> bool {
    query.iter().all(|(key, wanted)| match key.as_str() {
        "fields" | "limit" | "marker" | "sort_key" | "sort_dir" => true,
        "tags" => {
            let has = |tag: &str| {
                of["tags"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|own| own.as_str() == Some(tag)))
            };
            wanted.split(',').all(has)
        }
        "fixed_ips" => {
            let ips = of.get("fixed_ips").and_then(Value::as_array);
            let Some((key, wanted)) = wanted.split_once('=') else { return true };
            ips.is_some_and(|ips| ips.iter().any(|ip| ip[key].as_str() == Some(wanted)))
        }
        key => match of.get(key) {
            Some(Value::String(text)) => text == wanted,
            Some(other) => {
                let reported = other.to_string();
                reported == wanted.to_lowercase()
            }
            None => false,
        },
    })
}

fn done(status: u16, body: Value) -> Answered {
    Answered { status, body, token: false }
}

fn refused(status: u16, why: &str) -> Answered {
    let error = json!({ "type": "StandIn", "message": why, "detail": "" });
    done(status, json!({ "NeutronError": error }))
}
