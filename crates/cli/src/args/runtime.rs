//! Arguments of `spoke docker`, `spoke dhcp` and `spoke cni`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DockerCommand {
    /// Let systemd hold Docker's socket and run `spoke serve`
    #[command(
        after_help = "Writes spoke.socket and spoke.service, and enables them where systemd \
        runs. Afterwards:

  docker network create -d spoke --ipam-driver spoke --subnet 10.70.1.0/24 front
  docker run --network front ..."
    )]
    Install(InstallArgs),
    /// Remove what `spoke docker install` wrote; networks stay
    Uninstall {
        #[command(flatten)]
        units: Units,
    },
    /// Show whether Docker can reach Spoke
    #[command(after_help = "Exits with 1 when it cannot.")]
    Status {
        #[command(flatten)]
        units: Units,
    },
    /// Write a managed plugin: the only form that Docker's swarm mode takes
    #[command(after_help = "Examples:
  mkdir -p /var/lib/spoke
  spoke docker plugin /tmp/spoke-plugin
  docker plugin create spoke /tmp/spoke-plugin
  docker plugin enable spoke
  docker network create -d spoke:latest --ipam-driver spoke:latest front")]
    Plugin {
        /// Where to; made if it is not there, and must be empty
        directory: PathBuf,
    },
    /// Write an image that runs the daemon, for hosts where only containers are installed
    #[command(after_help = "The container needs the host's network and processes, and the places \
        that the daemon and the engine share; docs/install.md explains each.\n\nExamples:
  spoke docker image spoke.tar
  docker load -i spoke.tar
  docker run -d --name spoke --restart always --privileged --network host --pid host \\
    -v /run/docker:/run/docker:rslave -v /var/run/docker.sock:/var/run/docker.sock \\
    -v /run/spoke:/run/spoke -v /var/lib/spoke:/var/lib/spoke spoke.example/spoke:0.1.0")]
    Image(ImageArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) units: Units,
    /// Only write the files
    #[arg(long)]
    pub(crate) no_enable: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// An archive, for `docker load`, `podman load` and `skopeo`
    #[arg(required_unless_present = "layout", conflicts_with = "layout")]
    pub(crate) archive: Option<PathBuf>,
    /// As an OCI image layout instead
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) layout: Option<PathBuf>,
    /// The image's name
    #[arg(long, default_value = "spoke.example/spoke", value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DhcpCommand {
    /// Let systemd hold the socket and run `spoke dhcp daemon`; not where `spoke serve` runs
    Install {
        #[command(flatten)]
        units: Units,
        /// Only write the files
        #[arg(long)]
        no_enable: bool,
    },
    /// Remove what `spoke dhcp install` wrote; leases stay
    Uninstall {
        #[command(flatten)]
        units: Units,
    },
    /// Show whether a daemon answers
    #[command(after_help = "Exits with 1 when none does.")]
    Status {
        #[command(flatten)]
        units: Units,
    },
}

// The service manager's directory.
#[derive(Debug, Args)]
pub(crate) struct Units {
    /// Where systemd finds units
    #[arg(long, default_value = "/etc/systemd/system", value_name = "DIRECTORY")]
    pub(crate) unit_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Plugins {
    /// Where the runtime finds plugins
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIRECTORY")]
    pub(crate) bin_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CniCommand {
    /// Put the plugins there as links to a copy of this program
    #[command(after_help = "Third-party plugins are not touched without --takeover. What \
        is taken over is kept, and `spoke cni uninstall` puts it back.\n\nExamples:
  spoke cni install
  spoke cni install --bin-dir /usr/lib/cni --takeover")]
    Install {
        #[command(flatten)]
        plugins: Plugins,
        /// Replace third-party plugins
        #[arg(long)]
        takeover: bool,
    },
    /// Remove the plugins and put back what they replaced
    Uninstall {
        #[command(flatten)]
        plugins: Plugins,
    },
    /// Show whose the plugins are, or whether a network is ready for containers
    #[command(after_help = "Examples:
  spoke cni status                    whose the plugins are
  spoke cni status mynet              ask the network's plugins (CNI 1.1.0, STATUS)")]
    Status {
        /// The network's name
        network: Option<String>,
        /// Ignored; cnitool wants it
        #[arg(hide = true)]
        netns: Option<PathBuf>,
        #[command(flatten)]
        plugins: Plugins,
        #[command(flatten)]
        place: super::cni::Directories,
    },
    #[command(flatten)]
    Runtime(super::cni::RuntimeCommand),
}
