//! The arguments of `spoke kurma`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use image::{AppName, Locator};
use kurma::plugin::Key;
use kurma::{Name, PodId};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum KurmaCommand {
    /// Connect a new network namespace to networks, for whatever pod it becomes
    #[command(after_help = "Prints the namespace's path, which any runtime takes. Without \
        networks it is connected to those that are default, in the order of the configuration. \
        Where one fails, what was done is undone, unless that network has \"on_error\": \
        \"skip\". The network \"host\" is the host's own, without any plugin, unless one is \
        configured under that name.\n\nExamples:
  spoke kurma provision $(uuidgen)
  netns=$(spoke kurma provision 146d7cef-fbf6-41da-a2f8-eba218597f9c mynet | head -n 1)
  podman run --network ns:$netns ...")]
    Provision {
        /// The pod's UUID
        uuid: PodId,
        /// Its networks, in this order
        #[arg(value_name = "NETWORK")]
        networks: Vec<Name>,
    },
    /// Disconnect a pod from its networks, the last first, and remove its namespace
    #[command(
        after_help = "What a plugin does not undo stays recorded: `spoke serve` and `spoke kurma gc` \
        ask the plugin again. Where it never does, --force asks it once more, gives up the rest, lists that, and \
        releases what the pod still has in the book."
    )]
    Deprovision {
        /// The pod's UUID
        uuid: PodId,
        /// Give up what plugins do not undo
        #[arg(long)]
        force: bool,
    },
    /// Show the networks and the plugins that they run in
    #[command(visible_alias = "ls")]
    Status,
    /// Show the pods, their networks' answers, and pending calls
    Pods,
    /// Start plugins; without names, those of all networks
    Up {
        /// The networks
        #[arg(value_name = "NETWORK")]
        networks: Vec<Name>,
    },
    /// End plugins; without names, all of them. Pods stay connected
    Down {
        /// Networks, or other containers that `spoke kurma status` shows
        #[arg(value_name = "NAME")]
        names: Vec<Key>,
    },
    /// End plugins and start them again, from the current images. Pods stay connected
    #[command(
        after_help = "An image that was fetched since a plugin was started reaches it this way: \
        `spoke kurma status` and `spoke doctor` show where that is so. The old container has ended before \
        the new one is started; calls wait. A container of `spoke-image` is started by its next call."
    )]
    Restart {
        /// Networks, or other containers that `spoke kurma status` shows
        #[arg(value_name = "NAME", required = true)]
        names: Vec<Key>,
    },
    /// Print the resolv.conf of a pod
    Resolv {
        /// The pod's UUID
        uuid: PodId,
    },
    /// Say everything that is wrong with a file of networks
    #[command(after_help = "Exits with 2 when something is. Fetches no image.")]
    Validate {
        /// The file; the configured one unless given
        file: Option<PathBuf>,
    },
    /// Fetch an image
    #[command(after_help = "Examples:
  spoke kurma pull file:///srv/plugin.aci
  spoke kurma pull https://example.com/plugin.aci@sha512:...
  spoke kurma pull docker://registry.example.com/team/plugin:1
  spoke kurma pull example.com/plugin:1.2,arch=arm64
  spoke kurma pull oci:/srv/layout:latest
  spoke kurma pull --as example.com/base file:///srv/base.aci")]
    Pull {
        /// Where it is
        locator: Locator,
        /// Take it for the image of this name from now on, where no server says where that is
        #[arg(long = "as", value_name = "NAME")]
        name: Option<AppName>,
    },
    /// List the images that are here
    Images,
    /// Retry pending calls, and remove images that no network names
    Gc,
    /// Make an image of this program: a plugin for every network
    #[command(
        after_help = "Its networks are made by the CNI plugins that this program is, and by \
        those that --with adds.\n\nExamples:
  spoke kurma build-image --aci spoke.aci
  spoke kurma build-image --layout spoke --with /opt/cni/bin/weave-net"
    )]
    BuildImage(BuildArgs),
    /// Make this program the plugin executables of this host, in /opt/network
    Install {
        /// Where to
        #[arg(long, default_value = "/opt/network")]
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("form").required(true).args(["aci", "layout", "archive"]))]
pub(crate) struct BuildArgs {
    /// As an App Container image
    #[arg(long, value_name = "FILE")]
    pub(crate) aci: Option<PathBuf>,
    /// As an OCI image layout
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) layout: Option<PathBuf>,
    /// As an OCI archive
    #[arg(long, value_name = "FILE")]
    pub(crate) archive: Option<PathBuf>,
    /// The image's name
    #[arg(long, default_value = "spoke.example/kurma-plugin", value_name = "NAME")]
    pub(crate) name: String,
    /// A CNI plugin to put into it, statically linked, at /opt/cni/bin; may be repeated
    #[arg(long = "with", value_name = "FILE")]
    pub(crate) with: Vec<PathBuf>,
}
