//! `prevResult`, refused where the reference plugin reads it, and in its words.

use model::{Error, Fact, Result};

use crate::call::Call;
use crate::plugin_type::Plugin;
use crate::wire::{Command, Success};

/// What the reference's library says of a result that cannot be read.
const UNREAD: &str = "could not parse prevResult";

/// The result of the plugins before this one; none where it cannot be read and the reference does
/// not look at it either.
pub(crate) fn of(call: &Call<'_>) -> Result<Option<Success>> {
    // What is no object spoils the configuration for every plugin.
    match call.config.root().object("prevResult") {
        Err(error) if call.command != Command::Del => return Err(error),
        Ok(_) | Err(_) => {}
    }
    call.config.previous().or_else(|error| match front(call.plugin, call.command) {
        None => Ok(None),
        Some(front) => Err(in_words(error, front)),
    })
}

/// What the plugin says before the library's words; none where it does not read the result.
fn front(plugin: Plugin, command: Command) -> Option<&'static str> {
    match (plugin, command) {
        (_, Command::Del)
        | (
            Plugin::Bridge
            | Plugin::Dhcp
            | Plugin::Dummy
            | Plugin::HostDevice
            | Plugin::HostLocal
            | Plugin::Macvlan
            | Plugin::Ptp
            | Plugin::Static
            | Plugin::Tap
            | Plugin::Vlan,
            Command::Add,
        )
        | (Plugin::Dhcp | Plugin::HostLocal | Plugin::Loopback, Command::Check) => None,
        (Plugin::Portmap, Command::Add) => {
            Some("failed to parse config: could not parse prevResult: ")
        }
        (Plugin::Loopback, Command::Add) => Some("failed to parse prevResult: "),
        (Plugin::Bandwidth | Plugin::Firewall | Plugin::Vrf, Command::Add | Command::Check)
        | (Plugin::Portmap, Command::Check)
        | (Plugin::Ipvlan, Command::Add) => Some("could not parse prevResult: "),
        (_, _) => Some(""),
    }
}

/// Only what the reference has words for gets them.
fn in_words(error: Error, front: &str) -> Error {
    let error = error.context(UNREAD);
    let Some(Fact::Words(words)) = error.fact() else { return error };
    let whole = format!("{front}{words}");
    error.about(Fact::Whole(whole))
}
