//! What a world holds, as sorted lines that say the same when nothing changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde_json::Value;

use crate::World;
use crate::observe::Observed;
use crate::within::within;

/// Files of the fixture, of other parts of the snapshot, and locks that tools never remove.
const NOT_STATE: [&str; 4] = ["/world", "/opt/cni/bin", "/run/netns", "/run/xtables.lock"];

/// Folders that the fixture emptied.
const EMPTIED: [&str; 6] =
    ["/etc/cni", "/etc/docker", "/etc/netns", "/etc/spoke", "/var/lib/cni", "/var/lib/spoke"];

/// Links, addresses, routes, rules, firewalls and sysctls of every network namespace of a world,
/// and every file that was changed in it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One fact each.
    pub lines: BTreeSet<String>,
    pub(crate) links: Vec<Link>,
}

/// Enough of a link to name it for what it is.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) space: String,
    pub(crate) name: String,
    pub(crate) index: u64,
    pub(crate) peer: Option<u64>,
    pub(crate) mac: String,
}

impl Snapshot {
    /// What `world` holds now. The host's namespace is called `host`.
    #[track_caller]
    pub fn of(world: &World) -> Self {
        let observed = within(world, |inside| {
            let mut observed = vec![("host".to_owned(), Observed::here(inside))];
            for space in inside.spaces() {
                if inside.go(&space) {
                    observed.push((space, Observed::here(inside)));
                }
            }
            observed
        });
        let mut snapshot = Self::default();
        observed.iter().for_each(|(space, observed)| snapshot.space(space, observed));
        for root in ["/world/upper", "/run"] {
            let (top, prefix) = (world.path(root), if root == "/run" { "/run" } else { "" });
            files(&top, prefix, &mut snapshot.lines);
        }
        snapshot
    }

    /// The lines that came (`+`) and went (`-`) from `before` to this one.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        report(&before.lines, &self.lines)
    }

    fn space(&mut self, space: &str, observed: &Observed) {
        let Observed { links, families: [four, six], nft: ruleset, iptables: saved, .. } = observed;
        let mut parts = vec![("link", self.links(space, links))];
        parts.extend(family(["route", "rule"], four));
        parts.extend(family(["route6", "rule6"], six));
        parts.push(("nft", nft(ruleset)));
        parts.push(("iptables", iptables(&saved[0])));
        parts.push(("ip6tables", iptables(&saved[1])));
        parts.push(("sysctl", sysctls(&observed.sysctls)));
        parts.push(("qdisc", qdiscs(&observed.qdiscs)));
        parts.push(("vlans", array(&observed.vlans).iter().map(Value::to_string).collect()));
        for (name, lines) in parts {
            let lines = lines.into_iter().filter(|line| !line.is_empty());
            self.lines.extend(lines.map(|line| format!("{space} {name} {line}")));
        }
    }

    fn links(&mut self, space: &str, body: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for mut link in array(body) {
            let text = |key: &str| link[key].as_str().unwrap_or_default().to_owned();
            self.links.push(Link {
                space: space.into(),
                name: text("ifname"),
                index: link["ifindex"].as_u64().unwrap_or(0),
                peer: link["link_index"].as_u64(),
                mac: text("address"),
            });
            let name = text("ifname");
            clean_link(&mut link);
            flatten(&name, &link, &mut lines);
        }
        lines
    }
}

/// The lines only in `before` (`-`) and only in `after` (`+`).
pub fn report(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let gone = before.difference(after).map(|line| format!("- {line}"));
    let come = after.difference(before).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}

fn array(body: &str) -> Vec<Value> {
    serde_json::from_str(body.trim()).unwrap_or_default()
}

/// Removes what the kernel counts, times or numbers by itself.
fn clean_link(link: &mut Value) {
    const LINK: [&str; 22] = [
        "ifindex",
        "ifname",
        "link",
        "link_index",
        "link_netnsid",
        "stats",
        "stats64",
        "min_mtu",
        "max_mtu",
        "num_tx_queues",
        "num_rx_queues",
        "gso_max_size",
        "gso_max_segs",
        "tso_max_size",
        "tso_max_segs",
        "gro_max_size",
        "gso_ipv4_max_size",
        "gro_ipv4_max_size",
        "operstate",
        "qdisc",
        "linkmode",
        "permaddr",
    ];
    // Only what a configuration can ask for.
    const DATA: [&str; 18] = [
        "vlan_filtering",
        "vlan_default_pvid",
        "stp_state",
        "hairpin",
        "isolated",
        "locked",
        "learning",
        "flood",
        "mode",
        "bcqueuelen",
        "protocol",
        "table",
        "type",
        "pi",
        "vnet_hdr",
        "multi_queue",
        "user",
        "group",
    ];
    remove(link, &LINK);
    for data in ["info_data", "info_slave_data"] {
        if let Some(data) = link["linkinfo"][data].as_object_mut() {
            let is_vlan = |key: &str, value: &Value| key == "id" && value.is_number();
            data.retain(|key, value| DATA.contains(&key.as_str()) || is_vlan(key, value));
        }
    }
    if let Some(flags) = link["flags"].as_array_mut() {
        flags.retain(|flag| !matches!(flag.as_str(), Some("LOWER_UP" | "NO-CARRIER" | "M-DOWN")));
    }
}

/// One line per attribute, so that a difference is short.
fn flatten(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value.as_object() {
        Some(parts) => {
            parts.iter().for_each(|(key, part)| flatten(&format!("{name} {key}"), part, lines))
        }
        None if value.is_null() => {}
        None => lines.push(format!("{name} {value}")),
    }
}

fn remove(object: &mut Value, keys: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// A line each: addresses, routes and rules of one family.
fn family<'a>([routes, rules]: [&'a str; 2], body: &str) -> Vec<(&'a str, Vec<String>)> {
    let mut said = body.lines();
    let mut next = || said.next().unwrap_or_default();
    vec![("address", addresses(next())), (routes, objects(next())), (rules, objects(next()))]
}

/// Link-local addresses come by themselves, when the kernel has time.
fn addresses(body: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for link in array(body) {
        for address in link["addr_info"].as_array().into_iter().flatten() {
            let mut address = address.clone();
            remove(
                &mut address,
                &["valid_life_time", "preferred_life_time", "tentative", "nodad", "dadfailed"],
            );
            if address["scope"] != "link" {
                lines.push(format!("{} {address}", link["ifname"].as_str().unwrap_or_default()));
            }
        }
    }
    lines
}

fn objects(body: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for mut object in array(body) {
        let to = object["dst"].as_str().unwrap_or_default().to_owned();
        remove(&mut object, &["flags", "pref"]);
        // Which addresses are ready is a matter of when one looks.
        let ready = object["table"] == "local" && to.contains(':');
        if !ready && !to.starts_with("fe80:") && !to.starts_with("ff00:") {
            lines.push(object.to_string());
        }
    }
    lines
}

/// Those that a program asked for: the kernel numbers none that it chose.
fn qdiscs(body: &str) -> Vec<String> {
    let asked = |qdisc: &Value| qdisc["handle"].as_str().is_some_and(|handle| handle != "0:");
    let shown = |mut qdisc: Value| {
        remove(&mut qdisc, &["handle", "refcnt"]);
        qdisc.to_string()
    };
    array(body).into_iter().filter(asked).map(shown).collect()
}

/// One line per object of nftables, with its table and chain; rules numbered within their chain.
/// What `iptables-save` shows better is left to it.
fn nft(body: &str) -> Vec<String> {
    let (mut path, mut lines) = (Vec::<String>::new(), Vec::new());
    let mut count = BTreeMap::<String, usize>::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(opened) = line.strip_suffix('{') {
            path.push(opened.trim().to_owned());
            lines.push(path.join(" / "));
        } else if line == "}" {
            path.pop();
        } else if !line.is_empty() {
            let place = path.join(" / ");
            let number = count.entry(place.clone()).or_default();
            *number += 1;
            lines.push(format!("{place} [{number}] {line}"));
        }
    }
    let tables = ["nat", "filter", "mangle", "raw", "security"];
    let shown = tables.map(|table| [format!("table ip {table}"), format!("table ip6 {table}")]);
    let elsewhere = |line: &String| {
        let table = line.split(" [").next().unwrap_or(line).split(" / ").next().unwrap_or(line);
        shown.iter().flatten().any(|name| name == table)
    };
    lines.retain(|line| !elsewhere(line));
    lines
}

/// Rules numbered within their chain, counters removed.
fn iptables(body: &str) -> Vec<String> {
    let (mut table, mut lines) = (String::new(), Vec::new());
    let mut count = BTreeMap::<String, usize>::new();
    for line in body.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.to_owned();
        } else if let Some(chain) = line.strip_prefix(':') {
            let chain = chain.split(" [").next().unwrap_or(chain);
            lines.push(format!("{table} :{chain}"));
        } else if line.starts_with("-A ") {
            let chain = line.split(' ').nth(1).unwrap_or_default();
            let number = count.entry(format!("{table} {chain}")).or_default();
            *number += 1;
            lines.push(format!("{table} [{number}] {line}"));
        }
    }
    lines
}

/// Where an interface differs from its namespace's default.
fn sysctls(body: &str) -> Vec<String> {
    let values: BTreeMap<_, _> = body.lines().filter_map(|line| line.split_once(':')).collect();
    let usual = |(key, value): &(&&str, &&str)| {
        let parts: Vec<_> = key.split('/').collect();
        let default = matches!(*parts, [_, "conf", _, _])
            .then(|| format!("{}/conf/default/{}", parts[0], parts[3]));
        default.is_some_and(|key| values.get(key.as_str()) == Some(value))
    };
    values
        .iter()
        .filter(|entry| !usual(entry))
        .map(|(key, value)| format!("{key} = {value}"))
        .collect()
}

/// Every file below `top` that is no directory, with mode and content where short.
fn files(top: &Path, prefix: &str, lines: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(top) else { return };
    for entry in entries.flatten() {
        let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if NOT_STATE.contains(&path.as_str()) {
            continue;
        }
        // A file may go while we look.
        let Ok(kind) = entry.file_type() else { continue };
        let what = if kind.is_dir() {
            files(&entry.path(), &path, lines);
            continue;
        } else if kind.is_file() {
            content(&entry.path())
        } else if kind.is_symlink() {
            format!("-> {}", fs::read_link(entry.path()).unwrap_or_default().display())
        } else if kind.is_char_device() {
            if EMPTIED.contains(&path.as_str()) {
                continue;
            }
            "removed".into()
        } else {
            "special".into()
        };
        lines.insert(format!("file {path} {what}"));
    }
}

fn content(path: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;

    let mode = fs::metadata(path).map(|meta| meta.permissions().mode() & 0o7777).unwrap_or(0);
    let bytes = fs::read(path).unwrap_or_default();
    // The same JSON is the same, however it is set.
    if let Ok(object @ Value::Object(_)) = serde_json::from_slice(&bytes) {
        return format!("{mode:04o} {object}");
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.len() <= 1024 => format!("{mode:04o} {text:?}"),
        _ => format!("{mode:04o} {} bytes", bytes.len()),
    }
}
