//! The titles of networks: from a command that renamed them while containers were on them, and from the runtime
//! of those.

use std::collections::BTreeMap;

use engine::Engine;
use host::event::{Event, What};
use model::{Alias, Attachment, Kind, Network, NetworkName, Result};
use serde::Serialize;

/// By their names in the book. Lists are made with those, and say these.
#[derive(Debug, Default)]
pub(super) struct Titles {
    ours: BTreeMap<String, String>,
    /// Those of runtimes, by the name in the book and the runtime.
    theirs: BTreeMap<(String, String), String>,
    /// The runtimes that made them.
    makers: BTreeMap<String, String>,
}

/// What was written down about a network, with what that is called now, for scripts.
#[derive(Debug, Serialize)]
pub(super) struct Titled<T> {
    #[serde(flatten)]
    pub(super) of: T,
    /// What its runtime calls the network, where that differs.
    pub(super) title: Option<String>,
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
        let makers = networks.iter().map(|it| (it.name.to_string(), it.runtime.to_string()));
        Self { ours: titled.collect(), theirs: BTreeMap::new(), makers: makers.collect() }
    }

    /// All that the book has.
    pub(super) fn read(engine: &Engine<'_>) -> Result<Self> {
        Ok(Self::of(&engine.records.networks()?).with(&engine.records.aliases()?))
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
        *row.title = self.title(row.network, Some(row.runtime));
        self.put(row.network);
    }

    /// What this runtime calls the network, or else the one that made it; nothing where that is its name.
    pub(super) fn title(&self, network: &str, runtime: Option<&str>) -> Option<String> {
        if self.ours.contains_key(network) {
            return None;
        }
        let by = |runtime: &str| self.theirs.get(&(network.to_owned(), runtime.to_owned()));
        let of_maker = || by(self.makers.get(network)?);
        runtime.and_then(by).or_else(of_maker).cloned()
    }

    /// These networks, each with what its runtime calls it as its title: for sentences about them.
    pub(super) fn entitled(&self, networks: Vec<Network>) -> Vec<Network> {
        let entitled = |network: Network| {
            let title = self.title(network.name.as_str(), None);
            let title = title.and_then(|title| title.parse().ok());
            Network { title: title.or(network.title), ..network }
        };
        networks.into_iter().map(entitled).collect()
    }

    /// What an attachment's runtime calls its network.
    pub(super) fn of_record(&self, record: &Attachment) -> Option<String> {
        self.title(record.id.network.as_str(), Some(&record.runtime.to_string()))
    }

    /// What people call an attachment's network.
    pub(super) fn shown(&self, record: &Attachment) -> String {
        self.of_record(record).unwrap_or_else(|| record.network().to_string())
    }

    /// What people call a network.
    pub(super) fn shown_of(&self, network: &Network) -> String {
        let title = self.title(network.name.as_str(), None);
        title.unwrap_or_else(|| network.called().to_string())
    }

    /// What the runtime of an event calls its network now.
    pub(super) fn event(&self, event: &Event) -> Option<String> {
        self.title(event.network.as_ref()?, event.runtime.as_deref())
    }

    /// An event's message as people read it: it was written with the names of networks in the book.
    pub(super) fn sentence(&self, event: &Event) -> String {
        let is_clash = matches!(event.event, What::Clash | What::ClashOver);
        let called = |network: &String, runtime| {
            let renamed = || self.ours.get(network).filter(|_| is_clash).cloned();
            self.title(network, runtime).or_else(renamed)
        };
        let networks = [
            event.network.as_ref().map(|network| (network, event.runtime.as_deref())),
            event.other_network.as_ref().map(|network| (network, None)),
        ];
        networks.into_iter().flatten().fold(event.message.clone(), |message, (network, runtime)| {
            match called(network, runtime) {
                Some(title) => with_name(&message, network, &title),
                None => message,
            }
        })
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

/// A sentence with another name for a network, which is a word of it. A container may be called as its network is: what
/// stands at the beginning is the container. Two runtimes may call different networks alike: a command of Spoke's keeps
/// the name in the book.
pub(super) fn with_name(text: &str, network: &str, title: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let word = |(at, word): (usize, &&str)| match word.strip_prefix(network) {
        Some(_) if words[..at].ends_with(&REMOVAL) => (*word).to_owned(),
        Some(end @ ("" | "," | ":" | ";" | "." | ")")) if at > 0 => format!("{title}{end}"),
        Some(_) | None => (*word).to_owned(),
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// The command of Spoke's that sentences name.
const REMOVAL: [&str; 3] = ["spoke", "network", "rm"];

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
    let titles = Titles::read(engine)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use model::{Ipam, Runtime, Timestamp, Wiring};

    use super::*;

    fn network(name: &str, runtime: Runtime) -> Network {
        let wiring = Wiring::default();
        Network::new(name.parse().unwrap(), runtime, Timestamp(0), wiring, Ipam::None)
    }

    /// Two runtimes may call different networks alike: a command of Spoke's keeps the name in the book.
    #[test]
    fn a_clash_names_networks_as_they_are_called_now() {
        let (dock, pods) = (network("docker-1", Runtime::Docker), network("pods", Runtime::Podman));
        let renamed = Network { title: "cases".parse().ok(), ..pods.clone() };
        let message = "10.8.0.0/24 (spoke network docker-1) and 10.8.0.0/25 (spoke network pods) overlap; mend it \
                       with: docker network rm docker-1, or spoke network rm docker-1, or spoke network rm pods";
        let event = Event {
            other_network: Some("pods".to_owned()),
            ..Event::new(What::Clash, Timestamp(1), message).on(&dock.name, Runtime::Docker)
        };
        let untitled = Titles::of(&[dock.clone(), pods]);
        assert_eq!(untitled.sentence(&event), message);
        let alias = Alias { title: "front".parse().ok(), ..doubles::alias("01", &dock) };
        let titles = Titles::of(&[dock, renamed]).with(&[alias]);
        assert_eq!(
            titles.sentence(&event),
            "10.8.0.0/24 (spoke network front) and 10.8.0.0/25 (spoke network cases) overlap; mend it \
             with: docker network rm front, or spoke network rm docker-1, or spoke network rm pods"
        );
    }
}
