//! The arguments of `spoke web`.

use clap::Args;

/// The help's end.
pub(crate) const HELP: &str = "`spoke serve` makes the page. This command prints a URL of this \
host's loopback address with a new token, for any browser here; without the token nobody gets in, \
and it is worth nothing when the command has ended. The page reads and changes nothing.

Examples:
  spoke web
  ssh -t -L 9180:127.0.0.1:9180 HOST sudo spoke web --port 9180      from another host";

#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// The port; a free one unless given
    #[arg(long, default_value_t = 0, value_name = "PORT", hide_default_value = true)]
    pub(crate) port: u16,
}
