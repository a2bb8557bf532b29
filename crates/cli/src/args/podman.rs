//! The arguments of `spoke podman`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PodmanCommand {
    /// Put Spoke where netavark looks for plugins
    #[command(after_help = "Makes DIRECTORY/spoke a link to this program. Where Podman does not \
        look in DIRECTORY by itself, a file in /etc/containers/containers.conf.d says that it \
        should. Afterwards:

  podman network create -d spoke front
  podman run --network front ...")]
    Install {
        #[command(flatten)]
        plugins: PluginDirectory,
    },
    /// Remove what `spoke podman install` made; networks stay
    Uninstall {
        #[command(flatten)]
        plugins: PluginDirectory,
    },
    /// Show whether Podman finds Spoke
    #[command(after_help = "Exits with 1 when it does not.")]
    Status {
        #[command(flatten)]
        plugins: PluginDirectory,
    },
}

// The directory of netavark's plugins.
#[derive(Debug, Args)]
pub(crate) struct PluginDirectory {
    /// The directory of netavark's plugins
    #[arg(long, default_value = "/usr/local/lib/netavark", value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
}
