//! The long-lived work in a cloud: ports made ahead of need, and the search for resources without
//! an owner on this host. One thread does both, so that neither sees the other's work half done.

mod port_update;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use config::Level;
use docker::kuryr;
use host::cloud::{PASSED_OVER, facts, listed};
use host::event::{Event, What};
use host::host_context::HostContext;
use host::time;
use model::{Error, Result};
use neutron::Neutron;
use neutron::notifier::{Notifier, Woken};
use neutron::reconcile::{Breadth, Fate, GRACE, Orphan, Removed, Sweep};
use neutron::stock::{Filler, Round};
use neutron::watch::Call;

use super::{Daemon, STACK};

/// How often Neutron is compared with the store. A list of a host's ports is cheap for us, and not
/// for a Neutron of many hosts.
const PERIOD: Duration = Duration::from_secs(300);

/// How soon again where Neutron did not answer.
const AGAIN: Duration = Duration::from_secs(60);

/// How long a Docker Engine has to list its networks.
const LISTING: Duration = Duration::from_secs(10);

/// Resources beside ports are checked at every so many checks.
const SELDOM: u32 = 12;

/// The state of this thread.
struct Keeper<'a> {
    daemon: &'a Daemon,
    neutron: &'a Neutron,
    filler: Option<Filler<'a>>,
    sweep: Sweep,
    looks: u32,
    next: Instant,
    /// Whether it was reported that Docker cannot use the ready ports.
    is_passed_over: bool,
    /// Whether the last check, or round, failed: that is reported once.
    is_troubled: bool,
}

/// Keeps ports ready and finds what was left behind, until the daemon stops.
pub(super) fn keep(daemon: &Daemon) {
    let Some(neutron) = opened(daemon) else { return };
    neutron.watched_by({
        let journal = Arc::clone(&daemon.journal);
        move |call| {
            journal.metrics.neutron(call.verb.as_str(), call.collection, &result(call), call.took)
        }
    });
    let notifier = match neutron.notifier() {
        Ok(notifier) => notifier,
        Err(error) => return daemon.journal.failed("watching the stock of ports", &error),
    };
    let keeper = Keeper {
        daemon,
        neutron: &neutron,
        filler: None,
        sweep: Sweep::default(),
        looks: 0,
        next: Instant::now(),
        is_passed_over: false,
        is_troubled: false,
    };
    thread::scope(|scope| {
        let worker = || port_update::keep(daemon, &neutron);
        let thread = thread::Builder::new().name("port-updates".to_owned()).stack_size(STACK);
        // Without it who makes an attachment names its port, and waits for that.
        if let Err(cause) = thread.spawn_scoped(scope, worker) {
            let error = Error::os("starting the thread port-updates", cause);
            daemon.journal.failed("naming Neutron's ports", &error);
        }
        keeper.run(&notifier);
    });
}

/// Whether there is anything to do.
pub(super) fn is_needed(daemon: &Daemon) -> bool {
    let config = daemon.context_pool.config();
    config.kuryr.enabled || config.neutron.is_some()
}

/// Credentials may come later than the daemon.
fn opened(daemon: &Daemon) -> Option<Arc<Neutron>> {
    let mut is_reported = false;
    loop {
        match daemon.context_pool.neutron() {
            Ok(neutron) => return Some(neutron),
            Err(error) if !is_reported => daemon.journal.failed("looking for Neutron", &error),
            Err(_) => {}
        }
        is_reported = true;
        if daemon.sleep(AGAIN) {
            return None;
        }
    }
}

impl Keeper<'_> {
    fn run(mut self, notifier: &Notifier) {
        // First of all: without a filler the end of a container waits for Neutron.
        self.take_filler();
        loop {
            if self.neutron.is_left_behind() {
                self.next = self.next.min(Instant::now() + AGAIN);
            }
            if Instant::now() >= self.next {
                self.check();
            }
            let round = self.fill();
            let wait = self.next.saturating_duration_since(Instant::now()).min(round.next);
            match notifier.wait(self.daemon.stop.as_fd(), wait) {
                Ok(Woken::Stopped) => return,
                Ok(Woken::Rung | Woken::Late) => {}
                Err(error) => {
                    self.daemon.journal.failed("waiting for work", &error);
                    if self.daemon.sleep(AGAIN) {
                        return;
                    }
                }
            }
        }
    }

    fn check(&mut self) {
        let found = self.compare();
        if found.is_err() {
            // A resource that was not seen this time is searched the next time.
            self.looks = 0;
        }
        self.next = Instant::now()
            + match (&found, self.sweep.is_waiting()) {
                (Err(_), _) => AGAIN,
                (Ok(()), true) => GRACE + Duration::from_secs(1),
                (Ok(()), false) => PERIOD,
            };
        self.reported(found.err());
    }

    /// Networks that engines have removed are deleted now, whatever else is found.
    fn compare(&mut self) -> Result<()> {
        let removed = self.remove_given_up();
        self.compare_all().and(removed)
    }

    fn remove_given_up(&self) -> Result<()> {
        let with = |host_context: &HostContext| {
            kuryr::remove_given_up(&host_context.engine(), self.neutron)
        };
        let mut outcome = Ok(());
        for (id, removed) in self.daemon.context_pool.with(with)? {
            if removed.is_ok() {
                let why = format!("neutron-network of {id} is deleted: Docker has removed it");
                self.daemon.journal.metrics.finding("neutron-network", "free");
                self.daemon.journal.report(&Event::new(What::Freed, time::now(), why));
            }
            outcome = outcome.and(removed);
        }
        outcome
    }

    fn compare_all(&mut self) -> Result<()> {
        // What was seen must be seen again, or it counts as gone.
        let is_seldom = self.looks.is_multiple_of(SELDOM) || self.neutron.has_left_behind();
        let is_broad = is_seldom || !self.sweep.is_empty();
        let breadth = if is_broad { Breadth::Everything } else { Breadth::Ports };
        self.looks = self.looks.wrapping_add(1);
        let daemon = self.daemon;
        let listed = || listed(&daemon.context_pool.config().docker, LISTING);
        let facts = || {
            daemon.context_pool.with(|host_context| facts(&host_context.engine(), true, listed()))
        };
        let mut findings = self.neutron.find_orphans(breadth, &facts)?;
        if is_broad {
            // `spoke gc` removes what needs an operator's decision.
            let wide = self.neutron.find_wide_orphans(&facts)?.orphans.into_iter();
            findings.orphans.extend(wide.filter(|orphan| orphan.fate != Fate::OnlyIfForced));
        }
        let back = self.neutron.mend_stock(&findings)?;
        if back > 0 {
            let message = format!("{back} of Neutron's ports are in the stock again");
            daemon.journal.log.say(Level::Info, &message, &[]);
        }
        let due = self.sweep.due(&findings, Instant::now());
        let removed = self.neutron.remove_orphans(&due, &facts);
        daemon.journal.metrics.orphans(self.sweep.len());
        for (orphan, what) in removed? {
            self.announce(&orphan, what);
        }
        Ok(())
    }

    fn announce(&self, orphan: &Orphan, what: Removed) {
        let kind = orphan.thing.name();
        let (done, remedy) = match what {
            Removed::Deleted => ("deleted", "free"),
            Removed::Restocked => ("put back to the stock", "stock"),
            Removed::Kept => return,
        };
        self.daemon.journal.metrics.finding(kind, remedy);
        let message = format!("{kind} {} ({}) is {done}: {}", orphan.id, orphan.title, orphan.why);
        self.daemon.journal.report(&Event::new(What::Freed, time::now(), message));
    }

    fn take_filler(&mut self) {
        if self.filler.is_none() {
            self.filler = self.neutron.filler().unwrap_or_default();
        }
    }

    fn fill(&mut self) -> Round {
        self.take_filler();
        let Some(filler) = &mut self.filler else {
            return Round { next: PERIOD, ..Round::default() };
        };
        let daemon = self.daemon;
        let facts =
            || daemon.context_pool.with(|host_context| facts(&host_context.engine(), true, None));
        let round = filler.round(&|| daemon.sleep(Duration::ZERO), &facts);
        if round.is_unsure {
            self.next = self.next.min(Instant::now() + AGAIN);
        }
        self.report(&round);
        round
    }

    fn report(&mut self, round: &Round) {
        let metrics = &self.daemon.journal.metrics;
        let did = [("made", round.made), ("renewed", round.renewed), ("deleted", round.deleted)];
        for (what, count) in did {
            metrics.stocked(what, count);
        }
        if let Ok(levels) = self.neutron.stock_levels() {
            metrics.stock(&levels);
        }
        self.report_passed_over();
        if did.iter().any(|(_, count)| *count > 0) || !round.failures.is_empty() {
            let message = did.map(|(what, count)| format!("{count} {what}")).join(", ");
            let message = format!("ports of the stock: {message}");
            self.daemon.journal.log.say(Level::Debug, &message, &[]);
            let first = round.failures.first();
            self.reported(first.map(|error| Error::new(error.kind(), error.to_string())));
        }
    }

    fn report_passed_over(&mut self) {
        let is_passed_over = self.neutron.is_stock_passed_over();
        if is_passed_over && !self.is_passed_over {
            let event = Event::new(What::Failed, time::now(), PASSED_OVER.to_owned());
            self.daemon.journal.report(&event);
        }
        self.is_passed_over = is_passed_over;
    }

    /// A failure is reported when it begins and when it ends; those in between are debug messages.
    fn reported(&mut self, trouble: Option<Error>) {
        let journal = &self.daemon.journal;
        match (&trouble, self.is_troubled) {
            (Some(error), false) => journal.failed("keeping Neutron's ports", error),
            (Some(error), true) => journal.log.say(Level::Debug, &error.to_string(), &[]),
            (None, true) => journal.log.say(Level::Info, "Neutron's ports are kept again", &[]),
            (None, false) => {}
        }
        self.is_troubled = trouble.is_some();
    }
}

/// The status, where there is one.
fn result(call: &Call<'_>) -> String {
    match call.failure {
        None => "ok".to_owned(),
        Some(error) => error.status().map_or("unanswered".to_owned(), |status| status.to_string()),
    }
}
