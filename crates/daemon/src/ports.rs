//! A socket on each published port, so that others see that it is taken: bridges of Docker and Podman,
//! and programs of this host. Packets never come to it, because they are translated before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use config::Level;
use engine::port::{Key, Record};
use host::event::{Event, What};
use host::time;
use linux::Taken;
use model::{
    Attachment, AttachmentId, Family, Layer, Phase, PortMap, Protocol, Runtime, Timestamp,
};
use netlink::hold::{BoundPort, Hold, hold};
use rustix::process::{Resource, getrlimit};
use store::Changed;

use super::journal::Journal;

/// The interval at which a port is tried again that another program has.
const AGAIN: Duration = Duration::from_secs(3);

/// How long a port of a CNI runtime is left alone: Podman 4 is one, and binds it itself, once its
/// container is about to start.
const RESERVED: Duration = Duration::from_secs(30);

/// However many files the process may open, no more sockets than this are kept.
const MOST: u64 = 32_768;

/// The address of a socket.
type Target = (Protocol, SocketAddr);

/// The owner of a port, as it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PublishedPort {
    id: AttachmentId,
    name: String,
    runtime: Runtime,
    map: PortMap,
    /// Whether a command added it while the container ran: its runtime does not know of it.
    added: bool,
    /// When this was published; `None` where that was before this host started.
    since: Option<Instant>,
}

/// Whose a port is, and so who keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    id: AttachmentId,
    runtime: Runtime,
    added: bool,
}

impl PublishedPort {
    /// Whether its runtime may still bind the port itself.
    fn is_early(&self) -> bool {
        let is_new = self.since.is_some_and(|since| since.elapsed() < RESERVED);
        is_new && !self.added && matches!(self.runtime, Runtime::Cni | Runtime::Reference)
    }

    fn owner(&self) -> Owner {
        Owner { id: self.id.clone(), runtime: self.runtime, added: self.added }
    }
}

/// The result of the last attempt.
#[derive(Debug)]
enum State {
    /// It is kept, or this host cannot have it.
    Done { _socket: Option<BoundPort> },
    /// The runtime keeps it itself.
    Reserved,
    /// Its runtime may be about to.
    Early,
    /// Another program has it, and this was reported.
    Taken { reported: Option<String> },
    /// It could not be tried, and this was reported.
    Failed { why: String },
}

impl State {
    /// Whether another attempt may lead to something else.
    fn is_open(&self) -> bool {
        match self {
            State::Taken { .. } | State::Early | State::Failed { .. } => true,
            State::Done { .. } | State::Reserved => false,
        }
    }
}

/// The ports that are kept.
#[derive(Debug, Default)]
pub(super) struct Ports {
    published: BTreeMap<(AttachmentId, Layer), Vec<(Target, PublishedPort)>>,
    states: BTreeMap<Target, (Owner, State)>,
    tried: Option<Instant>,
    /// Whether the records have changed since.
    changed: bool,
    /// How many are not kept for want of files.
    beyond: usize,
}

impl Ports {
    /// Learns of a record that was written or deleted at `since`, or before the daemon was there: then the
    /// record says when. It is `now`.
    pub(super) fn learn(&mut self, change: &Changed, since: Option<Instant>, now: Timestamp) {
        let Key::Attachment(id, layer) = &change.key else { return };
        let published = match change.now.as_ref().map(|now| &now.record) {
            Some(Record::Attachment(record)) => {
                published(record, since.or_else(|| instant_of(record.since, now)))
            }
            _ => Vec::new(),
        };
        let key = (id.clone(), *layer);
        self.changed = true;
        match published.is_empty() {
            true => self.published.remove(&key),
            false => self.published.insert(key, published),
        };
    }

    /// Binds the wanted ports, and closes the others.
    pub(super) fn keep(&mut self, journal: &Journal) {
        let again = self.tried.is_none_or(|tried| tried.elapsed() >= AGAIN);
        let is_due =
            self.changed || again && self.states.values().any(|(_, state)| state.is_open());
        if !is_due {
            return;
        }
        self.changed = false;
        let wanted = self.wanted();
        self.drop_stale(&wanted);
        let room = most();
        let mut beyond = 0;
        for (target, wanted) in &wanted {
            let before = match self.states.get(target) {
                None if self.states.len() >= room => {
                    beyond += 1;
                    continue;
                }
                None => None,
                Some((_, state)) if again && state.is_open() => self.states.remove(target),
                Some(_) => continue,
            };
            let before = before.map(|(_, state)| state);
            let state = attempt(*target, wanted, before, journal);
            self.states.insert(*target, (wanted.owner(), state));
        }
        self.tried = if again { Some(Instant::now()) } else { self.tried };
        self.report_beyond(beyond, journal);
    }

    /// Closes what no container publishes, and what another one publishes now: its runtime may keep it itself.
    fn drop_stale(&mut self, wanted: &BTreeMap<Target, PublishedPort>) {
        self.states.retain(|target, (owner, _)| {
            wanted.get(target).is_some_and(|wanted| wanted.owner() == *owner)
        });
    }

    fn report_beyond(&mut self, beyond: usize, journal: &Journal) {
        if beyond > self.beyond {
            let message = format!(
                "{beyond} published ports are not kept from others: this process may not open more \
                 files (LimitNOFILE)"
            );
            journal.log.say(Level::Warn, &message, &[]);
        }
        self.beyond = beyond;
    }

    /// The ports to bind. A port on every address includes the same on one.
    fn wanted(&self) -> BTreeMap<Target, PublishedPort> {
        let all: BTreeMap<Target, &PublishedPort> =
            self.published.values().flatten().map(|(target, wanted)| (*target, wanted)).collect();
        let every: BTreeSet<Target> =
            all.keys().filter(|(_, on)| on.ip().is_unspecified()).copied().collect();
        let is_included = |(protocol, on): &Target| {
            let any = SocketAddr::new(family_of(on.ip()).unspecified(), on.port());
            !on.ip().is_unspecified() && every.contains(&(*protocol, any))
        };
        let own = all.into_iter().filter(|(target, _)| !is_included(target));
        own.map(|(target, wanted)| (target, wanted.clone())).collect()
    }
}

/// When that was by the clock of this process. A time that is still to come was set back since: it counts
/// from now on.
fn instant_of(since: Timestamp, now: Timestamp) -> Option<Instant> {
    Instant::now().checked_sub(Duration::from_secs(now.0.saturating_sub(since.0)))
}

/// Half of the files that this process may open.
fn most() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(MOST);
    usize::try_from((files / 2).min(MOST)).unwrap_or(0)
}

fn family_of(address: IpAddr) -> Family {
    Family::of(&model::host_net(address))
}

/// The ports that a record publishes, in the families of its addresses.
fn published(record: &Attachment, since: Option<Instant>) -> Vec<(Target, PublishedPort)> {
    let is_complete = matches!(record.phase, Phase::Attached(_));
    let is_ours = is_complete && !record.is_published_by_plugin();
    let Some(publish) = record.wiring.publish.as_ref().filter(|_| is_ours) else {
        return Vec::new();
    };
    let families = [Family::V4, Family::V6].into_iter().filter(|f| record.first(*f).is_some());
    let every: Vec<IpAddr> = families.map(Family::unspecified).collect();
    let of = |map: &PortMap| -> Vec<(Target, PublishedPort)> {
        let is_served = |host: &IpAddr| record.first(family_of(*host)).is_some();
        let hosts = map.host.map_or_else(|| every.clone(), |host| vec![host]);
        let wanted = PublishedPort {
            id: record.id.clone(),
            name: record.container_name(),
            runtime: record.runtime,
            map: map.clone(),
            added: publish.added.contains(map),
            since,
        };
        let target = |host| (map.protocol, SocketAddr::new(host, map.host_port.get()));
        hosts.into_iter().filter(is_served).map(|host| (target(host), wanted.clone())).collect()
    };
    publish.ports.iter().flat_map(of).collect()
}

fn attempt(
    target: Target,
    wanted: &PublishedPort,
    before: Option<State>,
    journal: &Journal,
) -> State {
    if wanted.runtime == Runtime::Podman && !wanted.added {
        // It binds its published ports after the network was made: they must be free until then.
        return State::Reserved;
    }
    if wanted.is_early() {
        return State::Early;
    }
    let (protocol, address) = target;
    let (reported, failed) = match before {
        Some(State::Taken { reported }) => (reported, None),
        Some(State::Failed { why }) => (None, Some(why)),
        Some(State::Done { .. } | State::Reserved | State::Early) | None => (None, None),
    };
    let report = |what, message: String| {
        let ports = vec![wanted.map.to_string()];
        journal.report(&Event { ports, ..Event::new(what, time::now(), message).to(&wanted.id) });
    };
    let port = format!("host port {}/{protocol}", address.port());
    match hold(protocol, address) {
        Ok(Hold::Held(socket)) => {
            if reported.is_some() {
                let name = &wanted.name;
                report(What::PortFree, format!("{port} leads to {name} alone again"));
            }
            State::Done { _socket: Some(socket) }
        }
        Ok(Hold::Absent) => State::Done { _socket: None },
        Ok(Hold::Taken) => {
            let map = PortMap { host: Some(address.ip()), ..wanted.map.clone() };
            let taken = linux::taken(&map);
            if taken == Taken::Kept {
                // Old connections, or a socket that does not listen yet.
                return State::Taken { reported };
            }
            let Some(by) = taken.rival(wanted.runtime) else { return State::Reserved };
            if reported.as_ref() != Some(&by) {
                report(What::PortTaken, format!("{port} is in use by {by} too{}", of(wanted)));
            }
            State::Taken { reported: Some(by) }
        }
        Err(error) => {
            let why = error.to_string();
            if failed.as_ref() != Some(&why) {
                journal.failed("keeping a published port from others", &error);
            }
            State::Failed { why }
        }
    }
}

fn of(wanted: &PublishedPort) -> String {
    let name = &wanted.name;
    format!(", and {name} publishes it: who answers depends on where one asks; stop one of them")
}

#[cfg(test)]
mod tests;
