//! Watches changes of this host by other programs: restores the packet filter when it is removed,
//! and reports networks on the addresses of another.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use host::event::{Event, What};
use host::host_context::HostContext;
use host::rivals::{News as Contest, Rivals};
use host::time;
use host::views::Clash;
use linux::Concern;
use model::{Network, Result};
use netlink::nft::{News, Object};
use netlink::{Event as Change, Monitor, Wake};

use super::Daemon;
use super::masquerade::Unanswered;

/// Changes that belong together come this close to each other.
const APART: Duration = Duration::from_millis(50);

/// However many changes come, this long after the first it is time to act.
const LATEST: Duration = Duration::from_millis(300);

/// The interval of checks for changes without notifications, such as the old iptables.
const SWEEP: Duration = Duration::from_secs(10);

/// The delay of a check after a change that is mostly a container's ordinary end.
const SOON: Duration = Duration::from_secs(1);

/// How long to wait before listening again, when the kernel cannot be listened to.
const AGAIN: Duration = Duration::from_secs(5);

const CONTEST_OVER: &str = "what was put back stays: nothing removes it any more";

/// The effect of a change of the ruleset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// Nothing.
    None,
    /// Perhaps a loss: elements of Spoke's were removed, as at the end of a container.
    Perhaps,
    /// The rules that accept Spoke's packets may have changed, in Spoke's table or another one.
    Passage,
    /// Our table, or a part of it.
    Table,
}

/// The notifications, subscribed before the first thing is made, so that nothing is missed.
pub(super) struct Subscriptions {
    ruleset: Monitor,
    network: Monitor,
}

impl Subscriptions {
    /// Subscribes to everything from now on.
    pub(super) fn open() -> Result<Self> {
        Ok(Self { ruleset: Monitor::ruleset()?, network: Monitor::network()? })
    }

    /// Each for a thread of its own.
    pub(super) fn split(self) -> (Monitor, Monitor) {
        (self.ruleset, self.network)
    }
}

/// Restores the packet filter whenever it is removed, until the daemon stops.
pub(super) fn filter(daemon: &Daemon, monitor: Monitor) {
    let mut rivals = Rivals::default();
    let mut heard = filter_until_lost(daemon, monitor, &mut rivals);
    while let Err(error) = heard {
        daemon.journal.failed("watching the packet filter", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
        heard = Monitor::ruleset().and_then(|monitor| {
            restore(daemon, &mut rivals);
            filter_until_lost(daemon, monitor, &mut rivals)
        });
    }
}

fn filter_until_lost(daemon: &Daemon, mut monitor: Monitor, rivals: &mut Rivals) -> Result<()> {
    let mut due = Instant::now() + SWEEP;
    loop {
        let remaining = due.saturating_duration_since(Instant::now());
        let loss = match monitor.wait(&daemon.stop, remaining)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => Loss::Perhaps,
            Wake::Lost => Loss::Table,
            Wake::News(news) => match loss(&news) {
                Loss::None => continue,
                Loss::Perhaps => {
                    due = due.min(Instant::now() + SOON);
                    continue;
                }
                worse @ (Loss::Passage | Loss::Table) => worse,
            },
        };
        let began = Instant::now();
        // While our table is away, what it keeps shut is open: that waits for nothing.
        let at_once = (loss == Loss::Table).then(|| restore(daemon, rivals)).flatten();
        let Some(news) = settle(&mut monitor, daemon)? else { return Ok(()) };
        let mut heard = loss.max(self::loss(&news));
        let mut healed = restore(daemon, rivals);
        let took = at_once.or_else(|| healed.map(|_| began.elapsed()));
        if healed.is_some() && heard < Loss::Table {
            // Restored parts may have been removed while this began: their notifications come now.
            let Some(news) = settle(&mut monitor, daemon)? else { return Ok(()) };
            heard = heard.max(self::loss(&news));
            healed = restore(daemon, rivals).or(healed);
        }
        match (took.or(healed), heard) {
            // The table goes with its last user, and comes with the next: that is no loss.
            (Some(took), Loss::Table) => report_healed(daemon, took),
            // The notification of its loss came before the pause.
            (Some(_), _) if rivals.is_contested() => daemon.journal.metrics.heal(),
            (_, _) => {}
        }
        due = next(rivals);
    }
}

/// Reads the rest of what belongs together; `None` where the daemon stops.
fn settle(monitor: &mut Monitor, daemon: &Daemon) -> Result<Option<BTreeSet<Change>>> {
    let began = Instant::now();
    let mut all = BTreeSet::new();
    while began.elapsed() < LATEST {
        match monitor.wait(&daemon.stop, APART)? {
            Wake::Stopped => return Ok(None),
            Wake::Quiet => break,
            Wake::Lost => {}
            Wake::News(mut news) => all.append(&mut news),
        }
    }
    Ok(Some(all))
}

fn loss(news: &BTreeSet<Change>) -> Loss {
    let of = |change: &Change| match change {
        Change::Ruleset(news) => loss_by(change, news),
        Change::Address | Change::Route | Change::Link | Change::Rule => Loss::None,
    };
    news.iter().map(of).max().unwrap_or(Loss::None)
}

fn loss_by(change: &Change, news: &News) -> Loss {
    match Concern::of(change) {
        // An addition to Spoke's table most likely comes from another process of Spoke's.
        Some(Concern::Table) if news.gone => Loss::Table,
        Some(Concern::Table) => Loss::Passage,
        Some(Concern::Elements) if news.object == Object::Elements => Loss::Perhaps,
        Some(Concern::Elements) => Loss::Passage,
        Some(Concern::Lan) | None => Loss::None,
    }
}

/// The time of the next check for changes without notifications, or of contested parts.
fn next(rivals: &Rivals) -> Instant {
    let (now, sweep) = (Instant::now(), Instant::now() + SWEEP);
    rivals.next(now).map_or(sweep, |due| due.min(sweep))
}

/// Restores what is missing and due, and says how long that took; `None` where nothing was.
fn restore(daemon: &Daemon, rivals: &mut Rivals) -> Option<Duration> {
    let began = Instant::now();
    let restored =
        daemon.context_pool.with(|host_context| host_context.restore_due(&mut rivals.pass(began)));
    match rivals.news(began) {
        Some(Contest::Contested(sentence)) => report(daemon, What::Contested, sentence),
        Some(Contest::Over) => report(daemon, What::ContestOver, CONTEST_OVER.to_owned()),
        None => {}
    }
    match restored {
        Ok(was_missing) => was_missing.then(|| began.elapsed()),
        Err(error) => {
            daemon.journal.failed("putting the packet filter back", &error);
            None
        }
    }
}

fn report(daemon: &Daemon, what: What, sentence: String) {
    daemon.journal.report(&Event::new(what, time::now(), sentence));
}

fn report_healed(daemon: &Daemon, took: Duration) {
    daemon.journal.metrics.heal();
    let message = format!(
        "another program removed our packet filter; it was put back within {} ms",
        took.as_millis()
    );
    report(daemon, What::Healed, message);
}

/// Compares the addresses of this host's networks whenever some change, until the daemon stops.
pub(super) fn network(daemon: &Daemon, monitor: Monitor) {
    let mut compared = Compared::default();
    let mut heard = network_until_lost(daemon, monitor, &mut compared);
    while let Err(error) = heard {
        daemon.journal.failed("watching this host's addresses", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
        heard = Monitor::network()
            .and_then(|monitor| network_until_lost(daemon, monitor, &mut compared));
    }
}

fn network_until_lost(
    daemon: &Daemon,
    mut monitor: Monitor,
    compared: &mut Compared,
) -> Result<()> {
    loop {
        compared.compare(daemon);
        if !is_changed(&mut monitor, daemon)? {
            return Ok(());
        }
        if settle(&mut monitor, daemon)?.is_none() {
            return Ok(());
        }
        if let Err(error) = daemon.context_pool.with(HostContext::refresh_lan) {
            daemon.journal.failed("learning which subnets are connected", &error);
        }
    }
}

/// Waits for a change of addresses or routes; `false` where the daemon stops. Networks that only a
/// file declares are checked now and then.
fn is_changed(monitor: &mut Monitor, daemon: &Daemon) -> Result<bool> {
    loop {
        match monitor.wait(&daemon.stop, SWEEP)? {
            Wake::Stopped => return Ok(false),
            Wake::Quiet | Wake::Lost => return Ok(true),
            Wake::News(news) => {
                if news.iter().any(|change| matches!(change, Change::Address | Change::Route)) {
                    return Ok(true);
                }
            }
        }
    }
}

/// What is compared with this host's addresses and routes: all of it with one reading of the book.
#[derive(Debug, Default)]
struct Compared {
    clashes: Clashes,
    unanswered: Unanswered,
    failed: bool,
}

impl Compared {
    fn compare(&mut self, daemon: &Daemon) {
        match self.compare_all(daemon) {
            Ok(()) => self.failed = false,
            Err(error) if !self.failed => {
                self.failed = true;
                daemon.journal.failed("reading the networks of this host", &error);
            }
            Err(_) => {}
        }
    }

    fn compare_all(&mut self, daemon: &Daemon) -> Result<()> {
        let pool = &daemon.context_pool;
        let networks = pool.with(|host_context| host_context.engine().records.networks())?;
        self.clashes.compare(daemon, &networks);
        let all =
            pool.with(|host_context| Ok(host_context.engine().records.with_described(networks)))?;
        self.unanswered.compare(daemon, &all);
        Ok(())
    }
}

/// The reported clashes.
#[derive(Debug, Default)]
struct Clashes {
    reported: BTreeSet<Clash>,
    failed: bool,
}

impl Clashes {
    fn compare(&mut self, daemon: &Daemon, networks: &[Network]) {
        let clashes = daemon.views.clashes;
        let found = daemon.context_pool.with(|host_context| {
            clashes(&|| Ok(host_context.engine()), daemon.context_pool.config(), networks)
        });
        match found {
            Ok(found) => {
                self.failed = false;
                daemon.journal.metrics.clashes(found.len());
                for event in self.changes(found) {
                    daemon.journal.report(&event);
                }
            }
            Err(error) if !self.failed => {
                self.failed = true;
                daemon.journal.failed("comparing the subnets of this host's networks", &error);
            }
            Err(_) => {}
        }
    }

    fn changes(&mut self, found: BTreeSet<Clash>) -> Vec<Event> {
        let no_longer =
            |clash: &Clash| event(What::ClashOver, format!("no longer: {}", clash.sentence), clash);
        let over: Vec<Event> = self.reported.difference(&found).map(no_longer).collect();
        let new = found.difference(&self.reported);
        let new = new.map(|clash| event(What::Clash, clash.sentence.clone(), clash));
        let events = new.chain(over).collect();
        self.reported = found;
        events
    }
}

/// It names its networks, so that who reads it learns what they are called by then.
fn event(what: What, message: String, clash: &Clash) -> Event {
    let mut networks = clash.networks.iter();
    let event = Event::new(what, time::now(), message);
    let event = match networks.next() {
        Some((network, runtime)) => event.on(network, *runtime),
        None => event,
    };
    Event { other_network: networks.next().map(|(network, _)| network.to_string()), ..event }
}

#[cfg(test)]
mod tests {
    use model::Runtime;
    use netlink::nft::Family;

    use super::*;

    #[test]
    fn knows_what_is_a_loss() {
        let (ours, theirs) = ((Family::Inet, "spoke"), (Family::Ipv4, "filter"));
        for (gone, object, (family, table), chain, expected) in [
            (true, Object::Table, ours, "", Loss::Table),
            (true, Object::Rule, ours, "forward", Loss::Table),
            (false, Object::Rule, ours, "forward", Loss::Passage),
            (true, Object::Elements, ours, "", Loss::Perhaps),
            (false, Object::Elements, ours, "", Loss::None),
            (false, Object::Table, ours, "", Loss::None),
            (true, Object::Chain, theirs, "FORWARD", Loss::Passage),
            (true, Object::Rule, theirs, "DOCKER", Loss::None),
        ] {
            let (table, chain) = (table.to_owned(), chain.to_owned());
            let change =
                Change::Ruleset(News { object, gone, family, table, chain, set: String::new() });
            assert_eq!(loss(&BTreeSet::from([change.clone()])), expected, "{change:?}");
        }
    }

    #[test]
    fn tells_each_clash_once() {
        let mut clashes = Clashes::default();
        let mut reported = |found: &[&str]| -> Vec<String> {
            let clash = |sentence: &&str| Clash {
                sentence: (*sentence).to_owned(),
                networks: vec![("front".parse().unwrap(), Runtime::Docker)],
            };
            let events = clashes.changes(found.iter().map(clash).collect());
            assert!(events.iter().all(|event| event.network.as_deref() == Some("front")));
            events.iter().map(|event| format!("{} {}", event.event.name(), event.message)).collect()
        };
        assert_eq!(reported(&["a", "b"]), ["clash a", "clash b"]);
        assert!(reported(&["a", "b"]).is_empty());
        assert_eq!(reported(&["b", "c"]), ["clash c", "clash-over no longer: a"]);
    }
}
