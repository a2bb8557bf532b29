//! Which container has an address, whatever runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Attachment, Layer, Phase, Space};

/// The holder of an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A container on a network.
    Container {
        /// Its name, or its id where its runtime gives none.
        name: String,
        /// Its id.
        container: String,
        /// The network.
        network: String,
        /// What its runtime calls the network, where that differs.
        title: Option<String>,
        /// Its runtime.
        runtime: String,
    },
    /// This host.
    Host,
    /// Anything else.
    Outside,
}

/// The addresses of this host and of the containers that it routes to.
#[derive(Clone, Debug, Default)]
pub struct Addresses(BTreeMap<IpAddr, Party>);

impl Addresses {
    /// Of these attachments, all layers of them, with what their runtimes call their networks where that differs, and
    /// of the host itself. Networks that this host does not
    /// route (a tenant's, a cloud's, a remote driver's) may have the same addresses as others, and their
    /// packets do not come by here: they are not in it.
    pub fn of<'a>(
        attachments: impl IntoIterator<Item = (&'a Attachment, Option<String>)>,
        host: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let mut all: BTreeMap<IpAddr, Party> = BTreeMap::new();
        all.extend(host.into_iter().map(|address| (address, Party::Host)));
        for (record, title) in attachments {
            let is_routed = record.wiring.space(&record.id.network) == Space::Host;
            let is_there = !matches!(record.phase, Phase::Reserved);
            if !is_routed || !is_there || !matches!(record.layer, Layer::Link | Layer::Address) {
                continue;
            }
            let leased = record.leases.iter().map(|lease| lease.address.addr());
            let held = record.addresses.iter().map(|held| held.address.addr());
            for address in held.chain(leased) {
                all.insert(address, party(record, title.clone()));
            }
        }
        Self(all)
    }

    /// Adds an address that no party has so far.
    pub fn add(&mut self, address: IpAddr, party: Party) {
        self.0.entry(address).or_insert(party);
    }

    /// Whose it is.
    pub fn party(&self, address: IpAddr) -> &Party {
        // A loopback address that was translated is seen in the host's namespace only.
        let unknown = if address.is_loopback() { &Party::Host } else { &Party::Outside };
        self.0.get(&address).unwrap_or(unknown)
    }

    /// The networks that a runtime calls so.
    pub fn networks_called(&self, title: &str) -> BTreeSet<&str> {
        let all = self.0.values().filter(|party| party.title() == Some(title));
        all.filter_map(Party::network).collect()
    }

    /// The addresses of the containers that are called so, by name or id.
    pub fn of_container(&self, called: &str) -> Vec<IpAddr> {
        let is_meant = |party: &Party| party.is_called(called);
        self.0.iter().filter(|(_, party)| is_meant(party)).map(|(address, _)| *address).collect()
    }
}

impl Party {
    /// Whether it is a container.
    pub fn is_container(&self) -> bool {
        matches!(self, Party::Container { .. })
    }

    /// Whether it is the container that is called so, by name or id.
    pub fn is_called(&self, called: &str) -> bool {
        match self {
            Party::Container { name, container, runtime, .. } => {
                is_name(called, [name, container, runtime])
            }
            Party::Host | Party::Outside => false,
        }
    }

    /// Whether it is on this network.
    pub fn is_on(&self, wanted: &str) -> bool {
        self.network() == Some(wanted)
    }

    /// Its network.
    pub fn network(&self) -> Option<&str> {
        match self {
            Party::Container { network, .. } => Some(network),
            Party::Host | Party::Outside => None,
        }
    }

    fn title(&self) -> Option<&str> {
        match self {
            Party::Container { title, .. } => title.as_deref(),
            Party::Host | Party::Outside => None,
        }
    }
}

/// The least part of an id that stands for it.
const SHORTEST: usize = 6;

/// Whether a user's word means the container of this name, id and runtime: its name or what is enough of it
/// ([`model::is_owner_called`]), its id, or the beginning of that; each also behind `RUNTIME:`.
pub fn is_name(word: &str, [name, container, runtime]: [&str; 3]) -> bool {
    let behind = word.strip_prefix(runtime).and_then(|rest| rest.strip_prefix(':'));
    let means = |word: &str| {
        let is_part = word.len() >= SHORTEST && container.starts_with(word);
        model::is_owner_called(name, word) || word == container || is_part
    };
    means(word) || behind.is_some_and(means)
}

fn party(record: &Attachment, title: Option<String>) -> Party {
    let id = &record.id;
    Party::Container {
        name: record.container_name(),
        container: id.container.to_string(),
        network: record.network().to_string(),
        title,
        runtime: record.runtime.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A container's and the host's addresses.
    pub(crate) fn known() -> Addresses {
        let web = Party::Container {
            name: "podman/web".to_owned(),
            container: "0123456789abcdef".to_owned(),
            network: "front".to_owned(),
            title: None,
            runtime: "podman".to_owned(),
        };
        let host = "192.0.2.1".parse().unwrap();
        Addresses([("10.1.0.2".parse().unwrap(), web), (host, Party::Host)].into())
    }

    #[test]
    fn a_container_is_called_by_name_or_id() {
        let known = known();
        for word in ["podman/web", "web", "0123456789abcdef", "012345", "podman:web"] {
            assert_eq!(known.of_container(word).len(), 1, "{word}");
        }
        for word in ["podman", "we", "01234", "", "/", "docker:web", "podman:", "podman:we"] {
            assert!(known.of_container(word).is_empty(), "{word}");
        }
        assert_eq!(known.party("127.0.0.1".parse().unwrap()), &Party::Host);
        assert_eq!(known.party("198.51.100.1".parse().unwrap()), &Party::Outside);
    }
}
