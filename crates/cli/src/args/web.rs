//! The arguments of `spoke web`.

use clap::Args;

/// The help's end.
pub(crate) const HELP: &str = "`spoke serve` makes the page. This command prints a URL of this \
host's loopback address with a new token, for any browser here; requests without the token are \
refused, and the token ends with the command. The page reads and changes nothing.

Examples:
  spoke web
  ssh -t -L 9180:127.0.0.1:9180 HOST sudo spoke web --port 9180      from another host";

#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// The port; a free one unless given
    #[arg(long, default_value_t = 0, value_name = "PORT", hide_default_value = true)]
    pub(crate) port: u16,
}
