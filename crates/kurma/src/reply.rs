//! The answer of a plugin's `add`: a Result of CNI 0.1 or 0.2 (`ip4`, `ip6`, `dns`), or one of CNI
//! 0.3 to 1.1 (`ips`, `routes`), which is converted.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use model::{Dns, Error, IpNet, Result, Route, text};
use serde_json::{Map, Value, json};

/// More than this is no answer, in bytes.
pub const LONGEST: usize = 1 << 20;

/// A network's properties for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its IPv4 address.
    pub ip4: Option<Ip>,
    /// Its IPv6 address.
    pub ip6: Option<Ip>,
    /// Its resolver configuration; `None` where the answer has none.
    pub dns: Option<Dns>,
}

/// An address with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// With its subnet's prefix length.
    pub address: IpNet,
    /// Of its subnet.
    pub gateway: Option<IpAddr>,
    /// Of its family.
    pub routes: Vec<Route>,
}

impl Reply {
    /// Reads what a plugin wrote.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where it is nothing, no JSON, no object, or a field is not what it
    /// should be.
    pub fn read(output: &[u8]) -> Result<Self> {
        if output.trim_ascii().is_empty() {
            return Err(Error::invalid("the plugin answered nothing: it should print a Result"));
        }
        let value: Value = serde_json::from_slice(output).map_err(|cause| {
            let answer = text::shown(&String::from_utf8_lossy(output));
            Error::invalid(format!("the plugin's answer \"{answer}\" is no JSON")).because(cause)
        })?;
        Self::from_value(&value).map_err(|error| error.context("the plugin's answer"))
    }

    /// Reads the document, or what [`Reply::to_value`] made.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where it is no object, or a field is not what it should be.
    pub fn from_value(value: &Value) -> Result<Self> {
        let Value::Object(result) = value else {
            let what = format!("{} is no object", text::shown(&value.to_string()));
            return Err(Error::invalid(what));
        };
        let dns = get(result, "dns").map(dns).transpose()?.filter(|dns| *dns != Dns::default());
        if let Some(ips) = get(result, "ips") {
            return newer(result, ips, dns);
        }
        let ip4 = get(result, "ip4").map(|ip| old(ip, "ip4")).transpose()?;
        let ip6 = get(result, "ip6").map(|ip| old(ip, "ip6")).transpose()?;
        Ok(Self { ip4, ip6, dns })
    }

    /// The document: `ip4`, `ip6` and `dns`, each where there is something to say.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        let ips = [("ip4", &self.ip4), ("ip6", &self.ip6)];
        for (name, ip) in ips {
            object.extend(ip.as_ref().map(|ip| (name.to_owned(), write(ip))));
        }
        object.extend(self.dns.as_ref().map(|dns| ("dns".to_owned(), write_dns(dns))));
        Value::Object(object)
    }
}

/// A field as Go reads one: its name in any case, `null` is absent.
fn get<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let same = || object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v);
    object.get(name).or_else(same).filter(|value| !value.is_null())
}

fn wrong(path: &str, value: &Value, why: impl Display) -> Error {
    Error::invalid(format!("{path} is {}: {why}", text::shown(&value.to_string())))
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(path, value, "it should be an object"))
}

fn list<'a>(value: Option<&'a Value>, path: &str) -> Result<&'a [Value]> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(value) => Err(wrong(path, value, "it should be a list")),
    }
}

fn string<'a>(value: &'a Value, path: &str) -> Result<&'a str> {
    value.as_str().ok_or_else(|| wrong(path, value, "it should be a string"))
}

/// A field that may be missing or empty.
fn parsed<T: FromStr<Err: Display>>(
    of: &Map<String, Value>,
    name: &str,
    path: &str,
) -> Result<Option<T>> {
    let Some(value) = get(of, name) else { return Ok(None) };
    let path = format!("{path}.{name}");
    match string(value, &path)? {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|why| wrong(&path, value, why)),
    }
}

/// `ip4` or `ip6` of CNI 0.2.
fn old(value: &Value, path: &str) -> Result<Ip> {
    let ip = object(value, path)?;
    let address: Option<IpNet> = parsed(ip, "ip", path)?;
    let address = address.ok_or_else(|| wrong(path, value, "it has no \"ip\""))?;
    let family = if path == "ip4" { "an IPv4 address" } else { "an IPv6 address" };
    if address.addr().is_ipv4() != (path == "ip4") {
        return Err(wrong(path, value, format!("it should hold {family}")));
    }
    let routes = routes(get(ip, "routes"), &format!("{path}.routes"))?;
    Ok(Ip { address, gateway: parsed(ip, "gateway", path)?, routes })
}

/// CNI 0.3 to 1.1: of each family the first address, preferably one inside the pod.
fn newer(result: &Map<String, Value>, ips: &Value, dns: Option<Dns>) -> Result<Reply> {
    let interfaces = list(get(result, "interfaces"), "interfaces")?;
    let routes = routes(get(result, "routes"), "routes")?;
    let mut reply = Reply { dns, ..Reply::default() };
    let mut is_sure = [false; 2];
    for (place, value) in list(Some(ips), "ips")?.iter().enumerate() {
        let path = format!("ips[{place}]");
        let ip = object(value, &path)?;
        let address: Option<IpNet> = parsed(ip, "address", &path)?;
        let address = address.ok_or_else(|| wrong(&path, value, "it has no \"address\""))?;
        let interface = get(ip, "interface").and_then(Value::as_u64);
        let interface = interface.and_then(|at| interfaces.get(usize::try_from(at).ok()?));
        let is_inside = interface.and_then(Value::as_object).is_none_or(|interface| {
            get(interface, "sandbox").and_then(Value::as_str).is_some_and(|path| !path.is_empty())
        });
        let is_ip4 = address.addr().is_ipv4();
        let [sure4, sure6] = &mut is_sure;
        let (slot, sure) = match is_ip4 {
            true => (&mut reply.ip4, sure4),
            false => (&mut reply.ip6, sure6),
        };
        if slot.is_none() || (is_inside && !*sure) {
            let own = routes.iter().filter(|route| route.dst.addr().is_ipv4() == is_ip4);
            let gateway = parsed(ip, "gateway", &path)?;
            *slot = Some(Ip { address, gateway, routes: own.cloned().collect() });
            *sure = is_inside;
        }
    }
    Ok(reply)
}

fn routes(value: Option<&Value>, path: &str) -> Result<Vec<Route>> {
    let mut routes = Vec::new();
    for (place, value) in list(value, path)?.iter().enumerate() {
        let path = format!("{path}[{place}]");
        let route = object(value, &path)?;
        let dst: Option<IpNet> = parsed(route, "dst", &path)?;
        let dst = dst.ok_or_else(|| wrong(&path, value, "it has no \"dst\""))?;
        routes.push(Route::new(dst, parsed(route, "gw", &path)?));
    }
    Ok(routes)
}

fn dns(value: &Value) -> Result<Dns> {
    let dns = object(value, "dns")?;
    let texts = |name: &str| -> Result<Vec<String>> {
        let path = format!("dns.{name}");
        let list = list(get(dns, name), &path)?;
        list.iter().map(|value| word(value, &path)).collect()
    };
    let domain = get(dns, "domain").filter(|domain| *domain != "");
    Ok(Dns {
        nameservers: texts("nameservers")?,
        domain: domain.map(|value| word(value, "dns.domain")).transpose()?,
        search: texts("search")?,
        options: texts("options")?,
    })
}

/// It becomes a word of resolv.conf, so it must not become two, or a line.
fn word(value: &Value, path: &str) -> Result<String> {
    let word = string(value, path)?;
    let splits = |c: char| c.is_whitespace() || c.is_control();
    if word.is_empty() || word.len() > 256 || word.contains(splits) {
        return Err(wrong(path, value, "it should be one word"));
    }
    Ok(word.to_owned())
}

fn write(ip: &Ip) -> Value {
    let mut object = Map::new();
    object.insert("ip".to_owned(), json!(ip.address.to_string()));
    if let Some(gateway) = ip.gateway {
        object.insert("gateway".to_owned(), json!(gateway.to_string()));
    }
    if !ip.routes.is_empty() {
        let routes = ip.routes.iter().map(|route| match route.via {
            Some(via) => json!({"dst": route.dst.to_string(), "gw": via.to_string()}),
            None => json!({"dst": route.dst.to_string()}),
        });
        object.insert("routes".to_owned(), routes.collect());
    }
    Value::Object(object)
}

fn write_dns(dns: &Dns) -> Value {
    let mut object = Map::new();
    let lists =
        [("nameservers", &dns.nameservers), ("search", &dns.search), ("options", &dns.options)];
    for (name, list) in lists {
        if !list.is_empty() {
            object.insert(name.to_owned(), json!(list));
        }
    }
    object.extend(dns.domain.as_ref().map(|domain| ("domain".to_owned(), json!(domain))));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Kind;

    fn read(output: &str) -> Value {
        Reply::read(output.as_bytes()).unwrap().to_value()
    }

    #[test]
    fn a2_an_address_with_its_gateway() {
        let answer = r#"{"ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1"}}"#;
        assert_eq!(
            read(answer).to_string(),
            answer.replace(
                r#""ip":"10.1.2.3/24","gateway":"10.1.2.1""#,
                r#""gateway":"10.1.2.1","ip":"10.1.2.3/24""#,
            )
        );
        let full = json!({"ip4": {"ip": "10.1.2.3/24", "routes": [{"dst": "0.0.0.0/0"},
            {"dst": "10.9.0.0/16", "gw": "10.1.2.9"}]}, "ip6": {"ip": "fd00::5/64"}});
        assert_eq!(read(&full.to_string()), full);
    }

    #[test]
    fn a3_names_in_the_answer_do_not_count() {
        let answer = r#"{"name":"x","containerInterface":"y","ip4":{"ip":"10.1.2.3/24"}}"#;
        assert_eq!(read(answer), json!({"ip4": {"ip": "10.1.2.3/24"}}));
    }

    #[test]
    fn a4_an_empty_object_is_a_success_without_addresses() {
        assert_eq!(Reply::read(b"{}").unwrap(), Reply::default());
        assert_eq!(read(r#"{"ip4": null, "dns": null}"#), json!({}));
    }

    #[test]
    fn a5_a6_nothing_and_null_are_failures() {
        for bad in [
            "",
            " \n",
            "null",
            "[]",
            "7",
            "{",
            "hello",
            r#"{"ip4":7}"#,
            r#"{"ip4":{}}"#,
            r#"{"ip4":{"ip":"10.0.0.1"}}"#,
            r#"{"ip4":{"ip":"fd00::1/64"}}"#,
            r#"{"ips":[{"address":7}]}"#,
            r#"{"dns":{"search":["a b"]}}"#,
            r#"{"ip4":{"ip":"10.0.0.1/8","routes":[{}]}}"#,
            "{} {}",
        ] {
            let error = Reply::read(bad.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{bad}");
        }
        let error = Reply::read(br#"{"ip4":{"ip":"10.0.0"}}"#).unwrap_err().to_string();
        assert!(error.starts_with("the plugin's answer: ip4.ip is \\\"10.0.0\\\": "), "{error}");
    }

    #[test]
    fn a9_newer_results_are_converted() {
        let answer = json!({"cniVersion": "0.3.1",
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/n"}],
            "ips": [{"version": "4", "address": "10.0.0.1/24", "interface": 0},
                {"version": "4", "address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 1},
                {"version": "4", "address": "10.0.0.6/24", "interface": 1},
                {"version": "6", "address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "fd00::1"}], "dns": {}});
        assert_eq!(
            read(&answer.to_string()),
            json!({
            "ip4": {"ip": "10.0.0.5/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
            "ip6": {"ip": "fd00::5/64", "routes": [{"dst": "::/0", "gw": "fd00::1"}]}})
        );
        assert_eq!(read(r#"{"cniVersion":"1.0.0","ips":[]}"#), json!({}));
    }

    #[test]
    fn a11_blank_dns_says_nothing() {
        assert_eq!(Reply::read(br#"{"dns":{}}"#).unwrap().dns, None);
        assert_eq!(Reply::read(br#"{"dns":{"search":[],"domain":""}}"#).unwrap().dns, None);
        let full = json!({"dns": {"nameservers": ["9.9.9.9"], "domain": "d", "search": ["a.b"],
            "options": ["ndots:2"]}});
        assert_eq!(read(&full.to_string()), full);
    }
}
