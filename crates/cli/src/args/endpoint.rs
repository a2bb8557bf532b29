//! Endpoints: what is made on a network apart from any sandbox, and joined to one.

use clap::{Args, Subcommand};
use model::{ContainerId, LabelFilter, NetworkName, Runtime};

use super::connect::{JoinedArgs, MadeArgs, quoted};
use crate::output::Listing;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum EndpointCommand {
    /// List endpoints: those in sandboxes, and those in none
    #[command(
        visible_alias = "list",
        after_help = "Filters: label=KEY, label=KEY=VALUE, name=TEXT (a part of the name), \
            state=reserved|attached. Several filters must all hold.\n\nExamples:
  spoke endpoint ls front
  spoke endpoint ls --filter label=tier=db --format '{{.Container}} {{join .Addresses \",\"}}'"
    )]
    Ls(EndpointLsArgs),
    /// Show endpoints in full
    #[command(after_help = "Examples:\n  spoke endpoint inspect front web")]
    Inspect(NamedArgs),
    /// Make an endpoint, with its addresses and its hardware address
    #[command(
        after_help = "It keeps them through joins, leaves and reboots until `spoke endpoint rm`. Its ports lead \
        to it while it is in a sandbox.

Networks of driver cni, and those whose addresses come from a DHCP server, have no endpoints apart from \
        sandboxes: `spoke network connect` does both at once.

Examples:
  spoke endpoint create front web
  spoke endpoint create --ip 10.70.1.9 --publish 8080:80 --label tier=db front web"
    )]
    Create(Box<EndpointCreateArgs>),
    /// Put an endpoint into a network namespace
    #[command(
        after_help = "Repeating it is no error. What the sandbox is called is what `spoke network disconnect` \
        takes; endpoints of several names may be in one sandbox.

Examples:
  ip netns add box
  spoke endpoint join front web box
  spoke endpoint join --gw-priority 10 --ifname wan0 uplink web 4711"
    )]
    Join(EndpointJoinArgs),
    /// Take an endpoint out of its sandbox; it keeps its addresses and its hardware address
    #[command(after_help = "What `spoke network connect` connected can leave, too, and join again.

Examples:
  spoke endpoint leave front web")]
    Leave(NamedArgs),
    /// Remove an endpoint, and release its addresses
    #[command(visible_alias = "remove", after_help = "Examples:\n  spoke endpoint rm front web")]
    Rm(EndpointRmArgs),
}

// Which endpoint.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The network
    #[arg(value_name = "NETWORK")]
    pub(crate) network: NetworkName,
    /// The endpoint's name
    #[arg(value_name = "ENDPOINT")]
    pub(crate) name: ContainerId,
}

#[derive(Debug, Args)]
pub(crate) struct EndpointCreateArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,
    #[command(flatten)]
    pub(crate) made: MadeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EndpointJoinArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,
    /// The network namespace: a path, a name below /run/netns, or a process's id
    #[arg(value_name = "SANDBOX")]
    pub(crate) sandbox: String,
    #[command(flatten)]
    pub(crate) joined: JoinedArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EndpointRmArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,
    /// Take it out of its sandbox first; succeed also if it does not exist
    #[arg(short, long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EndpointLsArgs {
    /// Only this network
    pub(crate) network: Option<NetworkName>,
    #[command(flatten)]
    pub(crate) listing: Listing,
    /// List only endpoints of which this holds
    #[arg(short, long = "filter", value_name = "KEY=VALUE", value_parser = RowFilter::parse)]
    pub(crate) filters: Vec<RowFilter>,
}

/// Every runtime.
const RUNTIMES: [Runtime; 6] = [
    Runtime::Cni,
    Runtime::Docker,
    Runtime::Kurma,
    Runtime::Podman,
    Runtime::Reference,
    Runtime::Spoke,
];

/// How far an attachment is, as lists say it.
const STATES: [&str; 4] = ["reserved", "attaching", "attached", "detaching"];

/// One condition on an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowFilter {
    Label(LabelFilter),
    Name(String),
    Runtime(Runtime),
    State(&'static str),
}

impl RowFilter {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("label", label)) => quoted(label).map(Self::Label),
            Some(("name", value)) => Ok(Self::Name(value.to_owned())),
            Some(("runtime", value)) => runtime(value).map(Self::Runtime),
            Some(("state", value)) => state(value).map(Self::State),
            Some(_) | None => Err("filters are label=, name=, runtime= and state=".to_owned()),
        }
    }
}

/// A runtime, as lists name it.
pub(crate) fn runtime(text: &str) -> Result<Runtime, String> {
    let of_name = RUNTIMES.into_iter().find(|it| it.to_string() == text);
    of_name.ok_or_else(|| no_value("runtime", text, &RUNTIMES.map(|it| it.to_string())))
}

fn state(text: &str) -> Result<&'static str, String> {
    let found = STATES.into_iter().find(|it| *it == text);
    found.ok_or_else(|| no_value("state", text, &STATES.map(str::to_owned)))
}

/// What a value of a filter can be, where it is something else.
pub(crate) fn no_value(key: &str, text: &str, all: &[String]) -> String {
    let meant = model::text::meant(text, all.iter().map(String::as_str));
    let text = model::text::shown(text);
    format!("there is no {key} '{text}'; {meant}it is one of {}", all.join(", "))
}
