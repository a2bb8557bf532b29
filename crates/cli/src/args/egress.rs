//! The arguments of `spoke egress`.

use std::time::Duration;

use clap::{Args, Subcommand};
use model::{EgressRule, NetworkName};

/// What `spoke egress` is asked.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum EgressCommand {
    /// Show what a network allows, and what is open now because of a name
    #[command(after_help = "Examples:
  spoke egress show agents
  spoke egress show agents -o json")]
    Show(NetworkArg),
    /// Say whether a network allows a name or address, and by which rule
    #[command(
        after_help = "No server is asked for the name. Exits with 1 where something is refused.

Examples:
  spoke egress test agents github.com:443
  spoke egress test agents api.github.com:443 10.9.0.7:5432 example.org:53/udp"
    )]
    Test(TestArgs),
    /// Allow these and nothing else from now on
    #[command(
        after_help = "What stays allowed goes on; flows that are allowed no more end at once. What is set of a
container is kept under its name, and holds again when it comes back.

Examples:
  spoke egress set agents github.com:443,*.example.org:443,10.9.0.7:5432
  spoke egress set agents none
  spoke egress set --container agent-3 github.com:443
  spoke egress set --container agent-3 --inherit"
    )]
    Set(SetArgs),
    /// Refuse nothing for a while, and record what would have been refused
    #[command(
        after_help = "It ends by itself, also while the daemon is away. `spoke egress suggest` has the \
        rules then. Only packets in the name of an address that is not the network's are still dropped.
A container that has rules of its own learns apart from its network, until it ends.

Examples:
  spoke egress learn agents --for 1h
  spoke egress learn agents --stop
  spoke egress learn --container agent-3 --for 1h"
    )]
    Learn(LearnArgs),
    /// Print the rules that would allow what was learned or refused
    #[command(
        after_help = "Read them before they are set: what was refused may have been refused rightly.

Examples:
  spoke egress suggest agents
  spoke egress suggest --container agent-3
  spoke egress set agents \"$(spoke egress suggest agents --all | paste -sd,)\""
    )]
    Suggest(SuggestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NetworkArg {
    /// The network
    pub(crate) network: NetworkName,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The network
    pub(crate) network: NetworkName,
    /// Names or addresses, each with a port
    #[arg(required = true, value_name = "TARGET:PORT")]
    pub(crate) targets: Vec<EgressRule>,
    /// For this container, which may have rules of its own
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    /// The network; optional with --container
    #[arg(required_unless_present = "container")]
    pub(crate) network: Option<NetworkName>,
    /// This container alone, which has rules of its own
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Option<String>,
    /// For so long, such as 90s, 30m or 2h; at most 7 days
    #[arg(long = "for", value_name = "TIME", value_parser = period, required_unless_present = "stop")]
    pub(crate) period: Option<Duration>,
    /// Refuse again, from now on
    #[arg(long, conflicts_with = "period")]
    pub(crate) stop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SuggestArgs {
    /// The network; optional if the container has rules of its own on one network only
    #[arg(required_unless_present = "container")]
    pub(crate) network: Option<NetworkName>,
    /// For this container's own rules, of what these refused or learned
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Option<String>,
    /// Also what is allowed already
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The network; optional with --container
    #[arg(value_name = "NETWORK")]
    pub(crate) first: Option<String>,
    /// Names, *. names, addresses and subnets with ports, between commas; or none
    #[arg(value_name = "RULES")]
    pub(crate) second: Option<String>,
    /// Of this container alone, instead of what the network says
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Option<String>,
    /// What the network says holds for the container again
    #[arg(long, requires = "container")]
    pub(crate) inherit: bool,
    /// While another program has flushed the packet filter, let nothing leave the whole network; holds until
    /// --inherit
    #[arg(long, requires = "container", conflicts_with = "inherit")]
    pub(crate) strict: bool,
}

/// A time with its unit.
fn period(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86400)];
    let read = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match read {
        Some(seconds) if (1..=7 * 86400).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err("it is a number with s, m, h or d, at most 7d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_units() {
        assert_eq!(period("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(period("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "1", "0s", "8d", "1w", "s", "-1s", "99999999999999999999h"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
