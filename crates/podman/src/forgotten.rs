//! Networks that Podman has removed: it tells nobody.

use engine::Engine;
use model::{Kind, NetworkName, Result, Runtime};

use crate::Declared;

/// Removes what containers of Podman's networks shared, where Podman does not know the network any
/// more and nobody is on it. `known` are those that it knows. Returns those that are gone.
pub fn forgotten(engine: &Engine<'_>, known: &[Declared]) -> Result<Vec<NetworkName>> {
    let mut gone = Vec::new();
    for network in engine.networks()? {
        let is_podman_s = network.runtime == Runtime::Podman
            && known.iter().all(|known| known.name != network.name);
        if !is_podman_s || engine.declared(&network.name)?.is_some() {
            continue;
        }
        match engine.remove_network(&network.name, false) {
            Ok(()) => gone.push(network.name),
            // Somebody is on it.
            Err(error) if matches!(error.kind(), Kind::Conflict | Kind::TryAgain) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(gone)
}
