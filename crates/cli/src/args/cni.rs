//! The arguments of `spoke cni`, except those of the plugins' installation.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::{ContainerId, IfName};

/// The commands of a CNI runtime.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RuntimeCommand {
    /// Attach a network namespace to a CNI network, and print the result
    #[command(after_help = "Does what cnitool does, with its environment variables, and forgets \
        nothing when it fails: every plugin's DEL is called. Called by the name cnitool, this \
        program is cnitool.

Examples:
  ip netns add blue
  spoke cni add mynet /run/netns/blue
  CAP_ARGS='{\"portMappings\":[{\"hostPort\":8080,\"containerPort\":80}]}' \\
      spoke cni add mynet /run/netns/blue")]
    Add(OneArgs),
    /// Detach a network namespace from a CNI network
    #[command(after_help = "The namespace may be gone. The plugins get what they \
        got when it was attached, by whichever runtime: that is in the cache.

Examples:
  spoke cni del mynet /run/netns/blue
  spoke cni del mynet --container 3f1c0d")]
    Del(OneArgs),
    /// Compare an attachment with what its plugins made
    #[command(after_help = "Examples:\n  spoke cni check mynet /run/netns/blue")]
    Check(OneArgs),
    /// Detach what is not in use any more, and send the plugins what is
    #[command(after_help = "In use is what has a network namespace, in this cache or in Spoke's \
        records, or is named by --keep. No other runtime may attach or detach meanwhile.

Examples:
  spoke cni gc mynet
  spoke cni gc mynet --all            also what has a network namespace
  spoke cni gc mynet --keep 3f1c0d/eth0")]
    Gc(GcArgs),
    /// List the networks that are configured
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// List what is attached, by every runtime with this cache
    #[command(after_help = "Podman, containerd and cnitool have the same cache.

Examples:
  spoke cni attachments
  spoke cni attachments --container 3f1c0d -o json")]
    Attachments(AttachmentsArgs),
}

// Where configurations, plugins and results are.
#[derive(Debug, Args)]
pub(crate) struct Directories {
    /// Where the configurations are
    #[arg(long, env = "NETCONFPATH", default_value = cni::runtime::CONFIGURATIONS, value_name = "DIRECTORY")]
    pub(crate) conf_dir: PathBuf,
    /// Where the plugins are, in order, between colons
    #[arg(
        long,
        env = "CNI_PATH",
        value_delimiter = ':',
        default_value = "/opt/cni/bin:/usr/lib/cni",
        value_name = "DIRECTORIES"
    )]
    pub(crate) path: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: CacheArgs,
}

// Where results are.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Where what is attached is remembered
    #[arg(long, default_value = cni::runtime::CACHE, value_name = "DIRECTORY")]
    pub(crate) cache_dir: PathBuf,
}

// One attachment.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The network's name
    #[arg(value_name = "NETWORK")]
    pub(crate) network: String,
    /// The path of the network namespace
    #[arg(value_name = "NETNS", required_unless_present = "container")]
    pub(crate) netns: Option<PathBuf>,
    /// The interface in the namespace
    #[arg(short, long, env = "CNI_IFNAME", default_value = "eth0", value_name = "NAME")]
    pub(crate) ifname: IfName,
    /// The container's id; derived from the namespace's path unless given, as cnitool does
    #[arg(long, value_name = "ID")]
    pub(crate) container: Option<ContainerId>,
    /// Arguments of the plugins: KEY=VALUE pairs between semicolons
    #[arg(long, env = "CNI_ARGS", default_value = "", value_name = "PAIRS")]
    pub(crate) args: String,
    /// The arguments of capabilities: a JSON object
    #[arg(long, env = "CAP_ARGS", default_value = "", value_name = "JSON")]
    pub(crate) capabilities: String,
    #[command(flatten)]
    pub(crate) place: Directories,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// The network's name
    #[arg(value_name = "NETWORK")]
    pub(crate) network: String,
    /// Ignored; cnitool wants it
    #[arg(value_name = "NETNS", hide = true)]
    pub(crate) netns: Option<PathBuf>,
    /// Keep this attachment
    #[arg(long, value_name = "CONTAINER/IFNAME", value_parser = member)]
    pub(crate) keep: Vec<(ContainerId, IfName)>,
    /// Keep only what --keep names
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) place: Directories,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Where the configurations are
    #[arg(long, env = "NETCONFPATH", default_value = cni::runtime::CONFIGURATIONS, value_name = "DIRECTORY")]
    pub(crate) conf_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AttachmentsArgs {
    /// Only this container's
    #[arg(long, value_name = "ID")]
    pub(crate) container: Option<ContainerId>,
    #[command(flatten)]
    pub(crate) kept: CacheArgs,
}

fn member(text: &str) -> Result<(ContainerId, IfName), String> {
    let (container, ifname) = text.split_once('/').ok_or("it is CONTAINER/IFNAME")?;
    let container = container.parse().map_err(|why: model::Error| why.to_string())?;
    let ifname = ifname.parse().map_err(|why: model::Error| why.to_string())?;
    Ok((container, ifname))
}
