//! What networks are called: by a command that renamed them while containers were on them, and by the runtime of those.

use std::collections::BTreeMap;

use engine::Engine;
use model::{Alias, Kind, Network, NetworkName, Result};

/// By their names in the book. Lists are made with those, and say these.
#[derive(Debug, Default)]
pub(super) struct Titles {
    ours: BTreeMap<String, String>,
    /// Those of runtimes, by the name in the book and the runtime.
    theirs: BTreeMap<(String, String), String>,
}

/// What a row says of its network.
pub(super) struct Named<'a> {
    /// The network's name.
    pub(super) network: &'a mut String,
    /// What its runtime calls it, where that differs.
    pub(super) title: &'a mut Option<String>,
    /// The runtime of the row's container.
    pub(super) runtime: &'a str,
}

impl Titles {
    /// Of these networks.
    pub(super) fn of(networks: &[Network]) -> Self {
        let titled = networks.iter().filter_map(|network| {
            Some((network.name.to_string(), network.title.as_ref()?.to_string()))
        });
        Self { ours: titled.collect(), theirs: BTreeMap::new() }
    }

    /// Also those of runtimes.
    pub(super) fn with(mut self, aliases: &[Alias]) -> Self {
        for alias in aliases {
            if let Some(title) = &alias.title {
                let whose = (alias.network.to_string(), alias.runtime.to_string());
                self.theirs.entry(whose).or_insert_with(|| title.to_string());
            }
        }
        self
    }

    /// Puts all that in a row. A network that a command renamed has that name alone: its runtime goes on to call it by the
    /// old one.
    pub(super) fn complete(&self, row: Named<'_>) {
        *row.title = match self.ours.contains_key(row.network.as_str()) {
            true => None,
            false => self.theirs.get(&(row.network.clone(), row.runtime.to_owned())).cloned(),
        };
        self.put(row.network);
    }

    /// Puts what a network is called in the place of its name.
    pub(super) fn put(&self, name: &mut String) {
        if let Some(title) = self.ours.get(name.as_str()) {
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

/// What people call the network of a row, by what the row says of it.
pub(super) fn shown<'a>(title: &'a Option<String>, network: &'a String) -> &'a String {
    title.as_ref().unwrap_or(network)
}

/// Keeps the rows of the network that is called so, where one is wanted; they say what networks are called then.
pub(super) fn entitle<R>(
    engine: &Engine<'_>,
    wanted: Option<&NetworkName>,
    rows: &mut Vec<R>,
    named: fn(&mut R) -> Named<'_>,
) -> Result<()> {
    let network = wanted.map(|called| engine.records.meant(called)).transpose()?;
    rows.retain_mut(|row| network.as_ref().is_none_or(|it| *named(row).network == it.as_str()));
    let titles = Titles::of(&engine.records.networks()?).with(&engine.records.aliases()?);
    rows.iter_mut().for_each(|row| titles.complete(named(row)));
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
