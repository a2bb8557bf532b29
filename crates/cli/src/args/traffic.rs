//! The arguments of `spoke top`, `spoke flows` and `spoke capture`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use model::IfName;

const TOP: &str = "Counted by the kernel since the container was connected, seen from the \
    container: RX is what it received. Needs no daemon. On a terminal the table is drawn anew each \
    second until ^C; otherwise it is printed once.

Examples:
  spoke top                           all containers, the busiest first
  spoke top --by network
  spoke top --by port                 what each published port carried
  spoke top --sort drops front
  spoke top -o json                   once, to the byte";

const FLOWS: &str = "Connections are those that this host's kernel tracks: what it \
    routes, translates or ends. Between two containers on one bridge it tracks only where br_netfilter \
    is on. SENT and ANSWERED need `sysctl net.netfilter.nf_conntrack_acct=1`.

Examples:
  spoke flows
  spoke flows web                     those of one container
  spoke flows -f front                what begins and ends on a network
  spoke flows -o json";

const CAPTURE: &str = "A file is pcapng, which tcpdump and Wireshark read. Ends on ^C, after \
    --count packets, when the reader ends, or when the container is gone.

FILTER: host ADDRESS|CONTAINER, net SUBNET, port NUMBER, portrange FIRST-LAST, each also with src or dst in \
    front; tcp, udp, icmp, icmp6, arp, ip, ip6; and, or, not, parentheses. A subset of tcpdump's.

Examples:
  spoke capture web                   a line for each packet
  spoke capture web -w web.pcapng -c 1000
  spoke capture web -w - tcp port 80 | tcpdump -nr -
  spoke capture web 'not host api and (udp or icmp)'
  ssh HOST spoke capture web -w - | wireshark -k -i -";

/// More bytes of a packet are not kept; no packet has more.
const LARGEST: u32 = 262_144;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TrafficCommand {
    /// Show what containers receive and send, as it changes
    #[command(after_help = TOP)]
    Top(TopArgs),
    /// List the connections of containers, by the names of both ends, and follow them
    #[command(after_help = FLOWS)]
    Flows(FlowsArgs),
    /// Write down the packets of a container, seen in its own network namespace
    #[command(after_help = CAPTURE)]
    Capture(CaptureArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Only these containers and networks
    #[arg(value_name = "CONTAINER|NETWORK")]
    pub(crate) names: Vec<String>,
    /// Print one table and end
    #[arg(long)]
    pub(crate) once: bool,
    /// One row for each container on each network, or for each network
    #[arg(long, value_enum, default_value = "container")]
    pub(crate) by: By,
    /// The order of the rows; by rate unless --once
    #[arg(long, value_enum)]
    pub(crate) sort: Option<Sort>,
}

/// What has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Container,
    Network,
    /// A row for each published port
    Port,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// What is carried a second, in both directions
    Rate,
    /// All bytes in both directions
    Bytes,
    /// Received bytes
    Receive,
    /// Sent bytes
    Transmit,
    /// Dropped packets
    Drops,
    /// The name
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// Only those with these containers or networks at one end
    #[arg(value_name = "CONTAINER|NETWORK")]
    pub(crate) names: Vec<String>,
    /// Report each connection that begins or ends from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Those without a container at either end too
    #[arg(short, long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The container
    #[arg(value_name = "CONTAINER")]
    pub(crate) container: String,
    /// Write the packets to this file, or - for standard output, instead of lines of text
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Only this interface of the container; otherwise those that Spoke made
    #[arg(short, long = "interface", value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<IfName>,
    /// End after so many packets
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Keep at most so many bytes of each packet
    #[arg(long, value_name = "BYTES", default_value_t = LARGEST,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST)))]
    pub(crate) snap: u32,
    /// Which packets, as 'tcp port 80 and not host 10.70.1.3'
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}
