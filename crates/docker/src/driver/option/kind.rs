//! The link kind of a network: a bridge, the segment of a parent device, a network of Neutron, or a
//! chain of CNI plugins.

use std::path::{Component, Path, PathBuf};

use model::{Error, IfName, Ipvlan, IpvlanMode, Macvlan, MacvlanMode, Result, VlanId};
use spec::ovs::OvsTexts;
use spec::{Driver, KindSpec, NEUTRON_KEYS, NetworkSpec, NeutronOptions, OVS_KEYS, Texts, options};

use super::FRONT;

const DRIVER: &[&str] = &["driver"];
const PARENT: &[&str] = &["parent"];
const VLAN: &[&str] = &["vlan"];
const MODE: &[&str] = &["mode"];
const MACVLAN_MODE: &[&str] = &["macvlan_mode"];
const IPVLAN_MODE: &[&str] = &["ipvlan_mode"];
const HOST_ACCESS: &[&str] = &["host_access"];
const PROBE: &[&str] = &["probe"];
const CNI: &[&str] = &["cni"];

/// Where lists of plugins are that are named without a folder.
const LISTS: &str = "/etc/cni/net.d";

/// The value of [`MODE`] that concerns addresses.
const DHCP: &str = "dhcp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Dhcp,
    Macvlan(MacvlanMode),
    Ipvlan(IpvlanMode),
}

/// The options of the kind, and the key that decided it.
pub(super) struct KindOptions {
    pub(super) kind: Option<KindSpec>,
    /// Whether the segment's DHCP server gives the addresses.
    pub(super) dhcp: bool,
    /// The key that decided, for errors.
    pub(super) key: &'static str,
}

impl KindOptions {
    /// Whether addresses and routes come from elsewhere, too.
    pub(super) fn is_external(&self) -> bool {
        self.dhcp || self.kind.as_ref().is_some_and(KindSpec::is_external)
    }

    /// Whether neither the host nor a bridge of it is the default route.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.dhcp || self.kind.as_ref().is_some_and(|kind| *kind != KindSpec::Bridge)
    }
}

/// Reads the options of the kind.
pub(super) fn read(texts: &Texts<'_>, spec: &NetworkSpec) -> Result<KindOptions> {
    let mode = mode(texts)?;
    let dhcp = mode == Some(Mode::Dhcp);
    let list = texts.one(CNI, "a file's name or absolute path", list)?;
    let (driver, key) = match driver(texts, mode)? {
        Some(given) => given,
        None if list.is_some() => (Driver::Chain, CNI[0]),
        // Asking the segment's server makes no sense without a segment.
        None if dhcp && of_bridges(texts).is_none() => (Driver::Macvlan, MODE[0]),
        None => return Ok(KindOptions { kind: None, dhcp, key: MODE[0] }),
    };
    let kind = match (driver, list) {
        (Driver::Chain, Some(list)) => KindSpec::Plugins(list),
        (_, Some(_)) => return Err(texts.contradiction(CNI[0], key)),
        (Driver::Macvlan, None) => KindSpec::Macvlan(macvlan(texts, spec, mode, key)?),
        (Driver::Ipvlan, None) => KindSpec::Ipvlan(ipvlan(texts, spec, mode, key)?),
        (Driver::Neutron, None) => {
            let given = NeutronOptions::read(texts.flag, texts.map)?;
            KindSpec::Neutron(Box::new(given.link(texts.flag)?))
        }
        (Driver::Ovs, None) if mode.is_none() => {
            KindSpec::Ovs(Box::new(OvsTexts::of_map("-o ovs.", texts.map).segment()?))
        }
        (Driver::Ovs, None) => return Err(texts.contradiction(key, MODE[0])),
        (_, None) if mode.is_some() && !dhcp => return Err(texts.contradiction(key, MODE[0])),
        (_, None) => KindSpec::Bridge,
    };
    let neutron = texts.there(&[NEUTRON_KEYS]).filter(|_| driver != Driver::Neutron);
    let ovs = texts.there(&[OVS_KEYS]).filter(|_| driver != Driver::Ovs);
    match neutron.or(ovs).or_else(|| texts.foreign(FRONT, driver)) {
        Some(other) => Err(texts.contradiction(key, other)),
        None => Ok(KindOptions { kind: Some(kind), dhcp, key }),
    }
}

/// The first key of a bridge, or of traffic through this host.
fn of_bridges(texts: &Texts<'_>) -> Option<&'static str> {
    let of_bridges = |option: &&spec::NetworkOption| !option.is_of(Driver::Macvlan);
    let mut bridges = options(FRONT).filter(|option| option.is_of(Driver::Bridge));
    bridges.by_ref().filter(of_bridges).find_map(|option| texts.there(&[option.docker]))
}

/// Which kind, and the key that decides it: `driver`, or else what only one kind has.
fn driver(texts: &Texts<'_>, mode: Option<Mode>) -> Result<Option<(Driver, &'static str)>> {
    let words = [
        ("bridge", Driver::Bridge),
        ("macvlan", Driver::Macvlan),
        ("ipvlan", Driver::Ipvlan),
        ("neutron", Driver::Neutron),
        ("ovs", Driver::Ovs),
    ];
    if let Some(given) = texts.word(DRIVER, &words)? {
        return Ok(Some((given, DRIVER[0])));
    }
    if let Some(key) = texts.there(&[NEUTRON_KEYS]) {
        return Ok(Some((Driver::Neutron, key)));
    }
    if let Some(key) = texts.there(&[OVS_KEYS]) {
        return Ok(Some((Driver::Ovs, key)));
    }
    Ok(match mode {
        _ if texts.there(&[IPVLAN_MODE]).is_some() => Some((Driver::Ipvlan, IPVLAN_MODE[0])),
        _ if texts.there(&[MACVLAN_MODE]).is_some() => Some((Driver::Macvlan, MACVLAN_MODE[0])),
        Some(Mode::Ipvlan(_)) => Some((Driver::Ipvlan, MODE[0])),
        Some(Mode::Macvlan(_)) => Some((Driver::Macvlan, MODE[0])),
        Some(Mode::Dhcp) | None => {
            texts.there(&[PARENT, VLAN, HOST_ACCESS, PROBE]).map(|key| (Driver::Macvlan, key))
        }
    })
}

/// `mode` is the source of addresses, or the same as `macvlan_mode` or `ipvlan_mode`.
fn mode(texts: &Texts<'_>) -> Result<Option<Mode>> {
    let macvlan = MacvlanMode::WORDS.into_iter().map(|(word, mode)| (word, Mode::Macvlan(mode)));
    let ipvlan = IpvlanMode::WORDS.into_iter().map(|(word, mode)| (word, Mode::Ipvlan(mode)));
    let words: Vec<(&str, Mode)> =
        [(DHCP, Mode::Dhcp)].into_iter().chain(macvlan).chain(ipvlan).collect();
    texts.word_of(
        MODE,
        "dhcp, or a mode of macvlan (bridge, private, vepa, passthru) or ipvlan (l2, l3, l3s)",
        &words,
    )
}

fn macvlan(
    texts: &Texts<'_>,
    spec: &NetworkSpec,
    mode: Option<Mode>,
    key: &str,
) -> Result<Macvlan> {
    let given = texts.word(MACVLAN_MODE, &MacvlanMode::WORDS)?;
    let mode = match mode {
        Some(Mode::Macvlan(mode)) => agreed(texts, given, mode, MACVLAN_MODE)?,
        Some(Mode::Ipvlan(_)) => return Err(texts.contradiction(key, MODE[0])),
        Some(Mode::Dhcp) | None => given.unwrap_or_default(),
    };
    if spec.host_access == Some(true) && mode != MacvlanMode::Bridge {
        let of_mode = texts.there(&[MACVLAN_MODE, MODE]).unwrap_or(MODE[0]);
        return Err(texts.contradiction(HOST_ACCESS[0], of_mode));
    }
    Ok(on_parent(texts, spec)?.macvlan(mode))
}

fn ipvlan(texts: &Texts<'_>, spec: &NetworkSpec, mode: Option<Mode>, key: &str) -> Result<Ipvlan> {
    let given = texts.word(IPVLAN_MODE, &IpvlanMode::WORDS)?;
    let mode = match mode {
        Some(Mode::Ipvlan(mode)) => agreed(texts, given, mode, IPVLAN_MODE)?,
        // Its containers share the parent's hardware address, by which a server distinguishes
        // clients.
        Some(Mode::Dhcp | Mode::Macvlan(_)) => return Err(texts.contradiction(key, MODE[0])),
        None => given.unwrap_or_default(),
    };
    Ok(on_parent(texts, spec)?.ipvlan(mode))
}

fn agreed<T: PartialEq>(
    texts: &Texts<'_>,
    given: Option<T>,
    mode: T,
    key: &'static [&'static str],
) -> Result<T> {
    match given {
        Some(other) if other != mode => Err(texts.contradiction(key[0], MODE[0])),
        Some(_) | None => Ok(mode),
    }
}

/// `parent=eth0.100` is VLAN 100 of eth0, as in Docker's own drivers.
fn on_parent(texts: &Texts<'_>, spec: &NetworkSpec) -> Result<NetworkSpec> {
    let Some(device) = spec.parent.clone() else { return Ok(spec.clone()) };
    let (name, named) = split(device)?;
    match (named, spec.vlan) {
        (Some(named), Some(vlan)) if named != vlan => Err(texts.contradiction(PARENT[0], VLAN[0])),
        (named, vlan) => {
            Ok(NetworkSpec { parent: Some(name), vlan: named.or(vlan), ..spec.clone() })
        }
    }
}

fn split(device: IfName) -> Result<(IfName, Option<VlanId>)> {
    let Some((name, number)) = device.as_str().rsplit_once('.') else {
        return Ok((device, None));
    };
    let vlan = number.parse().ok().filter(|_| !number.starts_with(['0', '+']));
    match vlan.and_then(VlanId::new) {
        Some(vlan) => Ok((name.parse()?, Some(vlan))),
        None => Ok((device, None)),
    }
}

fn list(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let mut parts = path.components();
    let is_plain = match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => true,
        (Some(Component::RootDir), Some(_)) => {
            path.components().all(|part| part != Component::ParentDir)
        }
        _ => false,
    };
    is_plain.then(|| Path::new(LISTS).join(path))
}

/// That Docker has subnets for a network whose addresses come from elsewhere.
pub(crate) fn pools_of_others(what: &str) -> Error {
    Error::invalid(format!(
        "-o {what}: neither Docker nor Spoke chooses the addresses of such a network; create it with --ipam-driver null"
    ))
}

#[cfg(test)]
mod tests;
