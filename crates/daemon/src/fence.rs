//! The fences of networks: kept in the packet filter, opened for names, and heard when they refuse.

mod gate;
mod heal;
mod memory;
mod own;
mod records;
mod refused;
mod strict;
mod unread;
mod unread_ports;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use engine::port::{Key, Prefix, Record};
use linux::filter::fence::{self, Fenced};
use model::{AttachmentId, IfName, Layer, Network, Result, Wiring};
use netlink::nft::{Family, News, Object};
use netlink::{Event as Change, Monitor, Socket, Wake};
use store::{Changed, Watch};

pub(crate) use gate::{Counts, FenceGate};
use host::event::{Event, What};
use host::time;

use super::recorded::{Declared, by_bridge};
use super::{Daemon, remains};
use own::{FencedContainer, PRESENT};
use unread_ports::UnreadPorts;

/// How often records are looked after, and the whole table without a report of a change.
const GLANCE: Duration = Duration::from_millis(250);
const SWEEP: Duration = Duration::from_secs(10);
/// The same after others have added elements to sets.
const SOON: Duration = Duration::from_secs(1);
/// How often it is noted again which flows were opened by names.
const NOTED: Duration = Duration::from_secs(3600);
const AGAIN: Duration = Duration::from_secs(5);
/// The name of the table, as changes report it.
const TABLE: &str = "spoke_fence";
/// That of the one that checks what ports send.
const PORTS: &str = "spoke";
/// Its sets that say which containers have rules.
const RULED: [&str; 3] = ["bound", "linked", "shut"];

/// The networks that have fences.
#[derive(Default)]
struct Fences {
    /// Whether the records have been read once.
    has_learned: bool,
    /// As each record says.
    recorded: BTreeMap<Key, Fenced>,
    declared: Declared,
    /// What holds on each bridge: a network that a command declared is that, whatever a runtime's
    /// configuration says of it. Of several networks on one bridge the first holds.
    networks: BTreeMap<IfName, Fenced>,
    /// Containers with rules of their own, and those of them for which the last attempt failed.
    own: BTreeMap<AttachmentId, FencedContainer>,
    unfinished_own: BTreeSet<AttachmentId>,
    /// Whether one of them needs something else of its bridge than before.
    has_less: bool,
    /// Those of them that were learning when they were looked at last.
    learning_own: BTreeSet<AttachmentId>,
    /// Those for which the last attempt failed.
    unfinished: BTreeSet<IfName>,
    /// Whether each was learning when it was looked at last.
    learning: BTreeMap<IfName, bool>,
    /// Whether the last healing failed: it is reported once, and done again at the next look.
    is_failing: bool,
    /// Whether a strict bridge was not complete after the last healing: that is looked after again soon.
    is_waiting: bool,
    /// Those that were not, at the last look.
    waiting: BTreeSet<IfName>,
    /// Whether others had changed something that is not put back yet, or not reported.
    is_damaged: bool,
    /// Ports of containers whose records cannot be read.
    unread_ports: UnreadPorts,
    /// Of which networks fences were put back, in how many microseconds, and when.
    healed: Option<(Vec<IfName>, u128, Instant)>,
}

/// Keeps the fences of all networks until the daemon stops; they stay when it ends.
pub(super) fn keep(daemon: &Daemon) {
    while let Err(error) = keep_until_lost(daemon) {
        daemon.journal.failed("keeping the fences of networks", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

/// Records what fences refuse, until the daemon stops.
pub(super) fn hear(daemon: &Daemon) {
    while let Err(error) = refused::hear_until_lost(daemon) {
        daemon.journal.failed("hearing what the fences of networks refuse", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

fn keep_until_lost(daemon: &Daemon) -> Result<()> {
    let mut monitor = Monitor::ruleset()?;
    let store = host::host_context::open_store(daemon.context_pool.config())?;
    let mut watch = store.watch(&[Prefix::Networks, Prefix::Configured, Prefix::Attachments])?;
    let mut socket = Socket::netfilter()?;
    let mut fences = Fences::default();
    // What an earlier process of the daemon opened is Spoke's.
    daemon.fence.remember(&mut socket);
    // Before the records: a network that comes meanwhile is recorded before it is fenced.
    let there = fence::fenced_bridges(&mut socket);
    let strict = fence::strict_bridges();
    // Before the records put back what was lost.
    fences.shut_at_once(daemon, &mut socket);
    fences.learn_records(daemon, &mut watch, &mut socket)?;
    fences.clear_remains(daemon, there, &mut socket);
    fences.relax(daemon, strict, &mut socket);
    fences.heal(daemon, &mut watch, &mut socket);
    let (mut swept, mut looked, mut noted) = (Instant::now(), Instant::now(), Instant::now());
    let mut sweep = SWEEP;
    loop {
        let is_changed = match monitor.wait(&daemon.stop, GLANCE)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => false,
            Wake::Lost => true,
            Wake::News(news) => {
                let is_added = news.iter().any(adds);
                sweep = if is_added { SOON } else { sweep };
                if news.iter().any(unrules) {
                    fences.shut_at_once(daemon, &mut socket);
                }
                news.iter().any(damages)
            }
        };
        // A record may be mended by removing it: a file that was damaged from the beginning is no record that ends.
        let is_shut = !daemon.fence.shut().is_empty() || fences.unread_ports.is_any();
        let is_to_look = is_shut && looked.elapsed() > SOON;
        looked = if is_to_look { Instant::now() } else { looked };
        let is_due = swept.elapsed() > sweep
            || is_to_look && !fences.is_unread_as_before(daemon, &mut socket);
        let is_damaged = is_changed || fences.is_failing || fences.is_waiting || is_due;
        let there = is_due.then(|| fence::fenced_bridges(&mut socket));
        let strict = (is_due || fences.has_strict()).then(fence::strict_bridges);
        // Rules are recorded before the kernel follows: what is put back are those of now.
        let has_news = fences.learn_records(daemon, &mut watch, &mut socket)?;
        // It may be the record that could not be read.
        let is_damaged = is_damaged || has_news && is_shut;
        if let Some(there) = there {
            fences.clear_remains(daemon, there, &mut socket);
        }
        if let Some(strict) = strict {
            fences.relax(daemon, strict, &mut socket);
        }
        if is_changed {
            fences.unread_ports.ask();
        }
        if is_damaged {
            (swept, sweep) = (Instant::now(), SWEEP);
            fences.heal(daemon, &mut watch, &mut socket);
        }
        if !is_damaged {
            fences.report_healed(daemon);
        }
        fences.end_learning(daemon, &mut socket)?;
        if noted.elapsed() > NOTED {
            noted = Instant::now();
            let all: Vec<Fenced> = fences.networks.values().cloned().collect();
            let own = fences.own_in(&PRESENT);
            fence::keep_known(&mut socket, &all, &own)?;
        }
    }
}

/// Whether a change by another program may have taken something from the table. What names opened comes and goes:
/// that is looked after soon ([`adds`]).
fn damages(change: &Change) -> bool {
    let Change::Ruleset(News { object, gone, family, table, set, .. }) = change else {
        return false;
    };
    let is_rules = matches!(object, Object::Table | Object::Chain | Object::Rule);
    if *family == Family::Bridge && table == PORTS {
        return is_rules && *gone;
    }
    let is_opening = *object == Object::Elements && fence::is_of_openings(set);
    table == TABLE && (is_rules || *gone && !is_opening)
}

/// Whether another program may have taken from the table that checks ports what says which containers have rules.
fn unrules(change: &Change) -> bool {
    let Change::Ruleset(News { object, gone, family, table, set, .. }) = change else {
        return false;
    };
    let is_ports = *family == Family::Bridge && table == PORTS;
    is_ports && *object == Object::Elements && *gone && RULED.contains(&set.as_str())
}

/// Whether another program may have put something into a set, or changed what names opened.
fn adds(change: &Change) -> bool {
    let Change::Ruleset(News { object, table, .. }) = change else { return false };
    table == TABLE && *object == Object::Elements
}

impl Fences {
    /// What has changed in the records, and whether anything has. Another process may have made the kernel follow
    /// already; what it opened by the old rules since is closed now.
    fn learn_records(
        &mut self,
        daemon: &Daemon,
        watch: &mut Watch,
        socket: &mut Socket,
    ) -> Result<bool> {
        let unfinished = std::mem::take(&mut self.unfinished_own);
        let mut changed = unfinished.clone();
        let news = watch.wait(Duration::ZERO)?;
        let is_changed = !news.is_empty();
        let has_news = is_changed || !self.unfinished.is_empty();
        for Changed { key, now } in news {
            let now = now.map(|now| now.record);
            match &key {
                Key::Attachment(id, Layer::Link) => {
                    if self.learn_own(daemon, id, now) {
                        changed.insert(id.clone());
                    }
                }
                Key::Attachment(..) => {}
                _ => self.learn_network(daemon, key, now),
            }
        }
        let now = by_bridge((&self.recorded, &self.declared), |it| (&it.network, &it.bridge));
        if !std::mem::replace(&mut self.has_learned, true) {
            let before = std::mem::replace(&mut self.networks, now.clone());
            self.shut_lost_before(daemon, socket);
            self.networks = before;
        }
        let is_less = self.renew_own(daemon, (changed, unfinished), socket);
        let before = std::mem::replace(&mut self.networks, now.clone());
        if is_less && let Err(error) = daemon.fence.settle_own(socket) {
            self.has_less = true;
            failed(daemon, &error);
        }
        for (bridge, fenced) in &now {
            if before.get(bridge) == Some(fenced) && !self.unfinished.contains(bridge) {
                continue;
            }
            match self.renew(daemon, fenced, socket) {
                Ok(()) => drop(self.unfinished.remove(bridge)),
                Err(error) => self.fail(daemon, bridge, &error),
            }
        }
        for fenced in before.into_values().filter(|it| !now.contains_key(&it.bridge)) {
            match has_news {
                true => self.forget(daemon, fenced, socket),
                // Its bridge still has containers: that asks for every record, and nothing has changed.
                false => drop(self.networks.insert(fenced.bridge.clone(), fenced)),
            }
        }
        Ok(is_changed)
    }

    fn learn_network(&mut self, daemon: &Daemon, key: Key, now: Option<Record>) {
        self.declared.note(&key, now.is_some());
        let network = match now {
            Some(Record::Network(network)) => fenced(&network),
            _ => Ok(None),
        };
        match network {
            Ok(Some(fenced)) => drop(self.recorded.insert(key, fenced)),
            Ok(None) => drop(self.recorded.remove(&key)),
            // What was recorded holds on.
            Err(error) => failed(daemon, &error),
        }
    }

    /// It is done again at the next look, and reported once.
    fn fail(&mut self, daemon: &Daemon, bridge: &IfName, error: &model::Error) {
        if self.unfinished.insert(bridge.clone()) {
            failed(daemon, error);
        }
    }

    /// Removes a fence whose network is gone, or has none any more. A record that could not be read just
    /// now is no proof of that, nor is a network without a record that has attachments.
    fn forget(&mut self, daemon: &Daemon, fenced: Fenced, socket: &mut Socket) {
        let bridge = fenced.bridge.clone();
        let is_over = remains::is_over(daemon, (&fenced.network, &bridge), has_fence);
        let forgotten = is_over.and_then(|is_over| match is_over {
            true => fence::unfence(socket, &bridge)
                .and_then(|()| daemon.fence.settle_own(socket))
                .map(|()| true),
            false => Ok(false),
        });
        match forgotten {
            Ok(true) => drop(self.unfinished.remove(&bridge)),
            Ok(false) => drop(self.networks.insert(bridge, fenced)),
            Err(error) => {
                self.fail(daemon, &bridge, &error);
                self.networks.insert(bridge, fenced);
            }
        }
    }

    /// Removes the fences of bridges of which no record says that they have one: a process was killed in between,
    /// or made what its network's configuration does not say any more. `there`: the bridges that were fenced before
    /// the records were read.
    fn clear_remains(&self, daemon: &Daemon, there: Result<Vec<IfName>>, socket: &mut Socket) {
        let is_known = |bridge: &IfName| self.networks.contains_key(bridge);
        let unfence = |bridge: &IfName| fence::unfence(socket, bridge);
        if let Err(error) = remains::clear(daemon, there, (is_known, has_fence), unfence) {
            daemon.journal.failed("clearing the fences of networks that have none", &error);
        }
    }

    fn renew(&mut self, daemon: &Daemon, fenced: &Fenced, socket: &mut Socket) -> Result<()> {
        let now = time::moment()?;
        let is_learning = fenced.fence.is_learning(&now);
        self.learning.insert(fenced.bridge.clone(), is_learning);
        daemon.fence.forget_names(fenced, self.own.values().map(|held| &held.own));
        // What stays shut has its rules when that is over.
        if daemon.fence.shut().contains_key(&fenced.bridge) {
            return Ok(());
        }
        fence::keep(socket, &self.beside(daemon, fenced), Some(&now))?;
        if is_learning { Ok(()) } else { fence::prune(socket, fenced) }
    }

    /// A network beside its containers with rules of their own.
    fn beside(&self, daemon: &Daemon, fenced: &Fenced) -> Fenced {
        let beside = fenced.beside(self.own.values().map(|held| &held.own));
        heal::as_known(daemon.fence.unread().ok().as_ref(), beside)
    }

    /// Ends what began while a network learned, when that is over.
    fn end_learning(&mut self, daemon: &Daemon, socket: &mut Socket) -> Result<()> {
        let now = time::moment()?;
        self.end_own_learning(daemon, &now, socket);
        let shut = daemon.fence.shut();
        for (bridge, fenced) in &self.networks {
            let is_learning = fenced.fence.is_learning(&now);
            let was_learning = self.learning.insert(bridge.clone(), is_learning).unwrap_or(false);
            if was_learning && !is_learning {
                let message =
                    format!("network {} refuses again what its rules do not allow", fenced.network);
                daemon.journal.report(&Event::new(What::Other, time::now(), message));
                // What stays shut has its rules when that is over.
                if shut.contains_key(bridge) {
                    continue;
                }
                // The kernel may count a moment longer, in which ended flows would begin again.
                let pruned = fence::keep(socket, &self.beside(daemon, fenced), Some(&now))
                    .and_then(|()| fence::prune(socket, fenced));
                if let Err(error) = pruned {
                    daemon.journal.failed("ending what was learned", &error);
                    self.unfinished.insert(bridge.clone());
                }
            }
        }
        Ok(())
    }
}

fn failed(daemon: &Daemon, error: &model::Error) {
    daemon.journal.failed("keeping the fence of a network", error);
}

fn has_fence(wiring: &Wiring) -> bool {
    wiring.fence.is_some()
}

fn fenced(network: &Network) -> Result<Option<Fenced>> {
    match network.stage {
        model::Stage::Template => Ok(None),
        _ => Fenced::of(&network.name, &network.wiring, &network.ipam),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Openings end by the hundred, by other processes of Spoke, too: that asks for no look at once.
    #[test]
    fn what_names_opened_may_go() {
        let of = |object, gone, set: &str| {
            let (table, chain, set) = (TABLE.to_owned(), String::new(), set.to_owned());
            Change::Ruleset(News { object, gone, family: Family::Inet, table, chain, set })
        };
        for set in ["openings4", "openings6", "recent4", "recent6"] {
            let gone = of(Object::Elements, true, set);
            assert!(!damages(&gone) && adds(&gone), "{set}");
        }
        assert!(damages(&of(Object::Elements, true, "fenced")));
        assert!(!damages(&of(Object::Elements, false, "fenced")));
        assert!(damages(&of(Object::Set, true, "")));
        assert!(damages(&of(Object::Rule, false, "")));
    }

    /// What says which containers have rules is looked after where it goes, not where it comes.
    #[test]
    fn what_binds_ports_may_be_lost() {
        let of = |gone, family, set: &str| {
            let (table, chain, set) = (PORTS.to_owned(), String::new(), set.to_owned());
            let object = Object::Elements;
            Change::Ruleset(News { object, gone, family, table, chain, set })
        };
        for set in RULED {
            assert!(unrules(&of(true, Family::Bridge, set)), "{set}");
            assert!(!unrules(&of(false, Family::Bridge, set)), "{set}");
        }
        assert!(!unrules(&of(true, Family::Bridge, "senders")));
        assert!(!unrules(&of(true, Family::Inet, "shut")));
    }
}
