//! What a network's containers are connected to: a bridge, the segment of a parent device, a network
//! of Neutron, or what CNI plugins make.

use std::path::{Component, Path, PathBuf};

use model::text::{choice, truth};
use model::{
    Error, IfName, Ipvlan, IpvlanMode, Macvlan, MacvlanMode, NEUTRON_KEYS, NeutronLink,
    NeutronOptions, Parent, Place, Result, VlanId,
};

use super::super::text::Texts;

pub(super) const DRIVER: &[&str] = &["driver"];
pub(super) const PARENT: &[&str] = &["parent"];
pub(super) const VLAN: &[&str] = &["vlan"];
pub(super) const MODE: &[&str] = &["mode"];
pub(super) const MACVLAN_MODE: &[&str] = &["macvlan_mode"];
pub(super) const IPVLAN_MODE: &[&str] = &["ipvlan_mode"];
pub(super) const HOST_ACCESS: &[&str] = &["host_access"];
pub(super) const PROBE: &[&str] = &["probe"];
pub(super) const CNI: &[&str] = &["cni"];

/// Where lists of plugins are that are named without a folder.
const LISTS: &str = "/etc/cni/net.d";

/// What [`MODE`] says where it is about addresses.
const DHCP: &str = "dhcp";

/// What a network is to be. What is [`None`] was not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KindSpec {
    /// A bridge.
    Bridge,
    /// On a parent device, each container with a hardware address of its own.
    Macvlan(Macvlan),
    /// On a parent device, with its hardware address.
    Ipvlan(Ipvlan),
    /// Whatever the plugins of the list in this file make.
    Plugins(PathBuf),
    /// A network of Neutron.
    Neutron(Box<NeutronLink>),
}

/// The kinds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Bridge,
    Macvlan,
    Ipvlan,
    Neutron,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Dhcp,
    Macvlan(MacvlanMode),
    Ipvlan(IpvlanMode),
}

const MACVLAN_MODES: [(&str, MacvlanMode); 4] = [
    ("bridge", MacvlanMode::Bridge),
    ("private", MacvlanMode::Private),
    ("vepa", MacvlanMode::Vepa),
    ("passthru", MacvlanMode::Passthru),
];

const IPVLAN_MODES: [(&str, IpvlanMode); 3] =
    [("l2", IpvlanMode::L2), ("l3", IpvlanMode::L3), ("l3s", IpvlanMode::L3s)];

/// What is said of the kind, and by which key it was decided.
pub(super) struct KindOptions {
    pub(super) kind: Option<KindSpec>,
    /// Whether the segment's DHCP server gives the addresses.
    pub(super) dhcp: bool,
    /// The key that says so, for errors.
    pub(super) key: &'static str,
}

impl KindOptions {
    /// Whether addresses and routes come from elsewhere, too.
    pub(super) fn is_external(&self) -> bool {
        self.dhcp || self.kind.as_ref().is_some_and(KindSpec::is_external)
    }

    /// Plugins have what their list says, and Neutron's networks what Neutron says.
    pub(super) fn refuse_mtu(&self, texts: &Texts<'_>) -> Result<()> {
        match (&self.kind, texts.there(&[super::MTU])) {
            (Some(kind), Some(mtu)) if kind.is_external() => {
                Err(texts.contradiction(self.key, mtu))
            }
            _ => Ok(()),
        }
    }

    /// Whether neither the host nor a bridge of it is the way out.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.dhcp
            || match &self.kind {
                Some(
                    KindSpec::Macvlan(_)
                    | KindSpec::Ipvlan(_)
                    | KindSpec::Plugins(_)
                    | KindSpec::Neutron(_),
                ) => true,
                Some(KindSpec::Bridge) | None => false,
            }
    }
}

/// Reads what is said. `bridge` are keys that only a bridge has.
pub(super) fn read(texts: &Texts<'_>, bridge: &[&[&'static str]]) -> Result<KindOptions> {
    let mode = mode(texts)?;
    let dhcp = mode == Some(Mode::Dhcp);
    let list = texts.one(CNI, "a file's name or absolute path", list)?;
    let on_bridge = texts.there(bridge);
    let (driver, key) = match driver(texts, mode)? {
        Some(said) => said,
        None if list.is_some() => return plugins(texts, list, on_bridge),
        // Asking the segment's server makes no sense without a segment.
        None if dhcp && on_bridge.is_none() => (Driver::Macvlan, MODE[0]),
        None => return Ok(KindOptions { kind: None, dhcp, key: MODE[0] }),
    };
    if list.is_some() {
        return Err(texts.contradiction(CNI[0], key));
    }
    let kind = match driver {
        Driver::Bridge => {
            refuse(texts, key, &[PARENT, VLAN, MACVLAN_MODE, IPVLAN_MODE, HOST_ACCESS, PROBE])?;
            if mode.is_some() && !dhcp {
                return Err(texts.contradiction(key, MODE[0]));
            }
            KindSpec::Bridge
        }
        Driver::Macvlan => {
            refuse(texts, key, &[IPVLAN_MODE])?;
            KindSpec::Macvlan(macvlan(texts, mode, key)?)
        }
        Driver::Ipvlan => {
            refuse(texts, key, &[MACVLAN_MODE, HOST_ACCESS, PROBE])?;
            KindSpec::Ipvlan(ipvlan(texts, mode, key)?)
        }
        Driver::Neutron => {
            let lan = [PARENT, VLAN, MODE, MACVLAN_MODE, IPVLAN_MODE, HOST_ACCESS, PROBE];
            refuse(texts, key, &lan)?;
            let said = NeutronOptions::read(texts.flag, texts.map)?;
            KindSpec::Neutron(Box::new(said.link(texts.flag)?))
        }
    };
    if let (Some(neutron), false) =
        (texts.there(&[NEUTRON_KEYS]), matches!(kind, KindSpec::Neutron(_)))
    {
        return Err(texts.contradiction(key, neutron));
    }
    match on_bridge.filter(|_| kind != KindSpec::Bridge) {
        Some(other) => Err(texts.contradiction(key, other)),
        None => Ok(KindOptions { kind: Some(kind), dhcp, key }),
    }
}

/// Which kind, and the key that decides it: `driver`, or else what only one kind has.
fn driver(texts: &Texts<'_>, mode: Option<Mode>) -> Result<Option<(Driver, &'static str)>> {
    let words = [
        ("bridge", Driver::Bridge),
        ("macvlan", Driver::Macvlan),
        ("ipvlan", Driver::Ipvlan),
        ("neutron", Driver::Neutron),
    ];
    if let Some(said) = texts.one(DRIVER, "bridge, macvlan, ipvlan or neutron", choice(&words))? {
        return Ok(Some((said, DRIVER[0])));
    }
    if let Some(key) = texts.there(&[NEUTRON_KEYS]) {
        return Ok(Some((Driver::Neutron, key)));
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

fn plugins(
    texts: &Texts<'_>,
    list: Option<PathBuf>,
    on_bridge: Option<&'static str>,
) -> Result<KindOptions> {
    refuse(texts, CNI[0], &[MODE])?;
    match on_bridge {
        Some(other) => Err(texts.contradiction(CNI[0], other)),
        None => Ok(KindOptions { kind: list.map(KindSpec::Plugins), dhcp: false, key: CNI[0] }),
    }
}

/// `mode` says how addresses come, or what `macvlan_mode` or `ipvlan_mode` say.
fn mode(texts: &Texts<'_>) -> Result<Option<Mode>> {
    let of = |text: &str| {
        let macvlan = choice(&MACVLAN_MODES)(text).map(Mode::Macvlan);
        let ipvlan = || choice(&IPVLAN_MODES)(text).map(Mode::Ipvlan);
        (text == DHCP).then_some(Mode::Dhcp).or(macvlan).or_else(ipvlan)
    };
    texts.one(
        MODE,
        "dhcp, or a mode of macvlan (bridge, private, vepa, passthru) or ipvlan (l2, l3, l3s)",
        of,
    )
}

fn macvlan(texts: &Texts<'_>, mode: Option<Mode>, key: &str) -> Result<Macvlan> {
    let said =
        texts.one(MACVLAN_MODE, "bridge, private, vepa or passthru", choice(&MACVLAN_MODES))?;
    let mode = match mode {
        Some(Mode::Macvlan(mode)) => agreed(texts, said, mode, MACVLAN_MODE)?,
        Some(Mode::Ipvlan(_)) => return Err(texts.contradiction(key, MODE[0])),
        Some(Mode::Dhcp) | None => said.unwrap_or_default(),
    };
    let host_access = texts.one(HOST_ACCESS, "true or false", truth)?.unwrap_or(false);
    if host_access && mode != MacvlanMode::Bridge {
        let of_mode = texts.there(&[MACVLAN_MODE, MODE]).unwrap_or(MODE[0]);
        return Err(texts.contradiction(HOST_ACCESS[0], of_mode));
    }
    let probe = texts.one(PROBE, "true or false", truth)?.unwrap_or(false);
    Ok(Macvlan { parent: parent(texts)?, mode, broadcast_queue: None, host_access, probe })
}

fn ipvlan(texts: &Texts<'_>, mode: Option<Mode>, key: &str) -> Result<Ipvlan> {
    let said = texts.one(IPVLAN_MODE, "l2, l3 or l3s", choice(&IPVLAN_MODES))?;
    let mode = match mode {
        Some(Mode::Ipvlan(mode)) => agreed(texts, said, mode, IPVLAN_MODE)?,
        // Its containers share the parent's hardware address, by which a server tells clients apart.
        Some(Mode::Dhcp | Mode::Macvlan(_)) => return Err(texts.contradiction(key, MODE[0])),
        None => said.unwrap_or_default(),
    };
    Ok(Ipvlan { parent: parent(texts)?, mode })
}

fn agreed<T: PartialEq>(
    texts: &Texts<'_>,
    said: Option<T>,
    mode: T,
    key: &'static [&'static str],
) -> Result<T> {
    match said {
        Some(other) if other != mode => Err(texts.contradiction(key[0], MODE[0])),
        Some(_) | None => Ok(mode),
    }
}

/// `parent=eth0.100` is VLAN 100 of eth0, as in Docker's own drivers.
fn parent(texts: &Texts<'_>) -> Result<Parent> {
    let device: Option<IfName> = texts.parsed(PARENT)?;
    let vlan = texts.one(VLAN, "a VLAN's number from 1 to 4094", |text| {
        text.parse().ok().and_then(VlanId::new)
    })?;
    let (name, named) = match device {
        Some(device) => split(device)?,
        None => return Ok(Parent { name: None, place: Place::Host, vlan }),
    };
    match (named, vlan) {
        (Some(named), Some(vlan)) if named != vlan => Err(texts.contradiction(PARENT[0], VLAN[0])),
        (named, vlan) => Ok(Parent { name: Some(name), place: Place::Host, vlan: named.or(vlan) }),
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

/// That what `key` decides has none of these.
fn refuse(texts: &Texts<'_>, key: &str, others: &[&[&'static str]]) -> Result<()> {
    match texts.there(others) {
        Some(other) => Err(texts.contradiction(key, other)),
        None => Ok(()),
    }
}

impl KindSpec {
    /// Whether its containers are on the segment of a parent device.
    pub(crate) fn is_lan(&self) -> bool {
        match self {
            KindSpec::Macvlan(_) | KindSpec::Ipvlan(_) => true,
            KindSpec::Bridge | KindSpec::Plugins(_) | KindSpec::Neutron(_) => false,
        }
    }

    /// Whether whoever makes its links tells everything else too.
    pub(crate) fn is_external(&self) -> bool {
        match self {
            KindSpec::Plugins(_) | KindSpec::Neutron(_) => true,
            KindSpec::Bridge | KindSpec::Macvlan(_) | KindSpec::Ipvlan(_) => false,
        }
    }
}

/// That Docker has subnets for a network whose addresses come from elsewhere.
pub(crate) fn pools_of_others(what: &str) -> Error {
    Error::invalid(format!(
        "-o {what}: neither Docker nor Spoke chooses the addresses of such a network; create it with --ipam-driver null"
    ))
}

#[cfg(test)]
mod tests;
