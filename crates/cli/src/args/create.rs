//! Arguments that describe a network.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use model::{
    AddressSpace, EgressPolicy, EngineKind, IpNet, Label, Labels, NetworkName, Placement,
    TransportChoice,
};
use spec::NetworkSpec;

use super::flags::NetworkFlags;

#[derive(Clone, Debug, Args)]
pub(crate) struct CreateArgs {
    /// The network's name
    #[arg(value_name = "NETWORK")]
    pub(crate) name: NetworkName,
    /// How containers are connected: by a bridge in the host, each by a routed pair of devices
    /// (ptp), to the segment of a parent device (macvlan, ipvlan), by CNI plugins (cni), to a network
    /// of OpenStack Neutron (neutron), to a segment of Open vSwitch (ovs), or by the Docker network
    /// plugin of that name (plugin:NAME where it is called as one of these)
    #[arg(short, long, default_value = "bridge")]
    pub(crate) driver: Driver,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) lan: LanArgs,
    #[command(flatten)]
    pub(crate) many: ManyArgs,
    /// Options of driver neutron: network=NETWORK, subnet=SUBNET, security_groups=GROUP,… and more
    /// (docs/neutron.md); of driver ovs: bridge=BRIDGE, vlan=NUMBER, vni=NUMBER, remote=IP,
    /// database=ADDRESS (docs/ovs.md); or of a Docker plugin, as its author says
    #[arg(long = "opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) options: Vec<(String, String)>,
    /// The CNI network configuration list of driver cni, which CNI plugins make
    #[arg(long, value_name = "FILE")]
    pub(crate) conflist: Option<PathBuf>,
    /// Where the plugins of driver cni are, in order, between colons
    #[arg(
        long,
        value_delimiter = ':',
        default_value = "/opt/cni/bin:/usr/lib/cni",
        value_name = "DIRECTORIES"
    )]
    pub(crate) cni_path: Vec<PathBuf>,
    /// A subnet, one of each address family; several with an IPAM plugin
    #[arg(long = "subnet", value_name = "CIDR", value_parser = cidr)]
    pub(crate) subnets: Vec<IpNet>,
    /// The gateway in a subnet; its first address unless given
    #[arg(long = "gateway", value_name = "IP", requires = "subnets")]
    pub(crate) gateways: Vec<IpAddr>,
    /// Allocate only addresses of this part of a subnet
    #[arg(long = "ip-range", value_name = "CIDR", requires = "subnets", value_parser = cidr)]
    pub(crate) ranges: Vec<IpNet>,
    #[command(flatten)]
    pub(crate) flags: NetworkFlags,
    /// Containers reach only each other and this host, and no other host reaches them
    #[arg(long)]
    pub(crate) internal: bool,
    /// A label; `spoke network ls --filter label=KEY` finds it
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = super::connect::quoted::<Label>)]
    pub(crate) labels: Vec<Label>,
}

// Options of a network of many hosts.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManyArgs {
    /// Make it on all hosts of the cluster, on these, or on those with these labels (`spoke host`)
    #[arg(long, value_name = "all|HOST,…|KEY=VALUE,…", conflicts_with_all = ["driver", "gateways", "ranges", "labels",
        "options", "ipam_driver", "ipam_options", "auxiliary", "scope", "config_only", "config_from", "mode",
        "dhcp", "conflist", "cni_path"])]
    pub(crate) hosts: Option<Placement>,
    /// The prefix length of the part of the subnet that each host has for itself; 24 unless given, or less in
    /// a small subnet; of a subnet of IPv6 alone, 8 more than its own
    #[arg(long, value_name = "LENGTH", requires = "hosts")]
    pub(crate) block: Option<u8>,
    /// Encrypt what goes from host to host, by the kernel's WireGuard
    #[arg(long, requires = "hosts")]
    pub(crate) encrypt: bool,
    /// How packets go from host to host: in VXLAN (unless given), as they are by routes where the hosts share a segment,
    /// or auto: routes where every host of the network is on this one's segment
    #[arg(long, value_name = "auto|vxlan|route", requires = "hosts")]
    pub(crate) transport: Option<TransportChoice>,
    /// Make it also in these engines of each host, without a command there: docker, podman, or cni for what
    /// reads CNI's configuration lists
    #[arg(long = "in", value_name = "ENGINE,…", value_delimiter = ',', requires = "hosts")]
    pub(crate) engines: Vec<EngineKind>,
}

impl CreateArgs {
    /// The tenant's address space, if the network has one.
    pub(crate) fn address_space(&self) -> Option<&AddressSpace> {
        self.flags.spec.address_space.as_ref()
    }

    /// The requested properties of the network.
    pub(crate) fn spec(&self) -> model::Result<NetworkSpec> {
        Ok(NetworkSpec {
            egress: if self.internal { EgressPolicy::Internal } else { EgressPolicy::Open },
            labels: Labels::of(self.labels.iter().cloned())?,
            ..self.flags.spec.clone()
        })
    }
}

/// The driver of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Bridge,
    Ptp,
    Macvlan,
    Ipvlan,
    Cni,
    Neutron,
    Ovs,
    Plugin(model::DriverName),
}

impl Driver {
    /// As the table of options knows it.
    pub(crate) fn kind(&self) -> spec::Driver {
        match self {
            Driver::Bridge => spec::Driver::Bridge,
            Driver::Ptp => spec::Driver::Ptp,
            Driver::Macvlan => spec::Driver::Macvlan,
            Driver::Ipvlan => spec::Driver::Ipvlan,
            Driver::Cni => spec::Driver::Chain,
            Driver::Neutron => spec::Driver::Neutron,
            Driver::Ovs => spec::Driver::Ovs,
            Driver::Plugin(_) => spec::Driver::Plugin,
        }
    }
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
            "ovs" => Driver::Ovs,
            plugin => Driver::Plugin(named(plugin)?),
        })
    }
}

/// Before the name of a Docker plugin that is called as something of Spoke's own is.
const PLUGIN: &str = "plugin:";

/// A Docker plugin, whatever it is called.
/// An address alone is right, but for what it lacks.
fn cidr(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>().map_err(|error| {
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(it, rest)| (it, Some(rest)));
        match (address.parse::<IpAddr>(), prefix) {
            (Ok(IpAddr::V4(_)), None) => format!("it has no prefix length, as {text}/24 has"),
            (Ok(IpAddr::V6(_)), None) => format!("it has no prefix length, as {text}/64 has"),
            (Ok(IpAddr::V4(_)), Some(_)) => "the prefix length is a number from 0 to 32".to_owned(),
            (Ok(IpAddr::V6(_)), Some(_)) => {
                "the prefix length is a number from 0 to 128".to_owned()
            }
            (Err(_), _) => error.to_string(),
        }
    })
}

fn named(text: &str) -> Result<model::DriverName, model::Error> {
    text.strip_prefix(PLUGIN).unwrap_or(text).parse()
}

/// How `--driver` names the Docker plugin `name`.
pub(crate) fn plugin(name: &model::DriverName) -> String {
    match name.as_str().parse() {
        Ok(Driver::Plugin(_)) | Err(_) => name.to_string(),
        Ok(_) => format!("{PLUGIN}{name}"),
    }
}

// Options of networks that third-party Docker plugins make, or give their addresses.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Source of addresses: Spoke (default), none (null), or the Docker IPAM plugin of that name
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) ipam_driver: IpamDriver,
    /// Options of the IPAM plugin, as its author says
    #[arg(long = "ipam-opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) ipam_options: Vec<(String, String)>,
    /// An address that no container gets, by a name that the plugin gets
    #[arg(long = "aux-address", value_name = "NAME=IP", value_parser = auxiliary, requires = "subnets")]
    pub(crate) auxiliary: Vec<(String, IpAddr)>,
    /// Whether containers have IPv4 addresses, with a Docker plugin or --hosts; else --subnet says it: one of IPv6
    /// alone makes a network of IPv6 alone
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub(crate) ipv4: bool,
    /// Give containers IPv6 addresses, too, with a Docker plugin or --hosts; so with an IPv6 subnet
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Whether the network belongs to this host or to many; as the plugin says unless given
    #[arg(long, value_enum, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeName>,
    /// Only keep the options, for --config-from; nothing is made
    #[arg(long, conflicts_with = "config_from")]
    pub(crate) config_only: bool,
    /// Take subnets and options from a network that was made with --config-only
    #[arg(long, value_name = "NETWORK", conflicts_with_all = ["subnets", "gateways", "ranges", "auxiliary", "ipv6", "internal", "ipam_driver", "ipam_options", "options"])]
    pub(crate) config_from: Option<NetworkName>,
}

/// The source of a network's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IpamDriver {
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
pub(crate) enum ScopeName {
    Local,
    Global,
}

// Options of the drivers macvlan and ipvlan, whose containers are on the segment of a parent device.
#[derive(Clone, Debug, Args)]
pub(crate) struct LanArgs {
    /// Of macvlan bridge (unless given), private, vepa or passthru; of ipvlan l2 (unless given), l3
    /// or l3s
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<LanMode>,
    /// Addresses come from the segment's DHCP server
    #[arg(long)]
    pub(crate) dhcp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanMode {
    Bridge,
    Private,
    Vepa,
    Passthru,
    L2,
    L3,
    L3s,
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
