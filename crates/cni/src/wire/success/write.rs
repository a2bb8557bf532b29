//! Writing a result in any version.

use model::{Dns, Error, Family, Result, Route};
use serde_json::{Map, Value, json};

use super::{Interface, Ip, Success};
use crate::wire::Version;

/// What the reference says of a result without addresses, which 0.1.0 and 0.2.0 cannot say.
pub(crate) const NO_ADDRESS: &str = "cannot convert: no valid IP addresses";

impl Success {
    /// The result as JSON of `version`, equal to what the reference prints.
    ///
    /// Fails for 0.1.0 and 0.2.0 where there is no address, which those cannot say.
    pub fn render(&self, version: Version) -> Result<Value> {
        match version {
            Version::V010 | Version::V020 => self.by_family(version),
            Version::V030 | Version::V031 | Version::V040 => Ok(self.lists(version, true)),
            Version::V100 | Version::V110 => Ok(self.lists(version, false)),
        }
    }

    fn lists(&self, version: Version, old: bool) -> Value {
        let mut object = Map::new();
        object.insert("cniVersion".into(), json!(version.as_str()));
        let interfaces = self.interfaces.iter().map(|it| interface(it, old)).collect();
        put_list(&mut object, "interfaces", interfaces);
        put_list(&mut object, "ips", self.ips.iter().map(|it| ip(it, old)).collect());
        put_list(&mut object, "routes", self.routes.iter().map(route).collect());
        let resolver = dns(&self.dns);
        if old || !resolver.is_empty() {
            object.insert("dns".into(), Value::Object(resolver));
        }
        Value::Object(object)
    }

    fn by_family(&self, version: Version) -> Result<Value> {
        let mut object = Map::new();
        object.insert("cniVersion".into(), json!(version.as_str()));
        for (key, family) in [("ip4", Family::V4), ("ip6", Family::V6)] {
            let first = self.ips.iter().find(|ip| Family::of(&ip.address) == family);
            let Some(first) = first else { continue };
            let mut config = Map::new();
            config.insert("ip".into(), json!(first.address.to_string()));
            put_text(&mut config, "gateway", first.gateway.as_ref());
            let routes = self.routes.iter().filter(|route| Family::of(&route.dst) == family);
            put_list(&mut config, "routes", routes.map(bare_route).collect());
            object.insert(key.into(), Value::Object(config));
        }
        if object.len() == 1 {
            return Err(Error::invalid(NO_ADDRESS));
        }
        object.insert("dns".into(), Value::Object(dns(&self.dns)));
        Ok(Value::Object(object))
    }
}

fn interface(interface: &Interface, old: bool) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), json!(interface.name));
    put_filled(&mut object, "mac", &interface.mac);
    put_filled(&mut object, "sandbox", &interface.sandbox);
    if !old {
        put_number(&mut object, "mtu", interface.mtu);
        put_filled(&mut object, "socketPath", &interface.socket_path);
        put_filled(&mut object, "pciID", &interface.pci_id);
    }
    Value::Object(object)
}

fn ip(ip: &Ip, old: bool) -> Value {
    let mut object = Map::new();
    if old {
        let version = match Family::of(&ip.address) {
            Family::V4 => "4",
            Family::V6 => "6",
        };
        object.insert("version".into(), json!(version));
    }
    object.insert("address".into(), json!(ip.address.to_string()));
    put_text(&mut object, "gateway", ip.gateway.as_ref());
    if let Some(interface) = ip.interface {
        object.insert("interface".into(), json!(interface));
    }
    Value::Object(object)
}

fn route(route: &Route) -> Value {
    let Value::Object(mut object) = bare_route(route) else { return Value::Null };
    put_number(&mut object, "mtu", route.mtu);
    put_number(&mut object, "advmss", route.advmss);
    put_number(&mut object, "priority", route.priority);
    put_number(&mut object, "table", route.table);
    put_number(&mut object, "scope", route.scope.map(u32::from));
    Value::Object(object)
}

fn bare_route(route: &Route) -> Value {
    let mut object = Map::new();
    object.insert("dst".into(), json!(route.dst.to_string()));
    put_text(&mut object, "gw", route.via.as_ref());
    Value::Object(object)
}

fn dns(dns: &Dns) -> Map<String, Value> {
    let mut object = Map::new();
    let texts = |list: &[String]| list.iter().map(|text| json!(text)).collect();
    put_list(&mut object, "nameservers", texts(&dns.nameservers));
    put_text(&mut object, "domain", dns.domain.as_ref());
    put_list(&mut object, "search", texts(&dns.search));
    put_list(&mut object, "options", texts(&dns.options));
    object
}

fn put_list(object: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object.insert(key.into(), Value::Array(list));
    }
}

fn put_text(object: &mut Map<String, Value>, key: &str, text: Option<&impl ToString>) {
    if let Some(text) = text {
        object.insert(key.into(), json!(text.to_string()));
    }
}

fn put_filled(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.into(), json!(text));
    }
}

fn put_number(object: &mut Map<String, Value>, key: &str, number: Option<u32>) {
    if let Some(number) = number {
        object.insert(key.into(), json!(number));
    }
}
