//! What networks are called, where a command renamed them while containers were on them.

use std::collections::BTreeMap;

use engine::Engine;
use model::{Kind, Network, NetworkName, Result};

/// By their names in the book. Lists are made with those, and say these.
#[derive(Debug, Default)]
pub(super) struct Titles(BTreeMap<String, String>);

impl Titles {
    /// Of these networks.
    pub(super) fn of(networks: &[Network]) -> Self {
        let titled = networks.iter().filter_map(|network| {
            Some((network.name.to_string(), network.title.as_ref()?.to_string()))
        });
        Self(titled.collect())
    }

    /// Puts what a network is called in the place of its name.
    pub(super) fn put(&self, name: &mut String) {
        if let Some(title) = self.0.get(name.as_str()) {
            name.clone_from(title);
        }
    }

    /// What a network is called.
    pub(super) fn called(&self, name: &NetworkName) -> String {
        let mut called = name.to_string();
        self.put(&mut called);
        called
    }
}

/// Keeps the rows of the network that is called so, where one is wanted; they say what networks are called then.
pub(super) fn entitle<R>(
    engine: &Engine<'_>,
    wanted: Option<&NetworkName>,
    rows: &mut Vec<R>,
    network_of: fn(&mut R) -> &mut String,
) -> Result<()> {
    let network = wanted.map(|called| engine.records.meant(called)).transpose()?;
    rows.retain_mut(|row| network.as_ref().is_none_or(|it| *network_of(row) == it.as_str()));
    let titles = Titles::of(&engine.records.networks()?);
    rows.iter_mut().for_each(|row| titles.put(network_of(row)));
    Ok(())
}

/// The name in the book of the network that is meant, also of one that is gone; the given one where the book cannot be
/// read: what is on such a network is found all the same.
///
/// # Errors
/// `Conflict` where several are meant.
pub(super) fn meant(engine: &Engine<'_>, called: &NetworkName) -> Result<NetworkName> {
    match engine.records.meant(called) {
        Err(error) if error.kind() == Kind::Conflict => Err(error),
        meant => Ok(meant.unwrap_or_else(|_| called.clone())),
    }
}
