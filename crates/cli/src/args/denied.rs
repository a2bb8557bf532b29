//! The arguments of `spoke denied`.

use clap::Args;
use model::NetworkName;

#[derive(Debug, Args)]
pub(crate) struct DeniedArgs {
    /// Only of this network
    pub(crate) network: Option<NetworkName>,
    /// Continue with what is refused from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only so many of the past; with --follow none unless given
    #[arg(short = 'n', long, value_name = "NUMBER")]
    pub(crate) last: Option<usize>,
}
