//! The arguments of `spoke firewall`.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use linux::follow::Followed;
use model::Result;

/// What `spoke firewall` is asked.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum FirewallCommand {
    /// Show what is open, from where, and whether ufw or firewalld says otherwise
    #[command(after_help = "REACH says who reaches a port as its network was made: any, lan (the \
        subnets that the host is connected to), or local (this host). The columns of ufw and \
        firewalld say from where they would let a program of this host be reached at that port; \
        OBEYS which of them holds for the container's.

Examples:
  spoke firewall status
  spoke firewall status -o json")]
    Status,
    /// Make published ports obey ufw or firewalld, as if programs of this host listened at them
    #[command(after_help = "It holds from now on, for the ports of every runtime, for those that \
        are published later, and after a reboot. Changes of the firewall hold within a second, as \
        long as `spoke serve` runs. Where the firewall's rules cannot be read, published ports are \
        shut. Connections that exist go on.

Examples:
  spoke firewall follow ufw
  spoke firewall follow none")]
    Follow(FollowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// ufw, firewalld, or none
    #[arg(value_parser = PossibleValuesParser::new(["ufw", "firewalld", "none"]).try_map(|text| followed(&text)))]
    pub(crate) firewall: Choice,
}

/// `None`: nothing is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice(pub(crate) Option<Followed>);

fn followed(text: &str) -> Result<Choice> {
    match text {
        "none" => Ok(Choice(None)),
        text => text.parse().map(|followed| Choice(Some(followed))),
    }
}
