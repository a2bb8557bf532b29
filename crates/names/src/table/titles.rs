//! What runtimes call networks: Docker's networks have names in the book that Spoke made of their subnets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{Alias, AliasId, FormerName, NetworkName, Runtime, Timestamp, name_domain};

use super::ServedGateway;

/// What a runtime calls a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Title {
    network: NetworkName,
    runtime: Runtime,
    name: NetworkName,
    /// Since when the runtime has the network.
    since: Timestamp,
}

/// Those that mean one network, by its name in the book; of each network in the order of the runtimes' ids.
pub(super) type Plain = HashMap<NetworkName, Vec<Title>>;

/// All of them, by the runtime's id.
#[derive(Debug, Default)]
pub(super) struct Titles(BTreeMap<AliasId, Title>);

impl Titles {
    /// An id is as it says now, or gone. Whether that changes a title.
    pub(super) fn put(&mut self, id: &AliasId, now: Option<&Alias>) -> bool {
        let title = now.and_then(|now| {
            let (network, runtime, since) = (now.network.clone(), now.runtime, now.since);
            Some(Title { network, runtime, name: now.title.clone()?, since })
        });
        if self.0.get(id) == title.as_ref() {
            return false;
        }
        match title {
            Some(title) => drop(self.0.insert(id.clone(), title)),
            None => drop(self.0.remove(id)),
        }
        true
    }

    /// The titles of these networks that mean none of the others: no other one is called so, was, or has that title,
    /// and no name below the one's domain is below the other's, too. What was found before is found as before.
    pub(super) fn plain<'a>(&'a self, places: impl Iterator<Item = &'a ServedGateway>) -> Plain {
        let mut plain = Plain::new();
        if self.0.is_empty() {
            return plain;
        }
        let (mut seen, mut claims) = (BTreeSet::new(), BTreeSet::new());
        for place in places.filter(|place| seen.insert((&place.network, &place.called))) {
            let former = place.former.iter().map(|former| &former.name);
            let names = former.chain([&place.network, &place.called]);
            claims.extend(names.map(|name| (name_domain(name), &place.network)));
        }
        let served: BTreeSet<&NetworkName> = seen.iter().map(|(network, _)| *network).collect();
        let titles: Vec<&Title> =
            self.0.values().filter(|title| served.contains(&title.network)).collect();
        claims.extend(titles.iter().map(|title| (name_domain(&title.name), &title.network)));
        for title in titles {
            let domain = name_domain(&title.name);
            let clashes = |(claim, network): &(String, &NetworkName)| {
                let is_near =
                    *claim == domain || is_below(claim, &domain) || is_below(&domain, claim);
                **network != title.network && is_near
            };
            if !claims.iter().any(clashes) {
                plain.entry(title.network.clone()).or_default().push(title.clone());
            }
        }
        plain
    }
}

/// Adds titles to what a network is called. The oldest one of its `maker` is the first name of a network that no
/// command has named, unless that is one already.
pub(super) fn entitle(place: &mut ServedGateway, titles: &[Title], maker: Option<Runtime>) {
    let called = name_domain(&place.called);
    let is_called_so = |title: &Title| name_domain(&title.name) == called;
    let makers = || titles.iter().filter(|title| maker == Some(title.runtime));
    let first = match makers().any(is_called_so) {
        true => None,
        false => makers().min_by_key(|title| title.since),
    };
    let before = first.map(|title| std::mem::replace(&mut place.called, title.name.clone()));
    for further in titles.iter().map(|title| title.name.clone()).chain(before) {
        if name_domain(&further) == name_domain(&place.called) {
            continue;
        }
        place.former.retain(|former| former.name != further);
        // No other network has it, or had it later.
        place.former.push(FormerName { name: further, order: u32::MAX });
    }
}

/// Whether a domain is below another one.
fn is_below(domain: &str, other: &str) -> bool {
    domain.strip_suffix(other).is_some_and(|rest| rest.ends_with('.'))
}
