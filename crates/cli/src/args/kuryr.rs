//! The arguments of `spoke kuryr`.

use std::path::PathBuf;

use clap::Subcommand;

use super::runtime::{InstallArgs, Units};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum KuryrCommand {
    /// Let systemd hold the plugin's socket and run `spoke serve`
    #[command(after_help = "Needs [kuryr] enabled = true in /etc/spoke/config.toml, and in \
        [neutron] where the cloud is. Writes spoke-kuryr.socket, and what `spoke docker install` \
        writes where that is missing. Another kuryr must have been stopped. \
        Afterwards:

  docker network create -d kuryr --ipam-driver kuryr --subnet 10.70.1.0/24 front
  docker run --network front ...")]
    Install(InstallArgs),
    /// Remove what `spoke kuryr install` wrote; networks stay
    Uninstall {
        #[command(flatten)]
        units: Units,
    },
    /// Show whether Docker can reach the plugin
    #[command(
        after_help = "Exits with 1 when it cannot. Of the cloud it says only how many ports are ready for \
        containers, without a request to it."
    )]
    Status {
        #[command(flatten)]
        units: Units,
    },
    /// Print what kuryr.conf comes to in /etc/spoke/config.toml
    #[command(
        after_help = "Who we are in the cloud is read from FILE itself, which must stay. What \
        is not read is listed on standard error.\n\nExamples:
  spoke kuryr import-config >> /etc/spoke/config.toml"
    )]
    ImportConfig {
        /// kuryr-libnetwork's configuration
        #[arg(default_value = "/etc/kuryr/kuryr.conf")]
        file: PathBuf,
    },
}
