//! The configuration of a plugin: by its type, as far as the kit knows it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use model::{Error, Result};
use serde_json::{Map, Value};

use super::super::run::Vars;
use super::CniTestSpec;

/// A larger file is refused, in bytes.
const LARGEST: u64 = 1 << 20;

/// The fields beside name, type and addresses; `true` for plugins that only change another's
/// interface.
const TYPES: [(&str, bool, &str); 12] = [
    ("bridge", false, r#""bridge":"kit0","isGateway":true,"ipMasq":true,"ipam":$"#),
    ("ptp", false, r#""ipMasq":true,"ipam":$"#),
    ("macvlan", false, r#""master":"kitm0","ipam":$"#),
    ("ipvlan", false, r#""master":"kitm0","ipam":$"#),
    ("vlan", false, r#""master":"kitm0","vlanId":7,"ipam":$"#),
    ("loopback", false, r#""loopback":true"#),
    ("tuning", true, r#""mtu":1400"#),
    (
        "portmap",
        true,
        r#""runtimeConfig":{"portMappings":[{"hostPort":$port,"containerPort":80,"protocol":"tcp"}]}"#,
    ),
    ("firewall", true, r#""backend":"iptables""#),
    (
        "bandwidth",
        true,
        r#""ingressRate":1000000,"ingressBurst":1000000,"egressRate":1000000,"egressBurst":1000000"#,
    ),
    ("sbr", true, r#""sbr":true"#),
    ("host-local", false, r#""ipam":$"#),
];

/// A user's own file: the plugin's configuration, and the plugins that come before it, as for a
/// runtime.
struct UserConfig {
    rest: String,
    before: Vec<Map<String, Value>>,
}

/// The plugins that a runtime calls before the one that is tested.
pub(super) fn before(spec: &CniTestSpec, data: &Path) -> Result<Vec<Map<String, Value>>> {
    let given = spec.config.as_ref().map(|path| given(path, &kind(spec), data)).transpose()?;
    Ok(given.map(|given| given.before).unwrap_or_default())
}

fn kind(spec: &CniTestSpec) -> String {
    spec.plugin.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The variables of every case.
pub(super) fn vars(spec: &CniTestSpec, data: &Path) -> Result<Vars> {
    let kind = kind(spec);
    let known = TYPES.iter().find(|(name, ..)| *name == kind);
    let is_ipam = kind == "host-local" || kind == "static";
    let ipam_type = if kind == "static" { "static" } else { "host-local" };
    let addresses = match ipam_type {
        "static" => format!(r#""addresses":[{{"address":"{}"}}]"#, address(spec)),
        _ => format!(
            r#""ranges":[[{{"subnet":"{}/24"}}]],"dataDir":"{}""#,
            spec.subnet.network(),
            data.display()
        ),
    };
    let ipam = format!(r#"{{"type":"{ipam_type}",{addresses},"routes":[{{"dst":"0.0.0.0/0"}}]}}"#);
    let (rest, is_based) = match &spec.config {
        Some(path) => {
            let UserConfig { rest, before } = given(path, &kind, data)?;
            (rest, !before.is_empty())
        }
        None => {
            let rest = known.map_or(r#""ipam":$"#, |(_, _, rest)| rest);
            (rest.replace("\"ipam\":$", &format!("\"ipam\":{ipam}")), false)
        }
    };
    let nameless = format!(r#""type":"{kind}",{rest}"#);
    let is_chained = is_based || known.is_some_and(|(_, is_chained, _)| *is_chained);
    let holds = |holds: bool| if holds { "yes" } else { "" };
    let vars = [
        ("given", format!(r#""name":"kit",{nameless}"#)),
        ("nameless", nameless),
        ("ifname", if kind == "loopback" { "lo" } else { "eth0" }.to_owned()),
        ("isloopback", holds(kind == "loopback").to_owned()),
        ("isipam", holds(is_ipam).to_owned()),
        ("ischained", holds(is_chained).to_owned()),
        ("based", holds(is_based).to_owned()),
        ("prev", String::new()),
    ];
    Ok(vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A user's own configuration of a plugin, or a list with it, without the kit's fields.
fn given(path: &Path, kind: &str, data: &Path) -> Result<UserConfig> {
    let failed = |cause| file::failed(format!("reading {}", path.display()), cause);
    let text = file::read(path, LARGEST).map_err(failed)?;
    let unreadable = || Error::invalid(format!("{} is no JSON object", path.display()));
    let map: Map<String, Value> = serde_json::from_slice(&text).map_err(|_| unreadable())?;
    let (mut own, mut before) = match map.get("plugins") {
        None => (map, Vec::new()),
        Some(list) => {
            let entries = list.as_array().into_iter().flatten().filter_map(Value::as_object);
            let entries: Vec<&Map<String, Value>> = entries.collect();
            let is_it = |entry: &&Map<String, Value>| {
                entry.get("type").and_then(Value::as_str) == Some(kind)
            };
            let at = entries.iter().position(is_it).ok_or_else(|| {
                let what = format!("the list {} has no plugin {kind}", path.display());
                Error::invalid(what)
            })?;
            let before = entries.iter().take(at).map(|entry| (*entry).clone()).collect();
            (entries.get(at).map(|entry| (*entry).clone()).unwrap_or_default(), before)
        }
    };
    for entry in before.iter_mut().chain([&mut own]) {
        for ours in ["cniVersion", "name", "prevResult"] {
            entry.remove(ours);
        }
        keep_from_host(entry, data);
    }
    own.remove("type");
    own.entry("kit").or_insert(Value::Bool(true));
    let text = numbered(&Value::Object(own));
    let rest = text.trim_start_matches('{').trim_end_matches('}').to_owned() + closing(&text);
    Ok(UserConfig { rest, before })
}

/// As JSON, where a host port of the case's own can be put in for `"$port"`, as the number that it is.
pub(super) fn numbered(config: &Value) -> String {
    config.to_string().replace("\"$port\"", "$port")
}

/// Addresses are allocated from a directory of the kit's own, and not from the host's.
fn keep_from_host(entry: &mut Map<String, Value>, data: &Path) {
    let ipam = entry.get_mut("ipam").and_then(Value::as_object_mut);
    let ipam = ipam.filter(|ipam| ipam.get("type").and_then(Value::as_str) == Some("host-local"));
    if let Some(ipam) = ipam {
        let ours = || Value::String(data.display().to_string());
        ipam.entry("dataDir").or_insert_with(ours);
    }
}

/// The braces that were trimmed but are not the object's own.
fn closing(text: &str) -> &str {
    let trimmed = text.trim_end_matches('}');
    text.get(trimmed.len() + 1..).unwrap_or_default()
}

/// An address that was not used yet.
pub(super) fn address(spec: &CniTestSpec) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let ip = Ipv4Addr::from(u32::from(spec.subnet.network()) + 2 + number % 250);
    format!("{ip}/24")
}

/// The properties of a version.
pub(super) fn facts(version: &str) -> Vars {
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    let holds = |least: [u32; 3]| if parts.as_slice() >= least.as_slice() { "yes" } else { "" };
    let facts = [
        ("version", version),
        ("interfaces", holds([0, 3, 0])),
        ("check", holds([0, 4, 0])),
        ("one", holds([1, 0, 0])),
        ("gc", holds([1, 1, 0])),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The answer that the plugin before would give.
pub(super) fn previous(version: &str, host: &str, netns: &str, address: &str) -> String {
    let facts = facts(version);
    let is = |fact: &str| facts.get(fact).is_some_and(|holds| !holds.is_empty());
    if !is("interfaces") {
        return format!(r#"{{"cniVersion":"{version}","ip4":{{"ip":"{address}"}}}}"#);
    }
    let family = if is("one") { "" } else { r#""version":"4","# };
    format!(
        r#"{{"cniVersion":"{version}","interfaces":[{{"name":"{host}"}},{{"name":"eth0","sandbox":"{netns}"}}],"ips":[{{{family}"address":"{address}","interface":1}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_json() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own.json");
        std::fs::write(&own, r#"{"name":"x","cniVersion":"1.0.0","a":{"b":{}}}"#).unwrap();
        let mut spec = CniTestSpec {
            plugin: "/".into(),
            only: Vec::new(),
            subnet: "10.213.0.0/16".parse().unwrap(),
            config: None,
        };
        let types = TYPES.iter().map(|(name, ..)| *name).chain(["static", "unheard-of"]);
        let list = directory.path().join("list.conflist");
        let ipam = r#"{"type":"host-local","subnet":"10.9.0.0/24"}"#;
        let text = format!(
            r#"{{"name":"x","plugins":[{{"type":"bridge","ipam":{ipam}}},{{"type":"mine","k":{{}}}}]}}"#
        );
        std::fs::write(&list, text).unwrap();
        let given = [("bridge", Some(own)), ("mine", Some(list.clone()))];
        for (name, config) in types.map(|name| (name, None)).chain(given) {
            spec.plugin = Path::new("/x").join(name);
            spec.config = config;
            let vars = vars(&spec, directory.path()).unwrap();
            for var in ["given", "nameless"] {
                let text = format!("{{{}}}", vars[var].replace("$port", "1"));
                let value: Value =
                    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} {text}"));
                assert_eq!(value["type"], name);
            }
        }
    }

    #[test]
    fn a_list_names_who_comes_before() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("list");
        let text =
            r#"{"plugins":[{"type":"a","ipam":{"type":"host-local"}},{"type":"b"},{"type":"c"}]}"#;
        std::fs::write(&list, text).unwrap();
        let of = |plugin: &str| {
            let spec = CniTestSpec {
                plugin: plugin.into(),
                only: Vec::new(),
                subnet: "10.213.0.0/16".parse().unwrap(),
                config: Some(list.clone()),
            };
            before(&spec, Path::new("/kit"))
        };
        let names = |plugin: &str| -> Vec<String> {
            of(plugin).unwrap().iter().map(|entry| entry["type"].to_string()).collect()
        };
        assert_eq!(names("/x/a"), Vec::<String>::new());
        assert_eq!(names("/x/c"), ["\"a\"", "\"b\""]);
        assert_eq!(of("/x/b").unwrap()[0]["ipam"]["dataDir"], "/kit");
        assert!(of("/x/d").unwrap_err().to_string().contains("no plugin d"));
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(facts("0.10.0")["check"], "yes");
        assert_eq!(facts("0.3.1")["check"], "");
        assert_eq!(facts("1.1.0")["gc"], "yes");
        for version in ["0.2.0", "0.3.1", "1.0.0"] {
            let previous = previous(version, "a", "/n", "10.0.0.2/24");
            assert!(serde_json::from_str::<Value>(&previous).is_ok(), "{previous}");
        }
    }
}
