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
    /// Their names in commands of Spoke's ([`Network::in_commands`]).
    in_commands: BTreeMap<String, String>,
}

/// What was written down about a network, with what that is called now, for scripts.
#[derive(Debug, Serialize)]
pub(super) struct Titled<T> {
    #[serde(flatten)]
    pub(super) of: T,
    /// What its runtime calls the network, where that differs.
    pub(super) title: Option<String>,
}

/// An event, with what its networks are called now, for scripts.
#[derive(Debug, Serialize)]
pub(super) struct TitledEvent<'a> {
    #[serde(flatten)]
    of: &'a Event,
    /// What the network is called, where that differs.
    title: Option<String>,
    /// What the other network of a clash is called, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_title: Option<String>,
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
        let in_commands =
            networks.iter().map(|it| (it.name.to_string(), it.in_commands().to_string()));
        Self {
            ours: titled.collect(),
            theirs: BTreeMap::new(),
            makers: makers.collect(),
            in_commands: in_commands.collect(),
        }
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

    /// What an attachment's network is called, where that is not its name in the book: by a command, or by the runtime.
    pub(super) fn other_name(&self, record: &Attachment) -> Option<String> {
        let renamed = || self.ours.get(record.id.network.as_str()).cloned();
        self.of_record(record).or_else(renamed)
    }

    /// The name of an attachment's network in commands of Spoke's.
    pub(super) fn in_commands(&self, record: &Attachment) -> String {
        let name = record.network();
        self.in_commands.get(name.as_str()).cloned().unwrap_or_else(|| name.to_string())
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

    /// An event, with what its networks are called now.
    pub(super) fn titled<'a>(&self, event: &'a Event) -> TitledEvent<'a> {
        TitledEvent {
            of: event,
            title: event.network.as_ref().and_then(|it| self.of_event(event, it)),
            other_title: event.other_network.as_ref().and_then(|it| self.of_event(event, it)),
        }
    }

    /// What a network of an event is called now, where that is not its name there. A clash was written with the names in the
    /// book, all others with what a command had called the network by then.
    fn of_event(&self, event: &Event, network: &str) -> Option<String> {
        let runtime = event.runtime.as_deref();
        let runtime = runtime.filter(|_| event.network.as_deref() == Some(network));
        let renamed = || self.ours.get(network).filter(|_| is_clash(event)).cloned();
        self.title(network, runtime).or_else(renamed)
    }

    /// An event's message as people read it: it was written with the names of networks in the book.
    pub(super) fn sentence(&self, event: &Event) -> String {
        if is_clash(event) {
            return self.clash(event);
        }
        let Some(network) = &event.network else { return event.message.clone() };
        match self.of_event(event, network) {
            Some(title) => with_name(&event.message, network, &title),
            None => event.message.clone(),
        }
    }

    /// A clash names two networks, and one may be called now as the other one is in the book. Other words of it may be
    /// names of networks too.
    fn clash(&self, event: &Event) -> String {
        let networks = [&event.network, &event.other_network];
        let named = |word: &str| networks.into_iter().flatten().find(|it| *it == word);
        let words: Vec<&str> = event.message.split(' ').collect();
        let word = |(at, word): (usize, &&str)| {
            let ends = ["", ",", ")"].into_iter();
            let mut names = ends.filter_map(|end| Some((named(word.strip_suffix(end)?)?, end)));
            let titled = names.next().and_then(|(network, end)| {
                Some(self.in_clash(event, network, &words[..at])? + end)
            });
            titled.unwrap_or_else(|| (*word).to_owned())
        };
        words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }

    /// What a network is called after these words of a clash. Two runtimes may call different networks alike: a command of
    /// Spoke's keeps the name in the book. What a command has called a network is no other one's name.
    fn in_clash(&self, event: &Event, network: &str, before: &[&str]) -> Option<String> {
        match before {
            [.., "(spoke", "network"] | [.., "configuration", "of"] | [.., "with:", "remove"] => {
                self.of_event(event, network)
            }
            [.., "spoke", "network", "rm"] => self.ours.get(network).cloned(),
            [.., runtime @ ("docker" | "podman"), "network", "rm"] => {
                let is_maker = self.makers.get(network).is_some_and(|maker| maker == runtime);
                self.of_event(event, network).filter(|_| is_maker)
            }
            _ => None,
        }
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

fn is_clash(event: &Event) -> bool {
    matches!(event.event, What::Clash | What::ClashOver)
}

/// A sentence with what its runtime calls a network in the place of the name, which is a word of it. A container may be called
/// as its network is: what stands at the beginning is the container. Two runtimes may call different networks alike: a
/// command of Spoke's keeps the name in the book.
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

    /// A clash of a network of Docker's with one of Spoke's, with commands about both.
    fn clash(dock: &Network, front: &Network) -> Event {
        let (one, other) = (&dock.name, &front.name);
        let message = format!(
            "10.8.0.0/24 (spoke network {one}) and 10.8.0.0/25 (spoke network {other}) overlap; mend it with: docker \
             network rm {one}, or spoke network rm {one}, or spoke network rm {other}"
        );
        Event {
            other_network: Some(other.to_string()),
            ..Event::new(What::Clash, Timestamp(1), message).on(one, Runtime::Docker)
        }
    }

    /// Two runtimes may call different networks alike: a command of Spoke's keeps the name in the book of what a runtime
    /// calls otherwise. A network that a command renamed is removed by the new name only, and the old one may be the
    /// title of the other.
    #[test]
    fn a_clash_names_networks_as_they_are_called_now() {
        let (dock, front) =
            (network("docker-1", Runtime::Docker), network("front", Runtime::Spoke));
        let renamed = Network { title: "cases".parse().ok(), ..front.clone() };
        let event = clash(&dock, &front);
        let untitled = Titles::of(&[dock.clone(), front]);
        assert_eq!(untitled.sentence(&event), event.message);
        let alias = Alias { title: "front".parse().ok(), ..doubles::alias("01", &dock) };
        let titles = Titles::of(&[dock, renamed]).with(&[alias]);
        assert_eq!(
            titles.sentence(&event),
            "10.8.0.0/24 (spoke network front) and 10.8.0.0/25 (spoke network cases) overlap; mend it \
             with: docker network rm front, or spoke network rm docker-1, or spoke network rm cases"
        );
        let json = serde_json::to_value(titles.titled(&event)).unwrap();
        assert_eq!((&json["title"], &json["other_title"]), (&"front".into(), &"cases".into()));
        assert_eq!(json["other_network"], "front");
    }

    /// Docker's own is called bridge, and routes are in the sentence too.
    #[test]
    fn other_words_of_a_clash_stay() {
        let renamed = |name| {
            let network = network(name, Runtime::Spoke);
            (Network { title: "cases".parse().ok(), ..network.clone() }, network)
        };
        let sentence = |name, message: &str| {
            let (titled, network) = renamed(name);
            let event = Event::new(What::ClashOver, Timestamp(1), message)
                .on(&network.name, network.runtime);
            Titles::of(&[titled]).sentence(&event)
        };
        assert_eq!(
            sentence(
                "bridge",
                "(spoke network bridge) and (docker network bridge): docker network rm bridge"
            ),
            "(spoke network cases) and (docker network bridge): docker network rm bridge"
        );
        assert_eq!(
            sentence(
                "route",
                "(spoke network route) overlaps the route to 10.0.0.0/8; mend it with: spoke network rm route"
            ),
            "(spoke network cases) overlaps the route to 10.0.0.0/8; mend it with: spoke network rm cases"
        );
    }
}
