//! Network configurations on disk: CNI's lists and single plugins, and Podman's own.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use model::IpNet;
use serde_json::{Map, Value};

use crate::wire::{Node, Object};

/// A larger file is no network configuration.
const LARGEST: u64 = 1 << 20;

/// A network that a configuration declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The file.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// The network of Spoke's that it joins, where it names one.
    pub joins: Option<String>,
    /// Its bridge, where the configuration names one.
    pub device: Option<String>,
    /// The subnets of this host that it takes addresses from: a tenant's are none.
    pub subnets: Vec<IpNet>,
}

/// The networks that the configuration files of a directory declare, in the order of their names. A
/// file that cannot be read declares nothing.
pub fn declared(directory: &Path) -> Vec<Declared> {
    declared_or_unread(directory).0
}

/// The same, and what could not be read: it is unknown what that declares.
pub fn declared_or_unread(directory: &Path) -> (Vec<Declared>, Vec<PathBuf>) {
    let paths = match files(directory, &["conflist", "conf", "json"]) {
        Ok(paths) => paths,
        Err(error) if error.kind() == ErrorKind::NotFound => return (Vec::new(), Vec::new()),
        Err(_) => return (Vec::new(), vec![directory.to_owned()]),
    };
    let (mut networks, mut unread) = (Vec::new(), Vec::new());
    for path in paths {
        match read_object(&path) {
            Some(object) => networks.extend(of(path, &Object::new("", &object))),
            None => unread.push(path),
        }
    }
    (networks, unread)
}

/// The files of a directory with one of these extensions, in the order of their names.
///
/// # Errors
/// Where the directory cannot be read.
pub fn files(directory: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let is_one = |path: &PathBuf| {
        path.extension().is_some_and(|its| extensions.iter().any(|extension| its == *extension))
    };
    let all = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = all.filter(is_one).collect();
    files.sort();
    Ok(files)
}

/// The plugins of this type in the configuration files of a directory and of those in it, wherever in a
/// file such a plugin is configured: other plugins have plugins of their own.
pub fn plugins(directory: &Path, plugin: &str) -> Vec<Map<String, Value>> {
    let inside = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found = Vec::new();
    for path in inside(directory) {
        let files = if path.is_dir() { inside(&path) } else { vec![path] };
        let values = files.iter().filter_map(|file| read_object(file)).map(Value::Object);
        values.for_each(|value| collect(&value, plugin, &mut found));
    }
    found
}

fn collect(value: &Value, plugin: &str, found: &mut Vec<Map<String, Value>>) {
    match value {
        Value::Object(map) => {
            if map.get("type").and_then(Value::as_str) == Some(plugin) {
                found.push(map.clone());
            }
            map.values().for_each(|it| collect(it, plugin, found));
        }
        Value::Array(list) => list.iter().for_each(|it| collect(it, plugin, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The JSON object in a small file.
pub fn read_object(path: &Path) -> Option<Map<String, Value>> {
    serde_json::from_slice(&file::read(path, LARGEST).ok()?).ok()
}

/// Podman's `subnets` and `network_interface`; CNI's `ipam` in each plugin, or of the only one.
fn of(path: PathBuf, config: &Object<'_>) -> Option<Declared> {
    let text = |object: &Object<'_>, key| object.text(key).ok().flatten().map(str::to_owned);
    let name = text(config, "name")?;
    let plugins = match config.get("plugins") {
        Some(_) => objects(config.list("plugins").unwrap_or_default()),
        None => vec![config.clone()],
    };
    let device = text(config, "network_interface")
        .or_else(|| plugins.iter().find_map(|plugin| text(plugin, "bridge")));
    let mut ranges = objects(config.list("subnets").unwrap_or_default());
    for plugin in &plugins {
        let Ok(Some(ipam)) = plugin.object("ipam") else { continue };
        let sets = ipam.list("ranges").unwrap_or_default();
        ranges.push(ipam);
        ranges.extend(objects(sets.iter().filter_map(|set| set.list().ok()).flatten().collect()));
    }
    let subnet = |range: &Object<'_>| range.parse::<IpNet>("subnet").ok().flatten();
    ranges.retain(|_| !is_tenants(config, &plugins));
    let subnets = ranges.iter().filter_map(subnet).map(|subnet| subnet.trunc()).collect();
    Some(Declared { path, name, joins: joined(config, &plugins), device, subnets })
}

/// Type `spoke` names a network by `network`, Podman by its option of that name.
fn joined(config: &Object<'_>, plugins: &[Object<'_>]) -> Option<String> {
    let options = config.object("options").ok().flatten();
    let of = |object: &Object<'_>| object.text("network").ok().flatten().map(str::to_owned);
    options.as_ref().and_then(of).or_else(|| plugins.iter().filter(is_spoke).find_map(of))
}

/// Whether an address space is named: by type `spoke`, or by an option of Podman's.
fn is_tenants(config: &Object<'_>, plugins: &[Object<'_>]) -> bool {
    let mut ours = plugins.iter().filter(is_spoke);
    let options = config.object("options").ok().flatten();
    ours.any(|plugin| plugin.get("addressSpace").is_some())
        || options.is_some_and(|options| options.get("address_space").is_some())
}

fn is_spoke(plugin: &&Object<'_>) -> bool {
    plugin.text("type").ok().flatten() == Some("spoke")
}

/// Those of the values that are objects.
pub(crate) fn objects(nodes: Vec<Node<'_>>) -> Vec<Object<'_>> {
    nodes.iter().filter_map(|node| node.object().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_what_podman_and_cni_declare() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let netavark = json!({
            "name": "p", "network_interface": "podman1", "subnets": [{"subnet": "10.89.0.0/24"}]
        });
        let cni = json!({"name": "c", "plugins": [
            {"type": "bridge", "bridge": "cni0", "ipam": {
                "subnet": "10.1.0.0/24", "ranges": [[{"Subnet": "10.2.0.0/24"}], [{"subnet": 5}]]
            }},
            {"type": "portmap"},
        ]});
        put("1.json", &netavark.to_string());
        put("2.conflist", &cni.to_string());
        put("3.conf", r#"{"name":"s","ipam":{"subnet":"10.3.0.9/24"}}"#);
        let red = json!({"name": "r", "options": {"address_space": "red"},
            "subnets": [{"subnet": "10.4.0.0/24"}]});
        put("7.json", &red.to_string());
        let blue = json!({"name": "b", "type": "spoke", "addressSpace": "blue",
            "ipam": {"subnet": "10.4.0.0/24"}});
        put("8.conf", &blue.to_string());
        put("4.conf", "[1]");
        put("5.conf", r#"{"name":"t","plugins":5}"#);
        put("6.txt", r#"{"name":"u"}"#);
        let joined = json!({"name": "j", "options": {"network": "front"},
            "subnets": [{"subnet": "10.5.0.0/24"}]});
        put("9.json", &joined.to_string());
        let back = json!({"name": "k", "plugins": [{"type": "spoke", "network": "back"}]});
        put("9k.conflist", &back.to_string());
        let shown = |one: &Declared| {
            let subnets: Vec<String> = one.subnets.iter().map(ToString::to_string).collect();
            let (device, joins) = (one.device.as_deref(), one.joins.as_deref());
            let joins = joins.map(|network| format!(" joins {network}")).unwrap_or_default();
            format!("{} {} {}{joins}", one.name, device.unwrap_or("-"), subnets.join(","))
        };
        let found: Vec<String> = declared(root.path()).iter().map(shown).collect();
        assert_eq!(
            found,
            [
                "p podman1 10.89.0.0/24",
                "c cni0 10.1.0.0/24,10.2.0.0/24",
                "s - 10.3.0.0/24",
                "t - ",
                "r - ",
                "b - ",
                "j - 10.5.0.0/24 joins front",
                "k -  joins back"
            ]
        );
        assert!(declared(Path::new("/nonexistent")).is_empty());
    }
}
