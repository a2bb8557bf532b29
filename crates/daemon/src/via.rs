//! The ways out of networks: followed as devices, gateways and containers come and go, and held whatever
//! other programs remove.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::port::{Key, Prefix, Record};
use host::event::{Event, What};
use host::time;
use linux::way::{self, AppliedWay, Candidate, Flows, Hold, Peer, WayOut};
use model::{IfName, Network, Result, Stage, Wiring};
use netlink::nft::{News, Object};
use netlink::{Event as Change, Monitor, Socket, Wake};
use store::{Changed, Watch};

use super::recorded::{Declared, by_bridge};
use super::{Daemon, remains};

/// How often records are looked at; after a change in the kernel, whose record mostly follows; and everything
/// without a report of a change.
const GLANCE: Duration = Duration::from_millis(250);
const SOON: Duration = Duration::from_millis(20);
const LIVELY: Duration = Duration::from_secs(1);
const SWEEP: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(5);
/// A network that is being removed loses its way first, and its record within this time.
const REMOVED: Duration = Duration::from_secs(2);
/// The command that gives a network another way takes down what held it to the former one within this time.
const CHANGING: Duration = Duration::from_secs(5);
/// The name of the table, as changes report it.
const TABLE: &str = "spoke_via";

/// The networks that have a way of their own, and the containers that could be one.
#[derive(Debug, Default)]
pub(super) struct Ways {
    recorded: BTreeMap<Key, WayOut>,
    declared: Declared,
    candidates: BTreeMap<Key, Candidate>,
    /// What holds for each bridge, and to what it was held last.
    followed: BTreeMap<IfName, (WayOut, Option<AppliedWay>)>,
    failing: BTreeSet<IfName>,
    /// Whether the records have been read once.
    has_read: bool,
    /// Those that have another way since this daemon looked last.
    changed: BTreeSet<IfName>,
    /// When their record said another one last.
    learned: BTreeMap<IfName, Instant>,
    /// Which networks were held again, in how many microseconds, and when.
    healed: Option<(BTreeSet<IfName>, u128, Instant)>,
}

/// Follows the ways of all networks until the daemon stops; what holds them stays when it ends.
pub(super) fn follow(daemon: &Daemon) {
    while let Err(error) = follow_until_lost(daemon) {
        daemon.journal.failed("following the ways out of networks", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

/// Holds networks again where another program changed the table of the packet filter, until the daemon stops.
pub(super) fn guard(daemon: &Daemon) {
    while let Err(error) = guard_until_lost(daemon) {
        daemon.journal.failed("watching what holds networks to their ways", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

fn follow_until_lost(daemon: &Daemon) -> Result<()> {
    let mut monitor = Monitor::routing()?;
    let store = host::host_context::open_store(daemon.context_pool.config())?;
    let prefixes = [Prefix::Networks, Prefix::Configured, Prefix::Attachments];
    let mut watch = store.watch(&prefixes)?;
    let mut socket = Socket::netfilter()?;
    *lock(&daemon.ways) = Ways::default();
    // Before the records: a network that comes meanwhile is recorded before it is led.
    let led = way::led();
    lock(&daemon.ways).learn(daemon, &mut watch, &mut socket)?;
    lock(&daemon.ways).clear_remains(daemon, led, &mut socket);
    lock(&daemon.ways).keep_all(daemon, &mut socket, false);
    let mut swept = Instant::now();
    loop {
        // What this daemon or others change all the time is looked at so often and no more.
        if daemon.sleep(SOON.saturating_sub(swept.elapsed())) {
            return Ok(());
        }
        let limit = if swept.elapsed() < LIVELY { SOON } else { GLANCE };
        let is_changed = match monitor.wait(&daemon.stop, limit)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => false,
            Wake::Lost | Wake::News(_) => true,
        };
        let mut ways = lock(&daemon.ways);
        let is_due = swept.elapsed() > SWEEP;
        let led = is_due.then(way::led);
        let has_learned = ways.learn(daemon, &mut watch, &mut socket)?;
        if let Some(led) = led {
            ways.clear_remains(daemon, led, &mut socket);
        }
        if is_changed || is_due || has_learned {
            swept = Instant::now();
            ways.keep_all(daemon, &mut socket, is_changed && !has_learned);
        } else {
            ways.report_healed(daemon);
        }
    }
}

fn guard_until_lost(daemon: &Daemon) -> Result<()> {
    let mut monitor = Monitor::ruleset()?;
    let mut socket = Socket::netfilter()?;
    loop {
        let is_damaged = match monitor.wait(&daemon.stop, SWEEP)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => false,
            Wake::Lost => true,
            Wake::News(news) => news.iter().any(damages),
        };
        if is_damaged {
            lock(&daemon.ways).keep_all(daemon, &mut socket, true);
        }
    }
}

/// Whether a change by another program may have taken something from the table.
fn damages(change: &Change) -> bool {
    let Change::Ruleset(News { object, gone, table, .. }) = change else { return false };
    let is_rules = matches!(object, Object::Table | Object::Chain | Object::Rule);
    table == TABLE && (*gone || is_rules)
}

fn lock(ways: &Mutex<Ways>) -> std::sync::MutexGuard<'_, Ways> {
    ways.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ways {
    /// What has changed in the records. Whether anything has that matters here.
    fn learn(&mut self, daemon: &Daemon, watch: &mut Watch, socket: &mut Socket) -> Result<bool> {
        let has_read = std::mem::replace(&mut self.has_read, true);
        let mut has_changed = false;
        for Changed { key, now } in watch.wait(Duration::ZERO)? {
            has_changed |= self.put(daemon, key, now.map(|now| now.record));
        }
        if !has_changed {
            return Ok(false);
        }
        let now = by_bridge((&self.recorded, &self.declared), |it| (&it.network, &it.bridge));
        let is_gone = |bridge: &&IfName| !now.contains_key(*bridge);
        let gone: Vec<IfName> = self.followed.keys().filter(is_gone).cloned().collect();
        for bridge in gone {
            self.forget(daemon, &bridge, socket);
        }
        for (bridge, way) in now {
            match self.followed.get_mut(&bridge) {
                Some((before, _)) if *before == way => {}
                before => {
                    // At the daemon's start nothing has changed.
                    if before.is_some() || has_read {
                        self.changed.insert(bridge.clone());
                        self.learned.insert(bridge.clone(), Instant::now());
                    }
                    self.followed.insert(bridge, (way, None));
                }
            }
        }
        Ok(true)
    }

    /// A record is as it says now, or gone. Whether that matters here.
    fn put(&mut self, daemon: &Daemon, key: Key, now: Option<Record>) -> bool {
        let is_news = self.declared.note(&key, now.is_some());
        let (way, candidate) = match now {
            Some(Record::Network(network)) => match way_of(&network) {
                Ok(way) => (way, None),
                Err(error) => {
                    // What was recorded holds on.
                    daemon.journal.failed("reading the way out of a network", &error);
                    return is_news;
                }
            },
            Some(Record::Attachment(attachment)) => (None, Candidate::of(&attachment)),
            _ => (None, None),
        };
        is_news
            | replace(&mut self.recorded, &key, way)
            | replace(&mut self.candidates, &key, candidate)
    }

    /// Lets a bridge go whose network is gone, or has no way of its own any more. A record that could not be
    /// read just now is no proof of that, nor is a network without a record that has attachments.
    fn forget(&mut self, daemon: &Daemon, bridge: &IfName, socket: &mut Socket) {
        let Some((way, _)) = self.followed.get(bridge) else { return };
        let is_over = || remains::is_over(daemon, (&way.network, bridge), has_way);
        let forgotten = is_over().and_then(|now| match now {
            true => way::forget_while(socket, bridge, &is_over).map(|()| true),
            false => Ok(false),
        });
        match forgotten {
            Ok(true) => {
                self.learned.remove(bridge);
                drop(self.followed.remove(bridge));
            }
            Ok(false) => {}
            Err(error) => daemon.journal.failed("letting a network's way go", &error),
        }
    }

    /// Removes rules of bridges of which no record says anything: a process was killed in between. `led`: the
    /// bridges that were led before the records were read.
    fn clear_remains(&self, daemon: &Daemon, led: Result<Vec<IfName>>, socket: &mut Socket) {
        let is_known = |bridge: &IfName| self.followed.contains_key(bridge);
        let forget = |bridge: &IfName| {
            let still = || remains::is_unnamed(daemon, bridge, has_way);
            way::forget_while(socket, bridge, &still)
        };
        if let Err(error) = remains::clear(daemon, led, (is_known, has_way), forget) {
            daemon.journal.failed("clearing what led networks that are gone", &error);
        }
    }

    /// Makes everything what it should be. `lost`: a change is another program's, unless the way changed.
    fn keep_all(&mut self, daemon: &Daemon, socket: &mut Socket, lost: bool) {
        let relays = self.relays();
        self.keep_each(daemon, socket, (relays.as_ref(), lost));
        // Where they lead is known now.
        let now = self.relays();
        if now != relays {
            self.keep_each(daemon, socket, (now.as_ref(), false));
        }
    }

    fn keep_each(
        &mut self,
        daemon: &Daemon,
        socket: &mut Socket,
        (relays, lost): (Option<&BTreeSet<IfName>>, bool),
    ) {
        let began = Instant::now();
        let mut healed = BTreeSet::new();
        let bridges: Vec<IfName> = self.followed.keys().cloned().collect();
        for bridge in bridges {
            let Some((way, before)) = self.followed.get(&bridge).cloned() else { continue };
            let flows = match &before {
                _ if self.changed.contains(&bridge) => Flows::End,
                Some(_) => Flows::GoOn,
                // A command may have been killed before this daemon began.
                None => Flows::EndIfLedElsewhere,
            };
            let relays = relays.map(|relays| relays.contains(&bridge));
            let how = Hold { flows, relays, still: &|| is_way(daemon, &way) };
            match way::hold(socket, &way, way.peer(self.candidates.values()), &how) {
                Ok((held, changed)) => {
                    self.failing.remove(&bridge);
                    self.changed.remove(&bridge);
                    // What is held otherwise than before, as this host has changed, was not there to be taken away.
                    let is_lost = lost && !self.is_changing(&bridge);
                    if changed && is_lost && held.is_whole && before.as_ref() == Some(&held) {
                        healed.insert(bridge.clone());
                    }
                    report::changes(daemon, &way, before.as_ref().map(|it| &it.hops), &held.hops);
                    self.followed.insert(bridge, (way, Some(held)));
                }
                // A command has given it another one; that is learned at the next look.
                Err(_) if matches!(is_way(daemon, &way), Ok(false)) => {}
                Err(error) => {
                    if self.failing.insert(bridge) {
                        daemon.journal.failed("holding a network to its way", &error);
                    }
                }
            }
        }
        if !healed.is_empty() {
            self.healed = Some((healed, began.elapsed().as_micros(), began));
        }
    }

    /// Whether a command may still be giving the network another way: what it takes down is not another program's doing.
    fn is_changing(&self, bridge: &IfName) -> bool {
        self.learned.get(bridge).is_some_and(|at| at.elapsed() < CHANGING)
    }

    /// The bridges on which a container forwards for another network: it is that one's way by its name, or by its address.
    /// `None` until it is known where all ways lead.
    fn relays(&self) -> Option<BTreeSet<IfName>> {
        let mut all = BTreeSet::new();
        for (way, held) in self.followed.values() {
            let peers = way.peers(self.candidates.values());
            all.extend(peers.filter_map(Peer::bridge).cloned());
            let routers = held.as_ref()?.hops.all().filter(|(_, hop)| hop.gateway.is_some());
            all.extend(routers.map(|(_, hop)| hop.device.clone()));
        }
        Some(all)
    }

    /// Reports what was held again, unless a network was being removed: that begins with its rules.
    fn report_healed(&mut self, daemon: &Daemon) {
        let is_settled = |(_, _, began): &mut (_, _, Instant)| began.elapsed() > REMOVED;
        let Some((bridges, took, _)) = self.healed.take_if(is_settled) else { return };
        if bridges.iter().all(|bridge| self.followed.contains_key(bridge)) {
            let message = format!(
                "another program removed the rules of table spoke_via; they were put back in {took} µs"
            );
            daemon.journal.metrics.heal();
            daemon.journal.report(&Event::new(What::Healed, time::now(), message));
        }
    }
}

/// Whether a network's record has this way still. One that cannot be read has no other one.
fn is_way(daemon: &Daemon, way: &WayOut) -> Result<bool> {
    let named =
        daemon.context_pool.with(|host_context| host_context.engine().records.named(&way.network));
    Ok(match named {
        Ok(Some(network)) if remains::is_bridge_of(&network, &way.bridge) => {
            network.wiring.via.as_ref() == Some(&way.via)
        }
        Ok(_) | Err(_) => true,
    })
}

/// Whether that is another value than before.
fn replace<V: PartialEq>(all: &mut BTreeMap<Key, V>, key: &Key, now: Option<V>) -> bool {
    if all.get(key) == now.as_ref() {
        return false;
    }
    match now {
        Some(now) => all.insert(key.clone(), now),
        None => all.remove(key),
    };
    true
}

fn has_way(wiring: &Wiring) -> bool {
    wiring.via.is_some()
}

fn way_of(network: &Network) -> Result<Option<WayOut>> {
    match network.stage {
        Stage::Template => Ok(None),
        _ => WayOut::of_network(network),
    }
}
