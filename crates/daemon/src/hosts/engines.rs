//! Makes networks of the cluster in the engines of this host (`spoke network create --in`), and removes them
//! there: Docker is asked by its API, for Podman and CNI there are files.
//!
//! In which engines a network may be is written down before the first of them is asked, so that the daemon removes
//! it there also after it was killed. An engine that is not there yet is looked for again.

pub(super) mod declared;
mod dockers;
mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::View;
use host::hosts;
use model::{EngineKind, Error, NetworkName, Result, SharedNetwork};
use serde::{Deserialize, Serialize};

use super::member::{self, Member};
use super::{Hosts, State};
use crate::Daemon;
use dockers::Dockers;

/// How soon an engine is looked for again that was not there, or refused.
const SOON: Duration = Duration::from_secs(3);
/// How often it is looked whether each network is in its engines.
const PERIOD: Duration = Duration::from_secs(30);

/// In which engines of this host a network is, or may be.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    network: SharedNetwork,
    engines: BTreeSet<EngineKind>,
    /// Whether each of them was asked, whatever came of it.
    tried: bool,
}

/// What is to be said of a network in an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    text: String,
    /// That an engine is not there is none.
    is_failure: bool,
}

/// What the cluster says of this host's networks.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Every network of this host.
    networks: BTreeMap<NetworkName, SharedNetwork>,
    /// Those of them that it could not make.
    failed: BTreeSet<NetworkName>,
}

/// Keeps them until the daemon stops.
pub(super) fn keep(daemon: &Daemon, hosts: &Hosts) {
    let (mut last, mut limit) = (None, PERIOD);
    while !daemon.sleep(Duration::ZERO) {
        hosts.wait(limit.min(SOON), |state| Plan::of(state) != last);
        let plan = Plan::of(&hosts.lock());
        let is_news = plan != last;
        limit = limit.saturating_sub(SOON);
        if is_news || limit.is_zero() {
            let is_settled = plan.as_ref().is_none_or(|plan| plan.carry(daemon, hosts));
            limit = if is_settled { PERIOD } else { SOON };
        }
        last = plan;
    }
}

impl Plan {
    /// `None` where nothing is known.
    fn of(state: &State) -> Option<Self> {
        let (member, view) = (state.member.as_ref()?, state.view.as_ref()?);
        let networks = view.networks_of(&member.name);
        let networks = networks.map(|(name, network)| (name.clone(), network.clone())).collect();
        Some(Self { networks, failed: state.failures.keys().cloned().collect() })
    }

    /// Makes and removes; whether there is nothing left to do.
    fn carry(&self, daemon: &Daemon, hosts: &Hosts) -> bool {
        // A network of the same name may be a later one.
        let is_gone = |(name, record): &(&NetworkName, &Record)| {
            self.networks.get(*name).is_none_or(|network| !network.is_same(&record.network))
        };
        let records = records(&hosts.place);
        let mut pass = Pass { daemon, dockers: Dockers::new(daemon) };
        let gone = records.iter().filter(is_gone);
        let left: BTreeSet<&NetworkName> =
            gone.filter(|gone| !pass.withdraw(hosts, *gone)).map(|(name, _)| name).collect();
        let mut is_settled = left.is_empty();
        let wanted = self.networks.iter().filter(|(name, network)| {
            let is_free = !self.failed.contains(*name) && !left.contains(name);
            !network.engines.known.is_empty() && is_free
        });
        for (name, network) in wanted {
            let known = records.get_key_value(name).filter(|known| !is_gone(known));
            is_settled &= pass.make(hosts, (name, network), known.map(|(_, record)| record));
        }
        is_settled
    }
}

/// One pass over all networks.
struct Pass<'a> {
    daemon: &'a Daemon,
    dockers: Dockers<'a>,
}

impl Pass<'_> {
    /// Removes a network from the engines of this host; the keeper removes the network itself after that.
    fn withdraw(&mut self, hosts: &Hosts, (name, record): (&NetworkName, &Record)) -> bool {
        let mut notes = Vec::new();
        for kind in &record.engines {
            if let Err(error) = self.remove_from(*kind, name) {
                let text = format!("network {name} is to be removed from {kind}: {error}");
                notes.push(Note { text, is_failure: true });
            }
        }
        if notes.is_empty()
            && let Err(error) = member::remove(&path(&hosts.place, name))
        {
            notes.push(Note { text: error.to_string(), is_failure: true });
        }
        let is_done = notes.is_empty();
        report(self.daemon, hosts, (name, notes));
        hosts.set(|state| {
            state.withdrawn.insert(name.clone());
        });
        hosts.nudge();
        is_done
    }

    /// Makes a network in the engines of this host.
    fn make(
        &mut self,
        hosts: &Hosts,
        (name, network): (&NetworkName, &SharedNetwork),
        known: Option<&Record>,
    ) -> bool {
        let tried = known.is_some_and(|known| known.tried);
        let engines = network.engines.known.clone();
        let mut record = Record { network: network.clone(), engines, tried };
        let intended = match known {
            Some(known) if known.engines == record.engines => Ok(()),
            Some(_) | None => record.write(name, &hosts.place),
        };
        hosts.set(|state| {
            state.withdrawn.remove(name);
        });
        let notes: Vec<Note> = match intended {
            Ok(()) => {
                let made =
                    network.engines.known.iter().map(|kind| self.make_in(*kind, (name, network)));
                made.filter_map(Result::err).collect()
            }
            Err(error) => vec![Note { text: error.to_string(), is_failure: true }],
        };
        let mut is_done = notes.is_empty();
        report(self.daemon, hosts, (name, notes));
        if !record.tried {
            record.tried = true;
            if let Err(error) = record.write(name, &hosts.place) {
                self.daemon.journal.failed("networks of the cluster in engines", &error);
                is_done = false;
            }
            hosts.nudge();
        }
        is_done
    }

    /// Makes it in one engine.
    fn make_in(
        &mut self,
        kind: EngineKind,
        (name, network): (&NetworkName, &SharedNetwork),
    ) -> std::result::Result<(), Note> {
        let done = match kind {
            EngineKind::Docker => self.dockers.make(name, network),
            EngineKind::Podman => files::write_podmans(self.daemon, name, network.names),
            EngineKind::Cni => files::write_list(name, network.names).map(|()| true),
        };
        match done {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = format!(
                    "network {name}: this host has no {kind} yet, which gets the network when it comes"
                );
                Err(Note { text, is_failure: false })
            }
            Err(error) => {
                let text = format!("network {name} is not in {kind}: {error}");
                Err(Note { text, is_failure: true })
            }
        }
    }

    fn remove_from(&mut self, kind: EngineKind, name: &NetworkName) -> Result<()> {
        match kind {
            // Docker itself refuses while containers are on it.
            EngineKind::Docker => self.dockers.remove(name),
            EngineKind::Podman => self.refuse_used(name).and_then(|()| files::remove_podmans(name)),
            EngineKind::Cni => self.refuse_used(name).and_then(|()| files::remove_list(name)),
        }
    }

    /// Podman and CNI read their files when they detach a container, too.
    fn refuse_used(&self, name: &NetworkName) -> Result<()> {
        let context_pool = &self.daemon.context_pool;
        let all =
            context_pool.with(|host_context| host_context.engine().records.intact_attachments())?;
        match all.iter().any(|attachment| attachment.id.network == *name) {
            true => Err(Error::conflict("it stays while containers are on it")),
            false => Ok(()),
        }
    }
}

/// Reports once what does not work.
fn report(daemon: &Daemon, hosts: &Hosts, (name, notes): (&NetworkName, Vec<Note>)) {
    let before = hosts.lock().engines.get(name).cloned().unwrap_or_default();
    for note in notes.iter().filter(|note| note.is_failure && !before.contains(note)) {
        let error = Error::try_again(note.text.clone());
        daemon.journal.failed("networks of the cluster in engines", &error);
    }
    hosts.set(|state| match notes.is_empty() {
        true => drop(state.engines.remove(name)),
        false => drop(state.engines.insert(name.clone(), notes)),
    });
}

impl Hosts {
    /// Whether the engines of this host were not asked yet to remove a network.
    pub(super) fn is_still_in_engines(&self, name: &NetworkName) -> bool {
        path(&self.place, name).exists() && !self.lock().withdrawn.contains(name)
    }
}

impl Record {
    fn write(&self, name: &NetworkName, place: &Path) -> Result<()> {
        member::write(&hosts::engines(place), name.as_str(), self)
    }
}

/// The networks of this host that its engines were not asked for yet.
pub(super) fn untried(view: &View, member: &Member, place: &Path) -> BTreeSet<NetworkName> {
    let mut networks: Vec<_> = view.networks_of(&member.name).collect();
    networks.retain(|(_, network)| !network.engines.known.is_empty());
    if networks.is_empty() {
        return BTreeSet::new();
    }
    let records = records(place);
    let is_tried = |name: &NetworkName, network: &SharedNetwork| {
        records.get(name).is_some_and(|record| record.tried && record.network.is_same(network))
    };
    let untried = networks.into_iter().filter(|(name, network)| !is_tried(name, network));
    untried.map(|(name, _)| name.clone()).collect()
}

/// What is to be said of a network that was just made.
pub(super) fn notes(state: &State, name: &NetworkName) -> Vec<String> {
    state.engines.get(name).into_iter().flatten().map(|note| note.text.clone()).collect()
}

/// What does not work.
pub(super) fn failures(state: &State) -> impl Iterator<Item = String> + '_ {
    let failures = state.engines.values().flatten().filter(|note| note.is_failure);
    failures.map(|note| note.text.clone())
}

/// This host is in no cluster any more: networks that are still on it stay in its engines, as networks of its own. The
/// files of the others go.
pub(super) fn forget(daemon: &Daemon, place: &Path) -> Result<()> {
    for (name, record) in records(place) {
        let context_pool = &daemon.context_pool;
        let declared =
            context_pool.with(|host_context| host_context.engine().records.declared(&name))?;
        if declared.is_none() {
            for kind in record.engines {
                match kind {
                    // Docker has no network any more that is not on this host.
                    EngineKind::Docker => {}
                    EngineKind::Podman => files::remove_podmans(&name)?,
                    EngineKind::Cni => files::remove_list(&name)?,
                }
            }
        }
        member::remove(&path(place, &name))?;
    }
    Ok(())
}

/// A record that is damaged is made anew.
fn records(place: &Path) -> BTreeMap<NetworkName, Record> {
    let entries = fs::read_dir(hosts::engines(place)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let records = names.filter_map(|name: NetworkName| {
        let record = member::read(&path(place, &name)).ok().flatten()?;
        Some((name, record))
    });
    records.collect()
}

fn path(place: &Path, name: &NetworkName) -> PathBuf {
    hosts::engines(place).join(name.as_str())
}
