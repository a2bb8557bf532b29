//! Networks that Podman has removed. Podman does not report the removal.

use std::collections::BTreeSet;

use engine::{Engine, Mode};
use model::{Error, Kind, NetworkName, Result, Runtime};

use crate::Declared;

/// Finds the networks without attachments that Podman no longer has and, in [`Mode::Mend`], removes
/// what their containers shared, and the addresses that were kept for these. `known` are Podman's
/// networks. Returns those that are gone, or would be, and why others could not be removed.
///
/// # Errors
/// Where the book cannot be read.
pub fn forgotten(
    engine: &Engine<'_>,
    known: &[Declared],
    mode: Mode,
) -> Result<(Vec<NetworkName>, Vec<Error>)> {
    let attachments = engine.records.attachments()?;
    let in_use: BTreeSet<&NetworkName> = attachments.iter().map(|it| &it.id.network).collect();
    let known: BTreeSet<&NetworkName> = known.iter().map(|known| &known.name).collect();
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    for network in engine.records.networks()? {
        let name = &network.name;
        let is_known = known.contains(name) || in_use.contains(name);
        if network.runtime != Runtime::Podman || is_known {
            continue;
        }
        if engine.records.declared(name)?.is_some() {
            continue;
        }
        let removed = match mode {
            Mode::DryRun => Ok(()),
            Mode::Mend => remove(engine, name),
        };
        match removed {
            Ok(()) => gone.push(network.name),
            Err(error) if is_in_use(&error) => {}
            Err(error) => failures.push(error.context(format!("removing network {name}"))),
        }
    }
    Ok((gone, failures))
}

fn remove(engine: &Engine<'_>, name: &NetworkName) -> Result<()> {
    engine.networks.remove(name, false)?;
    for kept in engine.records.reservations()? {
        if kept.learned && kept.network.as_ref() == Some(name) {
            engine.addresses.unreserve_address(&kept.space, kept.address)?;
        }
    }
    Ok(())
}

/// A container was attached meanwhile.
fn is_in_use(error: &Error) -> bool {
    matches!(error.kind(), Kind::Conflict | Kind::TryAgain)
}
