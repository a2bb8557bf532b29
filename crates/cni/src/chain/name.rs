//! Names of the parts of an attachment that Spoke's own plugins make for a chain.

use model::{NetworkName, PluginChain};

use crate::runtime::NetworkList;

/// The name of a chain's list: the network's name in the records of those of its plugins that are
/// Spoke's.
pub fn list(chain: &PluginChain) -> Option<NetworkName> {
    NetworkList::parse(chain.config.as_bytes()).ok().map(|list| list.name)
}

/// The name that it has there instead where the network that the chain makes has that name itself.
pub fn inner(list: &str) -> model::Result<NetworkName> {
    format!("{list}.plugins").parse()
}
