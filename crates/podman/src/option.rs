//! What was said with `podman network create -o`, and by its other flags that say the same.

mod neutron;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::text::{choice, interfaces};
use model::{
    Error, IfName, IngressPolicy, IpvlanMode, Labels, MacvlanMode, Mtu, NEUTRON_KEYS, NetworkName,
    NeutronLink, Parent, Place, Reach, Result, Sources, VlanId,
};

use crate::DRIVER;
use crate::text::Texts;
use crate::wire::NetworkConfig;

const BRIDGE: &str = "bridge";
const CLOUD: &str = "driver";
const DIRECT: &str = "direct";
const HAIRPIN: &str = "hairpin";
const HOST_V4: &str = "host_ipv4";
const HOST_V6: &str = "host_ipv6";
const HOST_ACCESS: &str = "host_access";
const ISOLATE: &str = "isolate";
const MASQUERADE: &str = "masquerade";
const METRIC: &str = "metric";
const MODE: &str = "mode";
const MTU: &str = "mtu";
const NETWORK: &str = "network";
const NO_DEFAULT_ROUTE: &str = "no_default_route";
const PARENT: &str = "parent";
const PROBE: &str = "probe";
const PUBLISH: &str = "publish";
const STICKY: &str = "sticky";
const TRUSTED: &str = "trusted_host_interfaces";
const VLAN: &str = "vlan";

/// Every key, in the order in which an error names them.
const KEYS: [&str; 20] = [
    BRIDGE,
    MTU,
    ISOLATE,
    NETWORK,
    PARENT,
    VLAN,
    MODE,
    HOST_ACCESS,
    PROBE,
    PUBLISH,
    MASQUERADE,
    HOST_V4,
    HOST_V6,
    HAIRPIN,
    DIRECT,
    TRUSTED,
    NO_DEFAULT_ROUTE,
    METRIC,
    STICKY,
    CLOUD,
];

/// What describes a network's bridge, and no network on a parent.
const OF_BRIDGES: [&str; 9] =
    [BRIDGE, ISOLATE, HAIRPIN, DIRECT, TRUSTED, MASQUERADE, HOST_V4, HOST_V6, PUBLISH];

/// What Neutron says of its networks, and options do not.
const NOT_OF_NEUTRON: [&str; 16] = [
    BRIDGE,
    MTU,
    ISOLATE,
    PARENT,
    VLAN,
    MODE,
    HOST_ACCESS,
    PROBE,
    MASQUERADE,
    HOST_V4,
    HOST_V6,
    HAIRPIN,
    DIRECT,
    TRUSTED,
    NO_DEFAULT_ROUTE,
    STICKY,
];

/// What describes a macvlan, and nothing else.
const OF_MACVLANS: [&str; 2] = [HOST_ACCESS, PROBE];

/// What a network's options ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    /// To be one that is there already.
    Join(NetworkName),
    /// To be a new one.
    New(NewNetwork),
}

/// What is asked of a new network. What is [`None`] was not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewNetwork {
    pub(crate) shape: Shape,
    pub(crate) source: Source,
    pub(crate) mtu: Option<Mtu>,
    pub(crate) ingress: IngressPolicy,
    pub(crate) default_route: bool,
    pub(crate) metric: Option<u32>,
    pub(crate) masquerade: Option<bool>,
    pub(crate) sources: Sources,
    pub(crate) trusted: Vec<IfName>,
    pub(crate) reach: Reach,
    pub(crate) sticky: bool,
    pub(crate) labels: Labels,
}

/// What containers are connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A bridge of this host.
    Bridge {
        name: Option<IfName>,
        /// The VLAN of the containers' ports.
        vlan: Option<VlanId>,
        hairpin: bool,
        /// Whether others reach its containers by routes.
        direct: bool,
        /// Whether the bridge is only a switch, and somebody else's to configure.
        unmanaged: bool,
    },
    /// The segment of a device, with hardware addresses of their own.
    Macvlan {
        parent: Parent,
        mode: MacvlanMode,
        /// Whether the host and the containers reach each other.
        host_access: bool,
        /// Whether the segment is asked before an address is used.
        probe: bool,
    },
    /// The segment of a device, with its hardware address.
    Ipvlan { parent: Parent, mode: IpvlanMode },
    /// A network of Neutron.
    Neutron(Box<NeutronLink>),
}

/// Where addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The address book.
    Book,
    /// The DHCP server of the parent's segment.
    Dhcp,
    /// Nowhere.
    Nothing,
    /// The cloud that owns the network.
    Cloud,
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
    /// Reads them all; fails on the first that is unknown, senseless or in contradiction.
    pub(crate) fn read(config: &NetworkConfig) -> Result<Self> {
        let none = BTreeMap::new();
        let options = config.options.as_ref().unwrap_or(&none);
        let (labels, options) = &Labels::split(options)?;
        let texts = Texts::of(options, &KEYS)?;
        if let Some(network) = texts.parsed(NETWORK)? {
            let keys = KEYS.iter().chain(NEUTRON_KEYS).copied();
            let others: Vec<&str> = keys.filter(|key| *key != NETWORK).collect();
            return match texts.first_of(&others) {
                None if !labels.is_empty() => Err(Error::invalid(format!(
                    "-o {NETWORK}={network} joins that network as it was made; leave out -o label.…"
                ))),
                None => Ok(Spec::Join(network)),
                Some(key) => Err(Error::invalid(format!(
                    "-o {NETWORK}={network} joins that network as it was made; leave out -o {key}"
                ))),
            };
        }
        if neutron::is_meant(&texts)? {
            let network = neutron::network(config, &texts, options)?;
            return Ok(Spec::New(NewNetwork { labels: labels.clone(), ..network }));
        }
        let network = new_network(config, &texts)?;
        Ok(Spec::New(NewNetwork { labels: labels.clone(), ..network }))
    }
}

fn new_network(config: &NetworkConfig, texts: &Texts<'_>) -> Result<NewNetwork> {
    let mode = texts.one(
        MODE,
        "unmanaged (of a bridge), dhcp, bridge, private, vepa, passthru (of a macvlan), l2, l3 \
         or l3s (of an ipvlan)",
        choice(&MODES),
    )?;
    let shape = shape(config, texts, mode)?;
    let no_default_route = texts.flag(NO_DEFAULT_ROUTE)?.unwrap_or(false);
    let source = source(config, mode, &shape)?;
    if source == Source::Dhcp && (no_default_route || config.internal) {
        let key = if config.internal { "--internal" } else { "-o no_default_route" };
        return Err(Error::unsupported(format!(
            "{key}: the routes of this network are those that the DHCP server tells; leave it out"
        )));
    }
    Ok(NewNetwork {
        source,
        shape,
        mtu: texts.one(MTU, "a number of bytes from 68 to 65535", |text| {
            text.parse().ok().and_then(Mtu::new)
        })?,
        ingress: texts
            .one(
                ISOLATE,
                "false, true (networks that say so do not reach each other) or container",
                choice(&[
                    ("false", IngressPolicy::Open),
                    ("0", IngressPolicy::Open),
                    ("true", IngressPolicy::SameBridge),
                    ("1", IngressPolicy::SameBridge),
                    ("container", IngressPolicy::Isolated),
                ]),
            )?
            .unwrap_or(IngressPolicy::Open),
        default_route: !config.internal && !no_default_route && mode != Some(Mode::Unmanaged),
        metric: texts.parsed(METRIC)?,
        masquerade: texts.flag(MASQUERADE)?,
        sources: sources(texts)?,
        trusted: trusted(texts)?,
        reach: reach(texts)?,
        sticky: texts.flag(STICKY)?.unwrap_or(true),
        labels: Labels::default(),
    })
}

fn reach(texts: &Texts<'_>) -> Result<Reach> {
    let words = [("any", Reach::Any), ("lan", Reach::Lan), ("local", Reach::Local)];
    Ok(texts.one(PUBLISH, "any, lan or local", choice(&words))?.unwrap_or_default())
}

/// The addresses that packets leave with, which only masqueraded ones do.
fn sources(texts: &Texts<'_>) -> Result<Sources> {
    let sources = Sources {
        v4: texts.one(HOST_V4, Sources::V4, Sources::read_v4)?,
        v6: texts.one(HOST_V6, Sources::V6, Sources::read_v6)?,
    };
    match texts.first_of(&[HOST_V4, HOST_V6]) {
        Some(key) if texts.flag(MASQUERADE)? == Some(false) => Err(Error::invalid(format!(
            "-o {key} and -o {MASQUERADE}=false contradict each other; leave one out"
        ))),
        Some(_) | None => Ok(sources),
    }
}

/// From where others reach published ports at the containers' own addresses.
fn trusted(texts: &Texts<'_>) -> Result<Vec<IfName>> {
    let expected = "names of interfaces between colons, such as eth1:eth2";
    let said = texts.one(TRUSTED, expected, |text| interfaces(text).ok())?;
    Ok(said.unwrap_or_default())
}

fn shape(config: &NetworkConfig, texts: &Texts<'_>, mode: Option<Mode>) -> Result<Shape> {
    let on_parent = match mode {
        None => texts.first_of(&[PARENT, HOST_ACCESS, PROBE]).is_some(),
        Some(Mode::Unmanaged) => false,
        Some(Mode::Dhcp | Mode::Macvlan(_) | Mode::Ipvlan(_)) => true,
    };
    match (on_parent, mode) {
        (false, _) => bridge(config, texts, mode == Some(Mode::Unmanaged)),
        (true, Some(Mode::Ipvlan(mode))) => {
            if let Some(key) = texts.first_of(&OF_MACVLANS) {
                return Err(Error::invalid(format!(
                    "-o {key} is of macvlans, and this network has an ipvlan's -o {MODE}; leave \
                     one out"
                )));
            }
            Ok(Shape::Ipvlan { parent: parent(config, texts)?, mode })
        }
        (true, Some(Mode::Macvlan(mode))) => macvlan(config, texts, mode),
        (true, Some(Mode::Dhcp | Mode::Unmanaged) | None) => {
            macvlan(config, texts, MacvlanMode::default())
        }
    }
}

fn bridge(config: &NetworkConfig, texts: &Texts<'_>, unmanaged: bool) -> Result<Shape> {
    if let Some(key) = texts.first_of(&[PARENT, HOST_ACCESS, PROBE]) {
        return Err(Error::invalid(format!(
            "-o {MODE}=unmanaged is of a bridge, and -o {key} of networks without one; leave one \
             out"
        )));
    }
    Ok(Shape::Bridge {
        name: device(config, texts, BRIDGE)?,
        vlan: vlan(texts)?,
        hairpin: texts.flag(HAIRPIN)?.unwrap_or(true),
        direct: texts.flag(DIRECT)?.unwrap_or(false),
        unmanaged,
    })
}

fn macvlan(config: &NetworkConfig, texts: &Texts<'_>, mode: MacvlanMode) -> Result<Shape> {
    let host_access = texts.flag(HOST_ACCESS)?.unwrap_or(false);
    if host_access && mode != MacvlanMode::Bridge {
        return Err(Error::invalid(format!(
            "-o {HOST_ACCESS}: only -o {MODE}=bridge lets anybody reach another; leave one out"
        )));
    }
    let probe = texts.flag(PROBE)?.unwrap_or(false);
    Ok(Shape::Macvlan { parent: parent(config, texts)?, mode, host_access, probe })
}

/// The device whose segment it is.
fn parent(config: &NetworkConfig, texts: &Texts<'_>) -> Result<Parent> {
    match texts.first_of(&OF_BRIDGES) {
        Some(key) => Err(Error::invalid(format!(
            "-o {key} is of bridges, and this network is on a parent device; leave it out"
        ))),
        None => Ok(Parent {
            name: device(config, texts, PARENT)?,
            place: Place::Host,
            vlan: vlan(texts)?,
        }),
    }
}

fn vlan(texts: &Texts<'_>) -> Result<Option<VlanId>> {
    texts.one(VLAN, "a VLAN from 1 to 4094", |text| text.parse().ok().and_then(VlanId::new))
}

/// A device of the host, by an option or by `--interface-name`.
fn device(config: &NetworkConfig, texts: &Texts<'_>, key: &str) -> Result<Option<IfName>> {
    let flag = config.network_interface.as_deref().filter(|name| !name.is_empty());
    let flag: Option<IfName> = flag.map(str::parse).transpose()?;
    match (texts.parsed(key)?, flag) {
        (Some(option), Some(flag)) if option != flag => Err(Error::invalid(format!(
            "-o {key}={option} and --interface-name {flag} contradict each other; leave one out"
        ))),
        (option, flag) => Ok(option.or(flag)),
    }
}

fn source(config: &NetworkConfig, mode: Option<Mode>, shape: &Shape) -> Result<Source> {
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
    match (source, shape, config.subnets().first()) {
        (Source::Dhcp | Source::Nothing, Shape::Macvlan { probe: true, .. }, _) => {
            Err(Error::invalid(format!(
                "-o {PROBE}: what a DHCP server gives is always probed, and without addresses there \
                 is nothing to probe; leave it out"
            )))
        }
        (Source::Dhcp, Shape::Bridge { .. } | Shape::Ipvlan { .. }, _) => Err(Error::unsupported(
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
