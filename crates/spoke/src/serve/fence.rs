//! The fences of networks: kept in the packet filter, opened for names, and heard when they refuse.

mod gate;
mod memory;
mod refused;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::port::{Key, Prefix, Record};
use linux::filter::fence::{self, Fenced};
use model::{IfName, Network, Result};
use netlink::nft::{News, Object};
use netlink::{Event as Change, Monitor, Socket, Wake};
use store::{Changed, Watch};

pub(crate) use gate::{Counts, FenceGate};

use super::Daemon;
use crate::event::{Event, What};
use crate::host;

/// How often records are looked after, and the whole table where nobody reports a change.
const GLANCE: Duration = Duration::from_millis(250);
const SWEEP: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(5);
/// The name of the table, as changes report it.
const TABLE: &str = "spoke_fence";

/// The networks that have fences.
#[derive(Default)]
struct Fences {
    /// As each record says.
    recorded: BTreeMap<Key, Fenced>,
    /// What holds on each bridge: a network that a command declared is that, whatever a runtime's
    /// configuration says of it. Of several networks on one bridge the first holds.
    networks: BTreeMap<IfName, Fenced>,
    /// Whether each was learning when it was looked at last.
    learning: BTreeMap<IfName, bool>,
    /// Of which networks fences were put back, in how many microseconds.
    healed: Option<(Vec<IfName>, u128)>,
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
    let store = crate::host_context::open_store(daemon.context_pool.config())?;
    let mut watch = store.watch(&[Prefix::Networks, Prefix::Configured])?;
    let mut socket = Socket::netfilter()?;
    let mut fences = Fences::default();
    fences.learn_records(daemon, &mut watch, &mut socket)?;
    fences.heal(daemon, &mut socket);
    daemon.fence.remember(&mut socket);
    let mut swept = Instant::now();
    loop {
        let is_damaged = match monitor.wait(&daemon.stop, GLANCE)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => swept.elapsed() > SWEEP,
            Wake::Lost => true,
            Wake::News(news) => news.iter().any(damages) || swept.elapsed() > SWEEP,
        };
        // Rules are recorded before the kernel follows: what is put back are those of now.
        fences.learn_records(daemon, &mut watch, &mut socket)?;
        if is_damaged {
            swept = Instant::now();
            fences.heal(daemon, &mut socket);
        }
        if !is_damaged {
            fences.report_healed(daemon);
        }
        fences.end_learning(daemon, &mut socket);
    }
}

/// Whether a change by another program may have taken something from the table.
fn damages(change: &Change) -> bool {
    let Change::Ruleset(News { object, gone, table, .. }) = change else { return false };
    let is_rules = matches!(object, Object::Table | Object::Chain | Object::Rule);
    table == TABLE && (*gone || is_rules)
}

impl Fences {
    /// What has changed in the records. Another process may have made the kernel follow already; what it
    /// opened by the old rules since is closed now.
    fn learn_records(
        &mut self,
        daemon: &Daemon,
        watch: &mut Watch,
        socket: &mut Socket,
    ) -> Result<()> {
        for Changed { key, now } in watch.wait(Duration::ZERO)? {
            let network = match now.map(|now| now.record) {
                Some(Record::Network(network)) => fenced(daemon, &network),
                _ => None,
            };
            match network {
                Some(fenced) => self.recorded.insert(key, fenced),
                None => self.recorded.remove(&key),
            };
        }
        let now = holding(&self.recorded);
        let before = std::mem::replace(&mut self.networks, now.clone());
        for (bridge, fenced) in &now {
            if before.get(bridge) != Some(fenced) {
                let done = self.renew(daemon, fenced, socket);
                done.unwrap_or_else(|error| failed(daemon, &error));
            }
        }
        for bridge in before.keys().filter(|bridge| !now.contains_key(*bridge)) {
            let done = fence::forget_bridge(socket, bridge);
            done.unwrap_or_else(|error| failed(daemon, &error));
        }
        Ok(())
    }

    fn renew(&mut self, daemon: &Daemon, fenced: &Fenced, socket: &mut Socket) -> Result<()> {
        let now = host::now();
        let is_learning = fenced.fence.is_learning(now);
        self.learning.insert(fenced.bridge.clone(), is_learning);
        fence::keep(socket, fenced, Some(now))?;
        daemon.fence.forget_names(fenced);
        if is_learning { Ok(()) } else { fence::prune(socket, fenced) }
    }

    /// Makes what is missing, opens again what was open, and ends what began meanwhile.
    fn heal(&mut self, daemon: &Daemon, socket: &mut Socket) {
        let began = Instant::now();
        let all: Vec<Fenced> = self.networks.values().cloned().collect();
        if all.is_empty() {
            return;
        }
        let healed = self.put_back(daemon, &all, socket);
        match healed {
            Ok(false) => {}
            Ok(true) => {
                let bridges = self.networks.keys().cloned().collect();
                self.healed = Some((bridges, began.elapsed().as_micros()));
            }
            Err(error) => daemon.journal.failed("putting the fences of networks back", &error),
        }
    }

    /// Reports what was put back, unless a network was being removed: that begins with its fence.
    fn report_healed(&mut self, daemon: &Daemon) {
        let Some((bridges, took)) = self.healed.take() else { return };
        if bridges.iter().all(|bridge| self.networks.contains_key(bridge)) {
            let message = format!(
                "somebody took the fences of networks away; they were put back in {took} µs"
            );
            daemon.journal.metrics.heal();
            daemon.journal.report(&Event::new(What::Healed, host::now(), message));
        }
    }

    fn put_back(&self, daemon: &Daemon, all: &[Fenced], socket: &mut Socket) -> Result<bool> {
        if fence::is_kept(socket, all)? {
            return Ok(false);
        }
        // All are shut before one is opened again.
        for fenced in all {
            fence::keep(socket, fenced, Some(host::now()))?;
        }
        daemon.fence.open_again(socket)?;
        for fenced in all.iter().filter(|fenced| !fenced.fence.is_learning(host::now())) {
            fence::end_flows(socket, fenced, &|opening| daemon.fence.knows(opening))?;
        }
        Ok(true)
    }

    /// Ends what began while a network learned, when that is over.
    fn end_learning(&mut self, daemon: &Daemon, socket: &mut Socket) {
        let now = host::now();
        for (bridge, fenced) in &self.networks {
            let is_learning = fenced.fence.is_learning(now);
            let was_learning = self.learning.insert(bridge.clone(), is_learning).unwrap_or(false);
            if was_learning && !is_learning {
                let message =
                    format!("network {} refuses again what its rules do not allow", fenced.network);
                daemon.journal.report(&Event::new(What::Other, now, message));
                // The kernel may count a moment longer, in which ended flows would begin again.
                let pruned = fence::keep(socket, fenced, Some(now))
                    .and_then(|()| fence::prune(socket, fenced));
                pruned.unwrap_or_else(|error| {
                    daemon.journal.failed("ending what was learned", &error)
                });
            }
        }
    }
}

fn holding(recorded: &BTreeMap<Key, Fenced>) -> BTreeMap<IfName, Fenced> {
    let mut all = BTreeMap::new();
    for (key, fenced) in recorded {
        let is_declared = matches!(key, Key::Network(_));
        if is_declared || !recorded.contains_key(&Key::Network(fenced.network.clone())) {
            all.entry(fenced.bridge.clone()).or_insert_with(|| fenced.clone());
        }
    }
    all
}

fn failed(daemon: &Daemon, error: &model::Error) {
    daemon.journal.failed("keeping the fence of a network", error);
}

fn fenced(daemon: &Daemon, network: &Network) -> Option<Fenced> {
    if network.stage == model::Stage::Template {
        return None;
    }
    let fenced = Fenced::of(&network.name, &network.wiring, &network.ipam);
    fenced.unwrap_or_else(|error| {
        daemon.journal.failed("keeping the fence of a network", &error);
        None
    })
}
