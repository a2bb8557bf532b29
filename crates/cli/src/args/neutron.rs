//! The arguments of `spoke neutron`.

use clap::Subcommand;
use model::ResourceRef;

/// The commands of `spoke neutron`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum NeutronCommand {
    /// Ports that are made ahead of need
    #[command(subcommand)]
    Stock(StockCommand),
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum StockCommand {
    /// List the ports that are ready for containers, by network and kind
    #[command(
        after_help = "READY ports wait for a container, those IN USE have one, RETURNED ones \
        came back and are made like new. WANTED is how long ago a container wanted one: a dash means \
        that no more are made.\n\nExamples:
  spoke neutron stock ls
  spoke neutron stock ls -o json"
    )]
    Ls,
    /// Delete the ports that are ready, of these networks or of all
    #[command(after_help = "No more are made until the next container wants one. Ports that \
        containers have stay.\n\nExamples:
  spoke neutron stock drain
  spoke neutron stock drain private")]
    Drain {
        /// Neutron's networks, by id or name
        networks: Vec<ResourceRef>,
    },
}
