//! The options of `podman network create -o`, and its other flags that mean the same.

mod neutron;
mod ovs;
mod tenant;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{EgressPolicy, Error, IfName, IpvlanMode, Labels, MacvlanMode, NetworkName, Result};
use spec::{
    DefaultRoute, Driver, FrontEnd, KindSpec, NEUTRON_KEYS, NetworkSpec, OVS_KEYS, Source, Texts,
    find, options,
};

use crate::DRIVER;
use crate::wire::NetworkConfig;

const FRONT: FrontEnd = FrontEnd::Podman;

const BRIDGE: &str = "bridge";
const HOST_ACCESS: &str = "host_access";
const MASQUERADE: &str = "masquerade";
const MODE: &str = "mode";
const NETWORK: &str = "network";
const PARENT: &str = "parent";
const PROBE: &str = "probe";
const SOURCES: [&[&str]; 2] = [&["host_ipv4"], &["host_ipv6"]];

/// The requested properties of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    /// To be one that exists already.
    Join(NetworkName),
    /// To be a new one.
    New(Box<NetworkSpec>),
}

/// The words of `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Unmanaged,
    Dhcp,
    Macvlan(MacvlanMode),
    Ipvlan(IpvlanMode),
}

const MODES: [(&str, Mode); 9] = [
    ("unmanaged", Mode::Unmanaged),
    ("dhcp", Mode::Dhcp),
    ("bridge", Mode::Macvlan(MacvlanMode::Bridge)),
    ("private", Mode::Macvlan(MacvlanMode::Private)),
    ("vepa", Mode::Macvlan(MacvlanMode::Vepa)),
    ("passthru", Mode::Macvlan(MacvlanMode::Passthru)),
    ("l2", Mode::Ipvlan(IpvlanMode::L2)),
    ("l3", Mode::Ipvlan(IpvlanMode::L3)),
    ("l3s", Mode::Ipvlan(IpvlanMode::L3s)),
];

impl Spec {
    /// Reads those of a new network; fails on the first that is unknown, senseless or in contradiction.
    pub(crate) fn read(config: &NetworkConfig) -> Result<Self> {
        Self::read_with(config, |texts| texts.network(FRONT))
    }

    /// Reads those of a network that Podman has: its containers start with any that an earlier version took
    /// ([`Texts::recorded_network`]).
    pub(crate) fn recorded(config: &NetworkConfig) -> Result<Self> {
        Self::read_with(config, |texts| texts.recorded_network(FRONT))
    }

    fn read_with(
        config: &NetworkConfig,
        read: impl FnOnce(&Texts<'_>) -> Result<NetworkSpec>,
    ) -> Result<Self> {
        let none = BTreeMap::new();
        let options = config.options.as_ref().unwrap_or(&none);
        let (labels, options) = &Labels::split(options)?;
        let texts = Texts { flag: "-o", map: options };
        let given = NetworkSpec { labels: labels.clone(), ..read(&texts)? };
        if let Some(network) = given.network {
            refuse_others(&texts, &network, labels)?;
            return Ok(Spec::Join(network));
        }
        let network = match () {
            () if ovs::is_meant(&texts) => ovs::network(config, &texts, given)?,
            () if neutron::is_meant(&texts)? => neutron::network(config, &texts, given)?,
            () => new_network(config, &texts, given)?,
        };
        Ok(Spec::New(Box::new(network)))
    }
}

fn refuse_others(texts: &Texts<'_>, network: &NetworkName, labels: &Labels) -> Result<()> {
    let keys = options(FRONT)
        .flat_map(|option| option.podman)
        .chain(NEUTRON_KEYS)
        .chain(OVS_KEYS)
        .copied();
    let mut others = keys.filter(|key| *key != NETWORK);
    let other = match others.find(|key| texts.there(&[&[*key]]).is_some()) {
        None if labels.is_empty() => return Ok(()),
        None => "label.…",
        Some(key) => key,
    };
    Err(Error::invalid(format!(
        "-o {NETWORK}={network} joins that network as it was made; leave out -o {other}"
    )))
}

fn new_network(
    config: &NetworkConfig,
    texts: &Texts<'_>,
    mut given: NetworkSpec,
) -> Result<NetworkSpec> {
    let mode = texts.word_of(
        &[MODE],
        "unmanaged (of a bridge), dhcp, bridge, private, vepa, passthru (of a macvlan), l2, l3 \
         or l3s (of an ipvlan)",
        &MODES,
    )?;
    let kind = kind(config, texts, &mut given, mode)?;
    let no_default_route = given.default_route == Some(false);
    let source = source(config, mode, &kind, given.probe == Some(true))?;
    tenant::check(texts, &given, mode == Some(Mode::Unmanaged), source)?;
    if source == Source::Dhcp && (no_default_route || config.internal) {
        let key = if config.internal { "--internal" } else { "-o no_default_route" };
        return Err(Error::unsupported(format!(
            "{key}: the routes of this network are those that the DHCP server tells; leave it out"
        )));
    }
    check_sources(texts, &given)?;
    Ok(NetworkSpec {
        kind: Some(kind),
        source,
        egress: if config.internal { EgressPolicy::Internal } else { EgressPolicy::Open },
        route: Some(match mode {
            Some(Mode::Unmanaged) => DefaultRoute::Segment,
            _ if config.internal || no_default_route => DefaultRoute::Nowhere,
            _ => DefaultRoute::Bridge,
        }),
        sticky: Some(given.sticky.unwrap_or(true)),
        ..given
    })
}

/// Only masqueraded packets leave with other addresses than their own.
fn check_sources(texts: &Texts<'_>, given: &NetworkSpec) -> Result<()> {
    match texts.there(&SOURCES) {
        Some(key) if given.masquerade == Some(false) => Err(Error::invalid(format!(
            "-o {key} and -o {MASQUERADE}=false contradict each other; leave one out"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn kind(
    config: &NetworkConfig,
    texts: &Texts<'_>,
    given: &mut NetworkSpec,
    mode: Option<Mode>,
) -> Result<KindSpec> {
    let driver = match mode {
        None if texts.there(&[&[PARENT, HOST_ACCESS, PROBE]]).is_some() => Driver::Macvlan,
        None | Some(Mode::Unmanaged) => Driver::Bridge,
        Some(Mode::Dhcp | Mode::Macvlan(_)) => Driver::Macvlan,
        Some(Mode::Ipvlan(_)) => Driver::Ipvlan,
    };
    if let Some(key) = texts.foreign(FRONT, driver) {
        return Err(foreign(key, driver));
    }
    if driver == Driver::Bridge {
        given.bridge = device(config, BRIDGE, given.bridge.take())?;
        return Ok(KindSpec::Bridge);
    }
    given.parent = device(config, PARENT, given.parent.take())?;
    match mode {
        Some(Mode::Ipvlan(mode)) => Ok(KindSpec::Ipvlan(given.ipvlan(mode))),
        Some(Mode::Macvlan(mode)) => macvlan(given, mode),
        Some(Mode::Dhcp | Mode::Unmanaged) | None => macvlan(given, MacvlanMode::default()),
    }
}

/// Why a network of `driver` does not have the option `key`.
fn foreign(key: &str, driver: Driver) -> Error {
    let is_of_bridges = find(FRONT, key).is_some_and(|option| option.is_of(Driver::Bridge));
    Error::invalid(match (driver, is_of_bridges) {
        (Driver::Bridge, _) => format!(
            "-o {MODE}=unmanaged is of a bridge, and -o {key} of networks without one; leave one out"
        ),
        (_, true) => {
            format!("-o {key} is of bridges, and this network is on a parent device; leave it out")
        }
        (_, false) => format!(
            "-o {key} is of macvlans, and this network has an ipvlan's -o {MODE}; leave one out"
        ),
    })
}

fn macvlan(given: &NetworkSpec, mode: MacvlanMode) -> Result<KindSpec> {
    let macvlan = given.macvlan(mode);
    match macvlan.host_access && mode != MacvlanMode::Bridge {
        false => Ok(KindSpec::Macvlan(macvlan)),
        true => Err(Error::invalid(format!(
            "-o {HOST_ACCESS}: only -o {MODE}=bridge lets anybody reach another; leave one out"
        ))),
    }
}

/// A device of the host, by an option or by `--interface-name`.
fn device(config: &NetworkConfig, key: &str, option: Option<IfName>) -> Result<Option<IfName>> {
    let flag = config.network_interface.as_deref().filter(|name| !name.is_empty());
    let flag: Option<IfName> = flag.map(str::parse).transpose()?;
    match (option, flag) {
        (Some(option), Some(flag)) if option != flag => Err(Error::invalid(format!(
            "-o {key}={option} and --interface-name {flag} contradict each other; leave one out"
        ))),
        (option, flag) => Ok(option.or(flag)),
    }
}

fn source(
    config: &NetworkConfig,
    mode: Option<Mode>,
    kind: &KindSpec,
    probes: bool,
) -> Result<Source> {
    let driver = config.ipam_options.as_ref().and_then(|options| options.get("driver"));
    let source = match (driver.map_or("", String::as_str), mode) {
        ("" | "host-local" | DRIVER | "dhcp", Some(Mode::Dhcp)) | ("dhcp", _) => Source::Dhcp,
        ("none", Some(Mode::Dhcp)) => {
            return Err(Error::invalid(
                "-o mode=dhcp and --ipam-driver none contradict each other; leave one out",
            ));
        }
        ("none", _) => Source::Nothing,
        ("" | "host-local" | DRIVER, _) => Source::Book,
        (other, _) => {
            return Err(Error::unsupported(format!(
                "--ipam-driver {}: Spoke has host-local (its address book), dhcp and none",
                other.escape_debug()
            )));
        }
    };
    match (source, kind, config.subnets().first()) {
        (Source::Dhcp | Source::Nothing, _, _) if probes => Err(Error::invalid(format!(
            "-o {PROBE}: what a DHCP server gives is always probed, and without addresses there \
                 is nothing to probe; leave it out"
        ))),
        (Source::Dhcp, KindSpec::Bridge | KindSpec::Ipvlan(_), _) => Err(Error::unsupported(
            "addresses by DHCP are for networks on a parent device, with hardware addresses \
                 of their own: -o mode=dhcp -o parent=DEVICE",
        )),
        (Source::Dhcp | Source::Nothing, _, Some(subnet)) => Err(Error::invalid(format!(
            "--subnet {}: this network's addresses are not from the address book; leave it out",
            subnet.subnet
        ))),
        (source, _, _) => Ok(source),
    }
}
