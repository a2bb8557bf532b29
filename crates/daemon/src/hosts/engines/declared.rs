//! Networks that Docker was asked to make on many hosts (`docker network create -o hosts=all`).
//!
//! Docker tells a driver no name. CreateNetwork leaves a record here, and this thread asks Docker's API for the name a
//! moment later, declares the network under it, and makes Docker's id one of its ids. The record is a file, so that the
//! daemon goes on with it after it was killed; it goes when the network is there, or when Docker has no such network.

mod lists;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::book;
use docker::driver::UnnamedManyHosts;
use host::hosts::{self, Reply, SharedNetworkSpec};
use host::time;
use model::{
    AliasId, EngineKind, Error, IpNet, Kind, Network, NetworkName, Placement, Result, Runtime,
    SharedRules, Space, SubnetId, TransportChoice,
};
use serde::{Deserialize, Serialize};
use spec::ManyHostsSpec;

use self::lists::Lists;
use crate::Daemon;
use crate::hosts::{Hosts, State, member};

/// How soon Docker is asked again for a name that it is about to know.
const AT_ONCE: Duration = Duration::from_millis(50);
/// How soon what failed is tried again.
const SOON: Duration = Duration::from_secs(3);
/// So long after CreateNetwork a network that no engine lists is being made; after that it is gone.
const MAKING: Duration = Duration::from_secs(20);
/// How long a container's start waits for its network.
const START: Duration = Duration::from_secs(20);

/// A network of Docker's that is to be on many hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hosts) struct Record {
    id: AliasId,
    subnets: Vec<IpNet>,
    hosts: Placement,
    engines: BTreeSet<EngineKind>,
    #[serde(default)]
    transport: TransportChoice,
    #[serde(default)]
    names: bool,
    #[serde(default)]
    sticky: bool,
    #[serde(default)]
    rules: SharedRules,
    /// The name under which it was declared, or is being declared.
    #[serde(default)]
    name: Option<NetworkName>,
}

/// The same, and what became of it in this life of the daemon.
#[derive(Clone, Debug)]
pub(in crate::hosts) struct DeclaredNetwork {
    record: Record,
    /// When CreateNetwork came, as long as no engine has listed it.
    made: Option<Instant>,
    /// Why it is not there.
    failure: Option<String>,
    /// Whether that may pass by itself.
    is_passing: bool,
}

/// What fails, for the journal.
const WHAT: &str = "a network that Docker was asked to make on many hosts";

/// How an attempt ended.
enum Outcome {
    /// The network is there, or Docker has it no more.
    Done,
    /// Docker has not listed it yet.
    Unlisted,
}

impl Hosts {
    /// Takes note of a network that Docker makes.
    pub(crate) fn share(&self, wanted: &UnnamedManyHosts) -> Result<()> {
        let record = Record::of(wanted.clone());
        self.refuse_now(&record)?;
        // A subnet that is handed out again is no other network's any more.
        let is_older = |asked: &DeclaredNetwork| {
            asked.record.id != wanted.id
                && asked.record.subnets.iter().any(|net| wanted.subnets.contains(net))
        };
        let older: Vec<AliasId> = {
            let state = self.lock();
            let older = state.asked.values().filter(|asked| is_older(asked));
            older.map(|asked| asked.record.id.clone()).collect()
        };
        for id in &older {
            member::remove(&folder(&self.place).join(id.as_str()))?;
        }
        record.write(&self.place)?;
        self.set(|state| {
            state.asked.retain(|id, _| !older.contains(id));
            state.asked.insert(wanted.id.clone(), DeclaredNetwork::new(record));
        });
        self.asking.start()
    }

    /// Whether Docker asked for the network of a subnet, and it is not there yet.
    pub(crate) fn is_awaited(&self, subnet: &SubnetId) -> bool {
        asked_of(&self.lock(), subnet).is_some()
    }

    /// Waits until the network of a subnet is there, where Docker asked for it.
    pub(crate) fn await_shared(&self, subnet: &SubnetId) -> Result<()> {
        let is_settled = |state: &State| {
            let asked = asked_of(state, subnet);
            asked.is_none_or(|asked| asked.failure.is_some() && !asked.is_passing)
        };
        self.wait(START, is_settled);
        let state = self.lock();
        let Some(asked) = asked_of(&state, subnet) else { return Ok(()) };
        let why = match &asked.failure {
            Some(failure) => failure.clone(),
            None => "Docker has not named the network yet; try again".to_owned(),
        };
        Err(Error::try_again(format!(
            "the network of subnet {} is not on the cluster's hosts: {why}",
            subnet.net
        )))
    }

    /// What can be known to be impossible before there is a name.
    fn refuse_now(&self, record: &Record) -> Result<()> {
        let (member, etcd) = self.heard()?;
        // Docker's id stands for the name.
        let short: String = record.id.as_str().chars().take(12).collect();
        let declared = self.declared(&member, record.wanted(&short.parse()?)?)?;
        let view = cluster::Cluster::read(&etcd)?;
        book::refuse(&view, &declared)?;
        let own = view.hosts.get(&member.name);
        match own.is_some_and(|own| record.hosts.has(&member.name, own)) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "-o hosts: the network is to be on hosts of which this one, {}, is none, and its Docker \
                 could start nothing on it; create it on one of them",
                member.name
            ))),
        }
    }

    /// What the life of the daemon before has left.
    pub(in crate::hosts) fn read_asked(&self) {
        let entries = fs::read_dir(folder(&self.place)).into_iter().flatten().flatten();
        let records: BTreeMap<AliasId, DeclaredNetwork> = entries
            // A damaged record is not made anew: Docker's network says in words that it is of no use.
            .filter_map(|entry| member::read::<Record>(&entry.path()).ok().flatten())
            .map(|record| (record.id.clone(), DeclaredNetwork::new(record)))
            .collect();
        self.set(|state| state.asked = records);
    }
}

/// The network that Docker asked for with a subnet.
fn asked_of<'a>(state: &'a State, subnet: &SubnetId) -> Option<&'a DeclaredNetwork> {
    if subnet.space != Space::Host {
        return None;
    }
    state.asked.values().find(|asked| asked.record.subnets.contains(&subnet.net))
}

/// What is to be said of them.
pub(in crate::hosts) fn failures(state: &State) -> impl Iterator<Item = String> + '_ {
    state.asked.values().filter_map(|asked| asked.failure.clone())
}

/// Makes them until the daemon stops.
pub(in crate::hosts) fn keep(daemon: &Daemon, hosts: &Hosts) {
    let mut pause = Duration::ZERO;
    while !daemon.sleep(pause) {
        pause = Duration::ZERO;
        if hosts.wait(SOON, |state| !state.asked.is_empty()) {
            pause = pass(daemon, hosts);
        }
    }
}

/// Tries each; how soon the next pass is due.
fn pass(daemon: &Daemon, hosts: &Hosts) -> Duration {
    let records: Vec<Record> =
        hosts.lock().asked.values().map(|asked| asked.record.clone()).collect();
    let lists = Lists::ask(daemon);
    let mut pause = SOON;
    for record in records {
        let id = record.id.clone();
        match attempt(daemon, hosts, record, &lists) {
            Ok(Outcome::Done) => finish(daemon, hosts, &id),
            Ok(Outcome::Unlisted) => match is_gone(hosts, &id) {
                true if lists.are_whole => {
                    let given_up = hosts.lock().asked.get(&id).and_then(DeclaredNetwork::given_up);
                    if let Some(error) = given_up {
                        daemon.journal.failed(WHAT, &error);
                    }
                    finish(daemon, hosts, &id);
                }
                // An engine that does not answer may have it.
                true => {}
                false => pause = AT_ONCE,
            },
            Err(error) => {
                let is_listed = lists.all.iter().any(|listed| listed.id == id);
                fail(daemon, hosts, (&id, is_listed), &error);
            }
        }
    }
    pause
}

/// Whether a network that no engine lists is gone: it was listed before, or is not being made any more.
fn is_gone(hosts: &Hosts, id: &AliasId) -> bool {
    let state = hosts.lock();
    let asked = state.asked.get(id);
    asked.is_none_or(|asked| asked.made.is_none_or(|made| made.elapsed() > MAKING))
}

fn finish(daemon: &Daemon, hosts: &Hosts, id: &AliasId) {
    if let Err(error) = member::remove(&folder(&hosts.place).join(id.as_str())) {
        daemon.journal.failed("networks that Docker was asked to make on many hosts", &error);
    }
    hosts.set(|state| drop(state.asked.remove(id)));
}

/// Says it once.
fn fail(daemon: &Daemon, hosts: &Hosts, (id, is_listed): (&AliasId, bool), error: &Error) {
    let text = error.to_string();
    let mut is_news = false;
    hosts.set(|state| {
        if let Some(asked) = state.asked.get_mut(id) {
            is_news = asked.failure.replace(text.clone()).as_ref() != Some(&text);
            asked.is_passing = error.kind() == Kind::TryAgain;
            asked.made = asked.made.filter(|_| !is_listed);
        }
    });
    if is_news {
        daemon.journal.failed(WHAT, error);
    }
}

/// Declares a network under the name that Docker gave to it, and joins it.
fn attempt(daemon: &Daemon, hosts: &Hosts, mut record: Record, lists: &Lists) -> Result<Outcome> {
    let pool = &daemon.context_pool;
    let id = record.id.clone();
    if pool.with(|context| context.engine().records.alias(&id))?.is_some() {
        return Ok(Outcome::Done);
    }
    let Some(listed) = lists.all.iter().find(|listed| listed.id == record.id) else {
        return Ok(Outcome::Unlisted);
    };
    let Some(name) = listed.name.clone() else {
        return Err(Error::invalid(format!(
            "no network of a cluster can be called as Docker calls network {}: remove it there and give it \
             another name",
            record.id.as_str().chars().take(12).collect::<String>()
        )));
    };
    let of = |error: Error| {
        let advice = format!("remove Docker's network {name}, or what is in its way");
        Error::new(error.kind(), format!("network {name}: {error}; {advice}"))
    };
    declare(daemon, hosts, &mut record, &name).map_err(of)?;
    join(daemon, &record, &name).map_err(of)?;
    Ok(Outcome::Done)
}

/// Makes sure that the cluster, and this host, has the network.
fn declare(daemon: &Daemon, hosts: &Hosts, record: &mut Record, name: &NetworkName) -> Result<()> {
    let pool = &daemon.context_pool;
    let here = pool.with(|context| context.engine().records.declared(name))?;
    let was_named = record.name.as_ref() == Some(name);
    match here {
        Some(network) if was_named && record.is(&network) => return Ok(()),
        Some(_) => {
            return Err(Error::conflict(format!(
                "this host has a network {name} already (`spoke network ls`)"
            )));
        }
        None => {}
    }
    if was_named && is_declared(hosts, record, name) {
        return Err(Error::try_again("the cluster has it, and this host does not yet"));
    }
    refuse_now_taken(hosts, name)?;
    // The intent, before others can see it.
    record.name = Some(name.clone());
    record.write(&hosts.place)?;
    hosts.set(|state| {
        if let Some(asked) = state.asked.get_mut(&record.id) {
            asked.record = record.clone();
        }
    });
    for net in &record.subnets {
        let subnet = SubnetId { space: Space::Host, net: *net, part: None };
        pool.with(|context| context.engine().subnets.relabel_subnet(&subnet, name))?;
    }
    match hosts.create_network(record.wanted(name)?)? {
        Reply::Network { failure: Some(failure), .. } => Err(Error::conflict(failure)),
        _ => Ok(()),
    }
}

/// Whether the cluster has the network that was declared earlier.
fn is_declared(hosts: &Hosts, record: &Record, name: &NetworkName) -> bool {
    let state = hosts.lock();
    let there = state.view.as_ref().and_then(|view| view.networks.get(name));
    there.is_some_and(|there| record.subnets.contains(&there.subnet))
}

fn refuse_now_taken(hosts: &Hosts, name: &NetworkName) -> Result<()> {
    let state = hosts.lock();
    match state.view.as_ref().is_some_and(|view| view.networks.contains_key(name)) {
        true => Err(Error::conflict(format!("the cluster has a network {name} already"))),
        false => Ok(()),
    }
}

/// Docker's id is one of the network's.
fn join(daemon: &Daemon, record: &Record, name: &NetworkName) -> Result<()> {
    daemon.context_pool.with(|context| {
        let engine = context.engine();
        let network = engine.records.declared(name)?.ok_or_else(|| {
            Error::new(Kind::TryAgain, "the cluster has it, and this host does not yet")
        })?;
        let alias = record.many().alias(name, time::now());
        engine.networks.enroll(&alias, &network).map(drop)
    })
}

impl DeclaredNetwork {
    fn new(record: Record) -> Self {
        Self { record, made: Some(Instant::now()), failure: None, is_passing: false }
    }

    /// Why nothing becomes of it, where no engine has listed it at any time.
    fn given_up(&self) -> Option<Error> {
        let was_listed = self.made.is_none() || self.record.name.is_some();
        (!was_listed).then(|| {
            let id: String = self.record.id.as_str().chars().take(12).collect();
            Error::not_found(format!(
                "no engine in `api` under [docker] lists Docker's network {id}, so its name is not known and it \
                 is on no host: where it is in `docker network ls`, name its engine's socket there, start \
                 the daemon anew, and create the network again"
            ))
        })
    }
}

impl Record {
    fn of(UnnamedManyHosts { id, subnets, spec }: UnnamedManyHosts) -> Self {
        let ManyHostsSpec { hosts, engines, transport, names, sticky, rules } = spec;
        Self { id, subnets, hosts, engines, transport, names, sticky, rules, name: None }
    }

    fn many(&self) -> UnnamedManyHosts {
        UnnamedManyHosts {
            id: self.id.clone(),
            subnets: self.subnets.clone(),
            spec: ManyHostsSpec {
                hosts: self.hosts.clone(),
                engines: self.engines.clone(),
                transport: self.transport,
                names: self.names,
                sticky: self.sticky,
                rules: self.rules.clone(),
            },
        }
    }

    fn wanted(&self, name: &NetworkName) -> Result<SharedNetworkSpec> {
        SharedNetworkSpec::of(name, &self.subnets, &self.many().spec)
    }

    /// Whether a network of this host is the one that was declared.
    fn is(&self, network: &Network) -> bool {
        let mut ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
        network.runtime == Runtime::Spoke
            && ranges.any(|range| self.subnets.contains(&range.subnet))
    }

    fn write(&self, place: &Path) -> Result<()> {
        member::write(&folder(place), self.id.as_str(), self)
    }
}

fn folder(place: &Path) -> PathBuf {
    hosts::asked(place)
}

#[cfg(test)]
mod tests;
