//! The arguments of `spoke dns`.

use clap::{Args, Subcommand};
use model::NetworkName;

use crate::output::Listing;

/// What `spoke dns` is asked.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DnsCommand {
    /// List the names that containers are found by, of every runtime
    #[command(
        after_help = "Networks made with names (--names, -o names=true) have them. A container is found \
        by NAME and each of ALIASES, alone or before .NETWORK.spoke, by containers that are on that \
        network.\n\nExamples:
  spoke dns ls front
  spoke dns ls --format '{{.Name}} {{join .Addresses \",\"}}'"
    )]
    Ls(DnsLsArgs),
    /// Say what is answered for a name, or an address
    #[command(
        after_help = "Exits with 3 where there is no such name on the networks of this host. Other servers are \
        not asked.\n\nExamples:
  spoke dns query web
  spoke dns query web.front.spoke
  spoke dns query --as api web        what container api would be answered
  spoke dns query 10.70.1.2           who that is"
    )]
    Query(DnsQueryArgs),
    /// Say what this host itself resolves these names with
    #[command(
        after_help = "With `host = true` in section [names] of /etc/spoke/config.toml this host resolves \
        NAME.NETWORK.spoke, too. Where systemd-resolved runs, the daemon configures it; elsewhere this \
        prints the lines to add.\n\nExamples:
  spoke dns host"
    )]
    Host,
}

#[derive(Debug, Args)]
pub(crate) struct DnsLsArgs {
    /// Only this network
    pub(crate) network: Option<NetworkName>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct DnsQueryArgs {
    /// The name or address
    pub(crate) name: String,
    /// As this container is answered, which is on some networks only
    #[arg(long = "as", value_name = "CONTAINER")]
    pub(crate) asker: Option<String>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}
