//! Names of the parts of an attachment that Spoke's own plugins make for a chain.

use model::{NetworkName, PluginChain};

use crate::runtime::NetworkList;
use crate::wire::{Command, Configuration, Failure};

/// The name of a chain's list: the network's name in the records of those of its plugins that are
/// Spoke's.
pub fn list(chain: &PluginChain) -> Option<NetworkName> {
    NetworkList::parse(chain.config.as_bytes()).ok().map(|list| list.name)
}

/// The name that it has there instead where the network that the chain makes has that name itself.
pub fn inner(list: &str) -> model::Result<NetworkName> {
    format!("{list}.plugins").parse()
}

/// The configuration of a plugin that makes a part of what is attached to the network `chain` of Spoke. That
/// has a record under this name already, and the part gets one of its own.
pub(crate) fn inside(config: Configuration, chain: &str) -> Result<Configuration, Failure> {
    match config.name().as_str() == chain {
        true => {
            let inner = inner(chain).map_err(|error| Failure::of(&error, Command::Add))?;
            Ok(config.with_name(inner))
        }
        false => Ok(config),
    }
}
