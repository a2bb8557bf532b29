//! What parts of an attachment are called that plugins of ours make for a chain.

use model::{NetworkName, PluginChain};

use crate::runtime::NetworkList;

/// What a chain's list is called: the network's name in the records of those of its plugins that are ours.
pub fn list(chain: &PluginChain) -> Option<NetworkName> {
    NetworkList::parse(chain.config.as_bytes()).ok().map(|list| list.name)
}

/// What it is called there instead where the network that the chain makes has that name itself.
pub fn inner(list: &str) -> model::Result<NetworkName> {
    format!("{list}.plugins").parse()
}
