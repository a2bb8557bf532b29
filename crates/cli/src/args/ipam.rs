//! Arguments of commands that read and change the address book.

use std::net::IpAddr;

use clap::Subcommand;
use model::{NetworkName, OwnerName};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum IpamCommand {
    /// Show pools and who holds which address
    #[command(after_help = "Examples:
  spoke ipam show                     every pool
  spoke ipam show front               one network
  spoke ipam show 10.70.1.0/24        one subnet
  spoke ipam show 10.70.1.5           one address")]
    Show {
        /// A network, a subnet, or an address
        what: Option<String>,
        /// Do not shorten anything
        #[arg(long)]
        no_trunc: bool,
    },
    /// Print free addresses
    #[command(after_help = "Examples:\n  spoke ipam free front -n 3")]
    Free {
        /// The network
        network: NetworkName,
        /// How many of each of its pools
        #[arg(short = 'n', long, default_value_t = 5, value_name = "NUMBER")]
        count: usize,
    },
    /// Find addresses, links and rules without an owner, and networks that overlap
    #[command(after_help = "Exits with 1 when something was found and not mended. Never frees \
        what may be alive: what is in doubt is quarantined.\n\nExamples:
  spoke ipam check
  spoke ipam check --fix")]
    Check {
        /// Free what provably has no owner
        #[arg(long)]
        fix: bool,
    },
    /// Reserve an address, for one owner or for none
    #[command(after_help = "Examples:
  spoke ipam reserve 10.70.1.9
  spoke ipam reserve 10.70.1.9 --for db --network front")]
    Reserve {
        /// The address
        address: IpAddr,
        /// The owner that gets it when it asks for any address: the container's lasting name
        #[arg(long = "for", value_name = "OWNER", requires = "network")]
        owner: Option<OwnerName>,
        /// The network in which the owner gets it
        #[arg(long)]
        network: Option<NetworkName>,
    },
    /// End an address's reservation, or take it away from its holder
    #[command(after_help = "Examples:
  spoke ipam release 10.70.1.9
  spoke ipam release 10.70.1.9 --force
  spoke ipam release 10.0.0.5 --network blue")]
    Release {
        /// The address
        address: IpAddr,
        /// In the address space of this network; needed where several have the address
        #[arg(long)]
        network: Option<NetworkName>,
        /// Detach the container that holds it
        #[arg(long)]
        force: bool,
    },
}
