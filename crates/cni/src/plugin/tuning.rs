//! `tuning`: sysctls and attributes of the container's interface, chained behind a main plugin.

use std::io;
use std::path::{Path, PathBuf};

use model::{ContainerId, Error, IfName, Mac, Mtu, Result, Sysctl, Tuning, Wiring};
use regex_lite::Regex;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Plan;
use crate::call::Call;
use crate::capability;
use crate::wire::{Command, Object};
use crate::words::reported;

/// Where the reference plugin keeps what was before.
const BACKUPS: &str = "/run/cni/tuning";

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let Some((container, ifname)) = &call.subject else { return Ok(Plan::default()) };
    let root = call.config.root();
    let args = call.config.args()?;
    let either = |key: &str| match &args {
        Some(args) if args.get(key).is_some() => args.clone(),
        _ => root.clone(),
    };
    let tuning = Tuning {
        sysctls: sysctls(call, ifname)?,
        mac: mac(call)?,
        mtu: attribute(&either("mtu"), "mtu")?.map(mtu).transpose()?,
        promiscuous: either("promisc").maybe("promisc")?.filter(|on| *on),
        all_multicast: either("allmulti").maybe("allmulti")?,
        tx_queue: queue(&either("txQLen"))?,
        backup: Some(backup(&root, container, ifname)?),
    };
    let wiring = Wiring { tuning: Some(tuning), ..Wiring::default() };
    Ok(Plan { wiring, addresses: super::own_addresses(call), ..Plan::default() })
}

/// The previous state of the interface, if that was kept.
pub(super) fn remnant(call: &Call<'_>) -> Wiring {
    let Some((container, ifname)) = &call.subject else { return Wiring::default() };
    let backup = backup(&call.config.root(), container, ifname).ok();
    Wiring { tuning: Some(Tuning { backup, ..Tuning::default() }), ..Wiring::default() }
}

/// Every wanted sysctl in the order in which it is written down; those of `args.cni` win.
pub(super) fn sysctls(call: &Call<'_>, ifname: &IfName) -> Result<Vec<Sysctl>> {
    let mut wanted: Vec<(String, String)> = Vec::new();
    if call.config.root().object("sysctl")?.is_some() {
        wanted = in_order(call.config.text())?;
    }
    if let Some(args) = call.config.args()?
        && let Some(overriding) = args.object("sysctl")?
    {
        for (key, node) in overriding.fields() {
            let value = node.text()?.to_owned();
            match wanted.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) => *old = value,
                None => wanted.push((key.to_owned(), value)),
            }
        }
    }
    if matches!(call.command, Command::Add | Command::Check) {
        refuse_unlisted(&wanted, call.context.allowlist)?;
    }
    wanted.into_iter().map(|(key, value)| sysctl(&key, value, ifname)).collect()
}

fn sysctl(key: &str, value: String, ifname: &IfName) -> Result<Sysctl> {
    let path = key.replace('.', "/").replacen("IFNAME", ifname.as_str(), 1);
    let mut clean = PathBuf::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        clean.push(part);
    }
    let climbs = clean.iter().any(|part| part == "..");
    let below = clean.starts_with("net") && clean != Path::new("net");
    match below && !climbs && !path.contains('\0') {
        true => Ok(Sysctl { path: clean, value }),
        false => Err(Error::invalid(format!("invalid net sysctl key: {path:?}"))),
    }
}

/// A longer allowlist is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// The reference reads the allowlist as one regular expression per line; without the file
/// everything is allowed.
fn refuse_unlisted(wanted: &[(String, String)], allowlist: &Path) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let text = match file::text(allowlist, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file::failed(format!("reading {}", allowlist.display()), error)),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut patterns = Vec::with_capacity(lines.len());
    for line in &lines {
        patterns.push(Regex::new(line).map_err(|why| {
            Error::invalid(format!("{line:?} in {} is no pattern", allowlist.display()))
                .because(why)
        })?);
    }
    match wanted.iter().find(|(key, _)| !patterns.iter().any(|pattern| pattern.is_match(key))) {
        None => Ok(()),
        Some((key, _)) => Err(Error::invalid(format!(
            "Sysctl {key} is not allowed. Only the following sysctls are allowed: [{}]",
            lines.join(" ")
        ))),
    }
}

/// `CNI_ARGS` wins over the configuration, `runtimeConfig` over both, `args.cni` over all.
fn mac(call: &Call<'_>) -> Result<Option<Mac>> {
    let config = call.config;
    let by_environment = call.args()?.mac;
    let (root, args, runtime) = (config.root(), config.args()?, config.runtime()?);
    let of = |object: &Option<Object<'_>>| match object {
        Some(object) => object.text(capability::MAC).map(|mac| mac.map(str::to_owned)),
        None => Ok(None),
    };
    let configured = root.text("mac")?.map(str::to_owned);
    let wanted = of(&args)?.or(of(&runtime)?).or(by_environment).or(configured);
    match wanted {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_: Error| {
            let words = format!("invalid args {text} for MAC addr");
            let shown = format!("{words}: address {text}: invalid MAC address");
            reported(shown, "; it is six octets")
        }),
    }
}

fn attribute(object: &Object<'_>, key: &str) -> Result<Option<i64>> {
    Ok(object.integer(key)?.filter(|value| *value != 0))
}

fn mtu(bytes: i64) -> Result<Mtu> {
    u32::try_from(bytes).ok().and_then(Mtu::new).ok_or_else(|| {
        Error::invalid(format!("\"mtu\" is {bytes}, which is not between 68 and 65535"))
    })
}

/// `txQLen`.
pub(super) fn queue(object: &Object<'_>) -> Result<Option<u32>> {
    match object.integer("txQLen")? {
        None => Ok(None),
        Some(length) => u32::try_from(length).map(Some).map_err(|_| {
            Error::invalid(format!("\"txQLen\" is {length}, which is not a number of packets"))
        }),
    }
}

fn backup(root: &Object<'_>, container: &ContainerId, ifname: &IfName) -> Result<PathBuf> {
    let directory = Path::new(root.text("dataDir")?.unwrap_or(BACKUPS));
    match directory.is_absolute() {
        true => Ok(directory.join(format!("{container}_{ifname}.json"))),
        false => Err(Error::invalid(format!(
            "\"dataDir\" is {directory:?}, which is not an absolute path"
        ))),
    }
}

/// The pairs of `sysctl` as they are written down, which a JSON object does not keep.
fn in_order(text: &str) -> Result<Vec<(String, String)>> {
    let written: Written = serde_json::from_str(text)
        .map_err(|why| Error::invalid("\"sysctl\" is not an object of strings").because(why))?;
    let pairs = written.0;
    for (place, (key, _)) in pairs.iter().enumerate() {
        if pairs[..place].iter().any(|(earlier, _)| earlier == key) {
            let more = format!(": {key:?} is there twice");
            return Err(reported("duplicated sysctl keys are not allowed", &more));
        }
    }
    Ok(pairs)
}

/// The pairs of the field `sysctl`, whose name is found as every other is.
struct Written(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfDocument)
    }
}

struct OfDocument;

impl<'de> Visitor<'de> for OfDocument {
    type Value = Written;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        let (mut exact, mut folded) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "sysctl" {
                exact = map.next_value::<Option<Pairs>>()?;
            } else if key.eq_ignore_ascii_case("sysctl") {
                folded = map.next_value::<Option<Pairs>>()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Written(exact.or(folded).map_or_else(Vec::new, |pairs| pairs.0)))
    }
}

struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Pairs;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
