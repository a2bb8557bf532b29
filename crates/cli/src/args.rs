//! The command line.

pub(super) mod backup;
pub(crate) mod cni;
mod connect;
mod create;
pub(super) mod denied;
pub(super) mod dns;
pub(super) mod egress;
mod endpoint;
pub(super) mod explain;
pub(super) mod firewall;
mod flags;
pub(super) mod host;
mod ipam;
pub(super) mod kurma;
pub(super) mod kuryr;
mod limit;
pub(super) mod neutron;
pub(super) mod plugin;
pub(super) mod podman;
mod port;
mod runtime;
mod set;
mod traffic;
pub(super) mod web;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use model::{Error, LabelFilter, NetworkName, Result, Runtime};

pub(super) use connect::{ConnectArgs, DisconnectArgs, JoinedArgs, MadeArgs, TapArgs};
pub(super) use create::{CreateArgs, Driver, IpamDriver, LanArgs, LanMode, ScopeName, plugin};
pub(super) use endpoint::{
    EndpointCommand, EndpointCreateArgs, EndpointJoinArgs, EndpointLsArgs, EndpointRmArgs,
    NamedArgs, RowFilter, no_value,
};
pub(super) use ipam::IpamCommand;
pub(super) use limit::LimitArgs;
pub(super) use port::{PortAddArgs, PortCommand, PortLsArgs, PortRmArgs};
pub(super) use runtime::{CniCommand, DhcpCommand, DockerCommand, ImageArgs};
pub(super) use set::{RenameArgs, SetArgs};
pub(super) use traffic::{By, CaptureArgs, FlowsArgs, Sort, TopArgs, TrafficCommand};

use crate::output::{Listing, Output};
use backup::{BackupArgs, RestoreArgs};
use denied::DeniedArgs;
use dns::DnsCommand;
use egress::EgressCommand;
use firewall::FirewallCommand;
use host::HostCommand;
use kurma::KurmaCommand;
use kuryr::KuryrCommand;
use neutron::NeutronCommand;
use plugin::PluginCommand;
use podman::PodmanCommand;
use web::WebArgs;

/// One network engine for every container runtime of this host.
#[derive(Debug, Parser)]
#[command(
    name = "spoke",
    version,
    propagate_version = false,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Examples:
  spoke network create front          a bridge network on a free subnet
  spoke ps                            what is attached, by every runtime
  spoke ipam show front               who holds which address, and what is free
  spoke port ls                       which ports of this host lead where
  spoke top                           what containers receive and send
  spoke doctor                        what is wrong with this host, and what mends it
  spoke docker install                be a network driver of the Docker Engine here

Exit codes: 0 done, 1 found something or the kernel refused, 2 wrong usage or a wrong file,
3 not found, 4 taken, exhausted or ambiguous, 5 cannot be judged (explain), 70 a bug in Spoke, 75 try again, 77 permission denied."
)]
pub(super) struct Cli {
    /// How results are written
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub(super) output: Output,
    #[command(subcommand)]
    pub(super) command: Command,
}

impl Cli {
    /// Refuses a form that only the routes of hosts are written in.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) fn refuse_routes(&self) -> Result<()> {
        match (self.output, &self.command) {
            (Output::Frr | Output::Bird, Command::Host(HostCommand::Routes)) => Ok(()),
            (Output::Frr | Output::Bird, _) => {
                Err(Error::invalid("only `spoke host routes` writes for frr or bird"))
            }
            (Output::Table | Output::Json | Output::Yaml, _) => Ok(()),
        }
    }
}

// The arguments of a command are added to the parser when the command is called; those of all
// commands would cost half a millisecond of each process. Comments that document such an argument's
// type would be taken for the command's own.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum Command {
    /// Make, list and remove networks
    #[command(subcommand)]
    Network(NetworkCommand),
    /// Manage this host's membership in a cluster, whose containers reach each other
    #[command(subcommand)]
    Host(HostCommand),
    /// Make endpoints on networks apart from sandboxes, join them, and take them out again
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// List what is attached, by every runtime
    #[command(after_help = "Filters: label=KEY, label=KEY=VALUE, name=TEXT (a part of the name), \
        runtime=cni|docker|kurma|podman|reference|spoke, state=reserved|attaching|attached|detaching. \
        Several filters must all hold.

Examples:
  spoke ps front
  spoke ps --filter label=tier=db
  spoke ps --format '{{.Name}} {{join .Addresses \",\"}}'
  spoke ps -o json")]
    Ps(PsArgs),
    /// List the ports of this host: the former name of `spoke port ls`
    #[command(hide = true)]
    Ports(PortsArgs),
    #[command(flatten)]
    Traffic(TrafficCommand),
    /// List the ports that lead to containers; publish and withdraw those of running ones
    #[command(subcommand)]
    Port(PortCommand),
    /// Limit what a running container may send and receive, of every runtime
    Limit(LimitArgs),
    /// Say why one container does not reach another, and the command that mends it
    #[command(after_help = explain::HELP)]
    Explain(explain::ExplainArgs),
    /// Show by which names containers find each other
    #[command(subcommand)]
    Dns(DnsCommand),
    /// Show and change where the containers of a network may go
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Show what is open, and make published ports obey ufw or firewalld
    #[command(subcommand)]
    Firewall(FirewallCommand),
    /// Show what networks with egress rules refused, and follow what they refuse
    #[command(
        after_help = "`spoke serve` writes it. At most 100 packets a second are reported, and of one \
        container 100 names. The older ones of a busy host are dropped: one or two MiB are kept.

Examples:
  spoke denied agents -n 20
  spoke denied -f
  spoke denied -f -o json             one JSON object a line"
    )]
    Denied(DeniedArgs),
    /// Show what happened on this host, and follow what happens
    #[command(
        after_help = "`spoke serve` writes the events, also those of containers that it did \
        not attach itself. The older ones of a busy host are dropped: one or two MiB are kept.

Events: started, stopped, network-created, network-removed, network-name-gone, attached, detached,
published, unpublished, freed, quarantined, clash, clash-over, port-taken, port-free, healed, contested,
contest-over, lease-lost, lease-regained, host-joined, host-lost, host-back, host-removed, host-isolated,
host-isolation-over, cleanup-pending, cleanup-done, quota, plugin-came, plugin-gone, failed.

Examples:
  spoke events --last 20
  spoke events -f
  spoke events -f -o json             one JSON object a line"
    )]
    Events(EventsArgs),
    /// Show, check and repair the address book
    #[command(subcommand)]
    Ipam(IpamCommand),
    /// Remove what dead containers left behind: records, addresses, links, rules
    #[command(after_help = "Only what provably has no owner is removed. What is in doubt is kept \
        and its addresses are not allocated. In Neutron, what this host made and no record here \
        has any more goes after a second check; networks, subnets and pools that a runtime \
        may know go with --force only, unless every engine here answers and lists none of them. \
        Cleanups that Docker plugins did not answer are shown and retried; --force forgets those \
        that no call can finish: what only the plugin knows, what it refused five times, and those \
        of plugins that are not installed any more. It says what they keep because of it.\n\nExamples:\n  spoke gc --dry-run\n  spoke gc")]
    Gc(GcArgs),
    /// Write the networks, reservations and kept endpoints of this host into a file
    #[command(
        after_help = "The file has what outlives a reboot. It has no running containers, and no \
        configuration (/etc/spoke). Exits with 1 where a damaged record is not in it.\n\nExamples:
  spoke backup book.spoke
  spoke backup - | ssh other 'cat > book.spoke'"
    )]
    Backup(BackupArgs),
    /// Put back what a backup holds and this host does not
    #[command(
        after_help = "All of it, or nothing: a name, an address or a subnet that something else \
        has meanwhile is named. Running containers are not touched.\n\nExamples:
  spoke restore --dry-run book.spoke
  spoke restore book.spoke
  spoke restore --keep-existing book.spoke"
    )]
    Restore(RestoreArgs),
    /// Say what is wrong with this host for containers, and the command that repairs it
    #[command(after_help = "Exits with 1 when something is a FAIL.")]
    Doctor,
    /// Run the daemon: serve Docker, watch over this host, report what happens
    #[command(after_help = "Serves Docker Engines as their network driver and IPAM driver. CNI \
        runtimes and the commands need no daemon; with one, whatever they do is reported too, a \
        packet filter that another program flushes is put back at once, and subnets that two runtimes \
        use are reported.

Listens at the socket that systemd passes, or at /run/docker/plugins/spoke.sock. Ends on SIGTERM.
Nothing is lost when it is killed: it remembers nothing that is not in the book.

Configuration: /etc/spoke/config.toml; docs/configuration.md has every section.

Examples:
  spoke docker install                let systemd run it
  spoke serve                         run it here
  curl --unix-socket /run/spoke/metrics.sock http://spoke/metrics")]
    Serve,
    /// Make Spoke a network driver and IPAM driver of this host's Docker Engine
    #[command(subcommand)]
    Docker(DockerCommand),
    /// Connect pods to networks whose plugins run out of images
    #[command(
        subcommand,
        after_help = "Networks are those of /etc/kurma/kurma.json, as Kurma has them. Needs no \
        daemon; with [kurma] enabled = true, `spoke serve` keeps the plugins running."
    )]
    Kurma(KurmaCommand),
    /// Serve Docker as kuryr-libnetwork does: containers on OpenStack Neutron
    #[command(subcommand)]
    Kuryr(KuryrCommand),
    /// Show what this host keeps in OpenStack Neutron ahead of need
    #[command(subcommand)]
    Neutron(NeutronCommand),
    /// Keep the leases of containers that get their addresses from DHCP servers
    #[command(
        subcommand,
        after_help = "`spoke dhcp daemon` runs it here, with the flags of CNI's \
        reference; `spoke serve` does the same by itself."
    )]
    Dhcp(DhcpCommand),
    /// Make Spoke a network driver of this host's Podman, from version 5 on
    #[command(subcommand)]
    Podman(PodmanCommand),
    /// Make Spoke the CNI plugins of this host, and be a CNI runtime
    #[command(subcommand)]
    Cni(CniCommand),
    /// Test third-party plugins, record and replay what they say
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Show the networks of this host in a browser, as long as this command runs
    #[command(after_help = web::HELP)]
    Web(WebArgs),
    /// Print the version
    Version,
    /// Print a completion script
    #[command(after_help = "Examples:
  spoke completion bash > /etc/bash_completion.d/spoke
  spoke completion zsh > /usr/share/zsh/site-functions/_spoke
  spoke completion fish > /usr/share/fish/vendor_completions.d/spoke.fish")]
    Completion {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the names that the last of these words may become, for completion scripts
    #[command(hide = true)]
    Complete {
        /// The words of a command line after the program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// Where to
        directory: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum NetworkCommand {
    /// List networks
    #[command(
        visible_alias = "list",
        after_help = "Filters: name=TEXT (a part of the name), driver=bridge|ptp|macvlan|ipvlan|…, \
            runtime=cni|docker|kurma|podman|reference|spoke, label=KEY, label=KEY=VALUE. Several \
            filters must all hold.\n\nExamples:
  spoke network ls --filter runtime=podman
  spoke network ls --format 'table {{.Name}}\\t{{.Bridge}}'"
    )]
    Ls(LsArgs),
    /// Show networks in full
    #[command(after_help = "Examples:
  spoke network inspect front
  spoke network inspect front --format '{{range .Subnets}}{{.Gateway}}{{end}}'")]
    Inspect(InspectArgs),
    /// Make a network
    #[command(after_help = "Without --subnet, the first /24 from 10.200.0.0 on is taken that no \
        network and no route of this host uses (docs/configuration.md). With a subnet of IPv6 alone the network is \
        of IPv6 alone. Drivers macvlan and ipvlan put containers on the segment of \
        a parent device: --subnet is that segment's, or --dhcp lets its server give \
        addresses.\n\nExamples:
  spoke network create front
  spoke network create --subnet 10.70.1.0/24 --subnet fd00:70::/64 --mtu 1450 back
  spoke network create --subnet fd00:71::/64 six
  spoke network create --internal vault
  spoke network create --publish lan home
  spoke network create -d macvlan --parent eth0 --dhcp lan
  spoke network create -d macvlan --parent eth0 --vlan 20 --subnet 192.168.20.0/24 \\
    --ip-range 192.168.20.128/25 --host-access --probe lab
  spoke network create -d cni --conflist /etc/cni/net.d/10-mynet.conflist mynet
  spoke network create -d weave --subnet 10.32.0.0/16 woven
  spoke network create --ipam-driver pools --ipam-opt view=lab --subnet 10.9.0.0/24 lab")]
    Create(Box<CreateArgs>),
    /// Connect a network namespace to a network, as a container of no runtime
    #[command(
        after_help = "The container's default route is that of the network with the greatest \
        --gw-priority, of each address family; of equal ones that of one that is not internal, then of both \
        families, then the first by name: a network that comes later may take it. Where none of its networks has one and not all are \
        internal, it is connected to the network gwbridge besides, which publishes its ports.

A namespace with a name below /run/netns gets /etc/netns/NAME/hosts and /etc/netns/NAME/resolv.conf, which \
        `ip netns exec` puts in the places of the host's. What another program wrote there stays.

Examples:
  ip netns add web
  spoke network connect front web
  spoke network connect --ip 10.70.1.9 --publish 8080:80 back /run/netns/web
  spoke network connect --gw-priority 10 --ifname wan0 uplink 4711
  spoke network connect --alias www --dns 10.70.1.2 --dns-search lan.example back web"
    )]
    Connect(Box<ConnectArgs>),
    /// Take a container off a network that `connect` connected it to
    #[command(after_help = "Examples:\n  spoke network disconnect front web")]
    Disconnect(DisconnectArgs),
    /// Change a network that is in use, with what its running containers have of it
    Set(SetArgs),
    /// Rename a network, also while containers are on it
    Rename(RenameArgs),
    /// Remove networks, with their bridges
    #[command(visible_alias = "remove", after_help = "Examples:\n  spoke network rm front back")]
    Rm(RmArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    pub(super) listing: Listing,
    /// List only networks of which this holds
    #[arg(short, long = "filter", value_name = "KEY=VALUE", value_parser = Filter::parse)]
    pub(super) filters: Vec<Filter>,
}

/// One condition on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Name(String),
    Driver(String),
    Runtime(Runtime),
    Label(LabelFilter),
}

impl Filter {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("name", value)) => Ok(Self::Name(value.to_owned())),
            Some(("driver", value)) => Ok(Self::Driver(value.to_owned())),
            Some(("runtime", value)) => endpoint::runtime(value).map(Self::Runtime),
            Some(("label", label)) => connect::quoted(label).map(Self::Label),
            Some(_) | None => Err("filters are name=, driver=, runtime= and label=".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The networks
    #[arg(required = true, value_name = "NETWORK")]
    pub(super) names: Vec<NetworkName>,
    /// Print each network by a template
    #[arg(short, long, value_name = "TEMPLATE")]
    pub(super) format: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RmArgs {
    /// The networks
    #[arg(required = true, value_name = "NETWORK")]
    pub(super) names: Vec<NetworkName>,
    /// Detach what is still attached; succeed also if a network does not exist
    #[arg(short, long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct PsArgs {
    /// Only this network
    pub(super) network: Option<NetworkName>,
    #[command(flatten)]
    pub(super) listing: Listing,
    /// List only attachments of which this holds
    #[arg(short, long = "filter", value_name = "KEY=VALUE", value_parser = RowFilter::parse)]
    pub(super) filters: Vec<RowFilter>,
}

#[derive(Debug, Args)]
pub(super) struct PortsArgs {
    /// Only this network
    pub(super) network: Option<NetworkName>,
    #[command(flatten)]
    pub(super) listing: Listing,
    /// List only ports of attachments with this label
    #[arg(short, long = "filter", value_name = "label=KEY[=VALUE]", value_parser = label_filter)]
    pub(super) filters: Vec<LabelFilter>,
}

fn label_filter(text: &str) -> Result<LabelFilter, String> {
    match text.split_once('=') {
        Some(("label", label)) => connect::quoted(label),
        Some(_) | None => Err("the filter is label=".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// Continue with each event as it comes
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only so many of the past; with --follow none unless given
    #[arg(short = 'n', long, value_name = "NUMBER")]
    pub(super) last: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    /// In Neutron, remove also what a runtime may know although the store does not; drop pending
    /// cleanups that no call to a Docker plugin will complete; do not wait for what is younger than
    /// a minute
    #[arg(long)]
    pub(super) force: bool,
}

// The directory of CNI plugins.
