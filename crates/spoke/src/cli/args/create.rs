//! What a network is made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use model::{Backend, IfName, IngressPolicy, IpNet, Label, NetworkName, Publish, Reach, Sources};

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// The network's name
    #[arg(value_name = "NETWORK")]
    pub(in crate::cli) name: NetworkName,
    /// How containers are connected: by a bridge in the host, each by a routed pair of devices
    /// (ptp), to the segment of a parent device (macvlan, ipvlan), by CNI plugins (cni), to a network
    /// of OpenStack Neutron (neutron), or by the Docker network plugin of that name (plugin:NAME where
    /// it is called as one of these)
    #[arg(short, long, default_value = "bridge")]
    pub(in crate::cli) driver: Driver,
    #[command(flatten)]
    pub(in crate::cli) remote: RemoteArgs,
    #[command(flatten)]
    pub(in crate::cli) lan: LanArgs,
    /// Options of driver neutron: network=NETWORK, subnet=SUBNET, security_groups=GROUP,… and more
    /// (docs/neutron.md); or of a Docker plugin, as its author says
    #[arg(long = "opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) options: Vec<(String, String)>,
    /// The CNI network configuration list of driver cni, which CNI plugins make
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) conflist: Option<PathBuf>,
    /// Where the plugins of driver cni are, in order, between colons
    #[arg(
        long,
        value_delimiter = ':',
        default_value = "/opt/cni/bin:/usr/lib/cni",
        value_name = "DIRECTORIES"
    )]
    pub(in crate::cli) cni_path: Vec<PathBuf>,
    /// A subnet, one of each address family; several with an IPAM plugin
    #[arg(long = "subnet", value_name = "CIDR")]
    pub(in crate::cli) subnets: Vec<IpNet>,
    /// The gateway in a subnet; its first address unless given
    #[arg(long = "gateway", value_name = "IP", requires = "subnets")]
    pub(in crate::cli) gateways: Vec<IpAddr>,
    /// Hand out only addresses of this part of a subnet
    #[arg(long = "ip-range", value_name = "CIDR", requires = "subnets")]
    pub(in crate::cli) ranges: Vec<IpNet>,
    /// The bridge's device; derived from the network's name unless given
    #[arg(long, value_name = "DEVICE")]
    pub(in crate::cli) bridge: Option<IfName>,
    /// The MTU of the network's devices in bytes
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    pub(in crate::cli) mtu: Option<model::Mtu>,
    /// Containers reach only each other and this host, and nobody else reaches them
    #[arg(long)]
    pub(in crate::cli) internal: bool,
    /// Let others reach containers by routes, without published ports, where this host forwards because
    /// of Spoke
    #[arg(long)]
    pub(in crate::cli) direct: bool,
    /// Let others who come by this device reach published ports at the containers' own addresses by
    /// routes, and nobody reach anything else in that way; several
    #[arg(long = "trusted-interface", value_name = "DEVICE", conflicts_with = "direct")]
    pub(in crate::cli) trusted: Vec<IfName>,
    /// The host's IPv4 address that packets leave with; that of the device that they leave by unless
    /// given
    #[arg(long, value_name = "IP", value_parser = source_v4, conflicts_with = "no_masquerade")]
    pub(in crate::cli) host_ipv4: Option<Ipv4Addr>,
    /// The same of IPv6
    #[arg(long, value_name = "IP", value_parser = source_v6, conflicts_with = "no_masquerade")]
    pub(in crate::cli) host_ipv6: Option<Ipv6Addr>,
    /// Let packets leave with the container's own address
    #[arg(long)]
    pub(in crate::cli) no_masquerade: bool,
    /// From where containers can be reached: everywhere, not from other such bridges of this
    /// host, or from no other container
    #[arg(long, value_enum, value_name = "POLICY", default_value = "open")]
    pub(in crate::cli) ingress: Ingress,
    /// From where published ports are reached: from wherever this host's address is, from the
    /// subnets that it is connected to, or from this host only
    #[arg(long, value_enum, value_name = "REACH", default_value = "any")]
    pub(in crate::cli) publish: PublishTo,
    /// What you say of it; `spoke network ls --filter label=KEY` finds it
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = super::connect::quoted::<Label>)]
    pub(in crate::cli) labels: Vec<Label>,
    /// Give a container that returns under the same name the same addresses
    #[arg(long)]
    pub(in crate::cli) sticky: bool,
}

impl CreateArgs {
    /// What is said of how packets leave, and who comes by routes: its options, and whether they are
    /// there.
    pub(in crate::cli) fn passages(&self) -> [(&'static str, bool); 5] {
        [
            ("--no-masquerade", self.no_masquerade),
            ("--host-ipv4", self.host_ipv4.is_some()),
            ("--host-ipv6", self.host_ipv6.is_some()),
            ("--direct", self.direct),
            ("--trusted-interface", !self.trusted.is_empty()),
        ]
    }

    /// How containers of the network publish, before it is said what; nothing where it is the
    /// default.
    pub(in crate::cli) fn reach(&self, backend: Backend) -> Option<Publish> {
        let reach = match self.publish {
            PublishTo::Any => return None,
            PublishTo::Lan => Reach::Lan,
            PublishTo::Local => Reach::Local,
        };
        Some(Publish { reach, ..Publish::new(backend) })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PublishTo {
    Any,
    Lan,
    Local,
}

/// Who connects the containers of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Driver {
    Bridge,
    Ptp,
    Macvlan,
    Ipvlan,
    Cni,
    Neutron,
    Plugin(model::DriverName),
}

impl FromStr for Driver {
    type Err = model::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "bridge" => Driver::Bridge,
            "ptp" => Driver::Ptp,
            "macvlan" => Driver::Macvlan,
            "ipvlan" => Driver::Ipvlan,
            "cni" => Driver::Cni,
            "neutron" => Driver::Neutron,
            plugin => Driver::Plugin(named(plugin)?),
        })
    }
}

/// Before the name of a Docker plugin that is called as something of Spoke's own is.
const PLUGIN: &str = "plugin:";

/// A Docker plugin, whatever it is called.
fn named(text: &str) -> Result<model::DriverName, model::Error> {
    text.strip_prefix(PLUGIN).unwrap_or(text).parse()
}

/// How `--driver` names the Docker plugin `name`.
pub(in crate::cli) fn plugin(name: &model::DriverName) -> String {
    match name.as_str().parse() {
        Ok(Driver::Plugin(_)) | Err(_) => name.to_string(),
        Ok(_) => format!("{PLUGIN}{name}"),
    }
}

// Options of networks that third-party Docker plugins make, or give their addresses.
#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteArgs {
    /// Who hands out addresses: Spoke (default), nobody (null), or the Docker IPAM plugin of that name
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(in crate::cli) ipam_driver: IpamDriver,
    /// Options of the IPAM plugin, as its author says
    #[arg(long = "ipam-opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) ipam_options: Vec<(String, String)>,
    /// An address that no container gets, by a name that is told to the plugin
    #[arg(long = "aux-address", value_name = "NAME=IP", value_parser = auxiliary, requires = "subnets")]
    pub(in crate::cli) auxiliary: Vec<(String, IpAddr)>,
    /// Whether containers have IPv4 addresses
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub(in crate::cli) ipv4: bool,
    /// Give containers IPv6 addresses, too; so with an IPv6 subnet
    #[arg(long)]
    pub(in crate::cli) ipv6: bool,
    /// Whether the network belongs to this host or to many; as the plugin says unless given
    #[arg(long, value_enum, value_name = "SCOPE")]
    pub(in crate::cli) scope: Option<ScopeName>,
    /// Only keep the options, for --config-from; nothing is made
    #[arg(long, conflicts_with = "config_from")]
    pub(in crate::cli) config_only: bool,
    /// Take subnets and options from a network that was made with --config-only
    #[arg(long, value_name = "NETWORK", conflicts_with_all = ["subnets", "gateways", "ranges", "auxiliary", "ipv6", "internal", "ipam_driver", "ipam_options", "options"])]
    pub(in crate::cli) config_from: Option<NetworkName>,
}

/// Who hands out the addresses of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum IpamDriver {
    Default,
    Null,
    Plugin(model::DriverName),
}

impl FromStr for IpamDriver {
    type Err = model::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "default" => IpamDriver::Default,
            "null" => IpamDriver::Null,
            plugin => IpamDriver::Plugin(plugin.parse()?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ScopeName {
    Local,
    Global,
}

// Options of the drivers macvlan and ipvlan, whose containers are on the segment of a parent device.
#[derive(Debug, Args)]
pub(in crate::cli) struct LanArgs {
    /// The device whose segment containers of macvlan and ipvlan are on; that of the default route
    /// unless given
    #[arg(long, value_name = "DEVICE")]
    pub(in crate::cli) parent: Option<IfName>,
    /// A VLAN of the parent instead of itself: a device PARENT.VLAN, made when it is missing
    #[arg(long, value_name = "NUMBER", value_parser = vlan)]
    pub(in crate::cli) vlan: Option<model::VlanId>,
    /// Of macvlan bridge (unless given), private, vepa or passthru; of ipvlan l2 (unless given), l3
    /// or l3s
    #[arg(long, value_enum, value_name = "MODE")]
    pub(in crate::cli) mode: Option<LanMode>,
    /// Addresses come from the segment's DHCP server
    #[arg(long)]
    pub(in crate::cli) dhcp: bool,
    /// Let this host and its containers reach each other, which a macvlan does not by itself
    #[arg(long)]
    pub(in crate::cli) host_access: bool,
    /// Ask the segment before an address is used, and take another if somebody has it
    #[arg(long)]
    pub(in crate::cli) probe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LanMode {
    Bridge,
    Private,
    Vepa,
    Passthru,
    L2,
    L3,
    L3s,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Ingress {
    Open,
    SameBridge,
    Isolated,
}

impl From<Ingress> for IngressPolicy {
    fn from(ingress: Ingress) -> Self {
        match ingress {
            Ingress::Open => IngressPolicy::Open,
            Ingress::SameBridge => IngressPolicy::SameBridge,
            Ingress::Isolated => IngressPolicy::Isolated,
        }
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "an option is KEY=VALUE".to_owned())
}

fn auxiliary(text: &str) -> Result<(String, IpAddr), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let parsed = pair.and_then(|(name, ip)| Some((name.to_owned(), ip.parse().ok()?)));
    parsed.ok_or_else(|| "an auxiliary address is NAME=IP".to_owned())
}

fn source_v4(text: &str) -> Result<Ipv4Addr, String> {
    Sources::read_v4(text).ok_or_else(|| format!("it is {}", Sources::V4))
}

fn source_v6(text: &str) -> Result<Ipv6Addr, String> {
    Sources::read_v6(text).ok_or_else(|| format!("it is {}", Sources::V6))
}

fn vlan(text: &str) -> Result<model::VlanId, String> {
    let id = text.parse().ok().and_then(model::VlanId::new);
    id.ok_or_else(|| "a VLAN is a number from 1 to 4094".to_owned())
}

fn mtu(text: &str) -> Result<model::Mtu, String> {
    let bytes = text.parse().ok().and_then(model::Mtu::new);
    bytes.ok_or_else(|| "an MTU is a number from 68 to 65535".to_owned())
}
