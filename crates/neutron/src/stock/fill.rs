//! Making ports ahead of need, and making those like new that came back. One process of a host does.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant, SystemTime};

use model::{Error, Kind, ResourceId, Result};

use super::make::{Done, Task, TaskResult, is_away};
use super::{StockDemand, StockFiles, Stored};
use crate::Neutron;
use crate::config::StockSettings;
use crate::facts::Facts;
use crate::pause::{Pause, Pauses};
use crate::stock_key::KeyDigest;

/// After this long without need no more ports are made for a network, and those ready are deleted,
/// although there are containers on it.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

/// The age of a half-written file whose writer is gone.
const STALE: Duration = Duration::from_secs(60);

/// How many requests the stock has under way at the same time: those that containers wait for come
/// first, and Neutron makes hardly more ports at once than one after the other.
const WORKERS: usize = 4;

/// So long after a port was wanted its container may not be in the store.
const SETTLING: Duration = Duration::from_secs(10);

/// The interval of checks without a notification, and of checks for users of the networks.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps the stock filled. There is one on a host.
pub struct Filler<'a> {
    neutron: &'a Neutron,
    settings: StockSettings,
    /// Of all: Neutron is busy or away.
    pause: Pause,
    /// Of one kind of port.
    pauses: Pauses<KeyDigest>,
    /// Of one port that came back.
    port_pauses: Pauses<ResourceId>,
    /// The time of the last check for users of the networks.
    checked: Option<Instant>,
    /// The project whose quota applies, once a port has shown it.
    project: Option<String>,
    _only: File,
}

/// The result of one round.
#[derive(Debug, Default)]
pub struct Round {
    /// How many ports were made.
    pub made: usize,
    /// How many that came back are ready again.
    pub renewed: usize,
    /// How many were deleted: there were too many, or they had been changed.
    pub deleted: usize,
    /// The failures.
    pub failures: Vec<Error>,
    /// Whether a port may have been made without an answer: [`crate::reconcile`] finds it.
    pub is_unsure: bool,
    /// When to run again without a notification.
    pub next: Duration,
}

impl Neutron {
    /// The right to fill this host's stock; `None` where no stock is kept, or another process has
    /// it.
    pub fn filler(&self) -> Result<Option<Filler<'_>>> {
        let Some(settings) = self.settings.stock.clone() else { return Ok(None) };
        let Some(only) = self.stock_files().filler()? else { return Ok(None) };
        if let Some(before) = SystemTime::now().checked_sub(STALE) {
            self.stock_files().sweep(before)?;
        }
        Ok(Some(Filler {
            neutron: self,
            settings,
            pause: Pause::default(),
            pauses: Pauses::default(),
            port_pauses: Pauses::default(),
            checked: None,
            project: None,
            _only: only,
        }))
    }
}

impl Filler<'_> {
    /// Does the present work, until `is_over`. `facts` is called where ports of a network were not
    /// wanted for long.
    pub fn round(
        &mut self,
        is_over: &(dyn Fn() -> bool + Sync),
        facts: &dyn Fn() -> Result<Facts>,
    ) -> Round {
        let now = Instant::now();
        let mut round = Round { next: IDLE, ..Round::default() };
        if let Some(remaining) = self.pause.remaining(now) {
            round.next = remaining;
            return round;
        }
        if let Err(error) = self.work(is_over, facts, &mut round) {
            round.failures.push(error);
        }
        let now = Instant::now();
        let pauses =
            [self.pause.remaining(now), self.pauses.shortest(now), self.port_pauses.shortest(now)];
        round.next = pauses.into_iter().flatten().fold(round.next, Duration::min);
        round
    }

    fn work(
        &mut self,
        is_over: &(dyn Fn() -> bool + Sync),
        facts: &dyn Fn() -> Result<Facts>,
        round: &mut Round,
    ) -> Result<()> {
        let mut tasks = self.returned()?;
        let (wanted, forgotten) = self.wanted(facts, round)?;
        self.drain(&forgotten, round)?;
        if self.pause.remaining(Instant::now()).is_some() {
            return Ok(());
        }
        let renewed = |digest: &KeyDigest, tasks: &[Task]| {
            tasks.iter().filter(|task| task.renews(digest)).count()
        };
        let mut missing = Vec::new();
        for of in &wanted {
            let level =
                self.stock_files().ready_ports(&of.digest)?.len() + renewed(&of.digest, &tasks);
            if !self.pauses.is_on(&of.digest, Instant::now()) {
                missing.extend((0..self.missing(level)).map(|at| (level + at, of)));
            }
        }
        // Empty kinds come first.
        missing.sort_by_key(|(level, _)| *level);
        self.afford(&mut missing, round);
        self.pauses.retain(|digest| wanted.iter().any(|of| of.digest == *digest));
        tasks.extend(self.makings(missing));
        // A port that Neutron does not change holds up no other.
        let failed = |task: &Task| task.port().is_some_and(|id| self.port_pauses.has_failed(id));
        tasks.sort_by_key(failed);
        self.perform(tasks, is_over, round);
        Ok(())
    }

    /// Deletes the ready ports of kinds that are no longer wanted, also where that has failed before.
    fn drain(&mut self, forgotten: &[StockDemand], round: &mut Round) -> Result<()> {
        let undrained = self.neutron.undrained()?;
        let undrained = undrained.iter().map(|digest| self.neutron.drain_ready(digest));
        let forgotten = forgotten.iter().map(|of| self.neutron.drain_key(&of.digest));
        for done in undrained.chain(forgotten) {
            let is_over = done.as_ref().err().is_some_and(is_away);
            drained(done, round);
            if is_over {
                self.pause.begin(Instant::now(), Pause::BUSY);
                break;
            }
        }
        Ok(())
    }

    /// How many more are to be made where so many are there: some ahead, so that not every container
    /// has one made.
    fn missing(&self, level: usize) -> usize {
        let StockSettings { minimum, maximum, batch, .. } = self.settings;
        let maximum = maximum.max(minimum);
        match level < minimum {
            true => batch.max(minimum - level).min(maximum - level),
            false => 0,
        }
    }

    fn returned(&mut self) -> Result<Vec<Task>> {
        let mut levels = BTreeMap::new();
        let maximum = self.settings.maximum.max(self.settings.minimum);
        let mut tasks = Vec::new();
        let returned = self.stock_files().returned()?;
        self.port_pauses.retain(|id| returned.iter().any(|of| of.port.id == *id));
        let now = Instant::now();
        for stored in returned.into_iter().filter(|of| !self.port_pauses.is_on(&of.port.id, now)) {
            let level = match levels.get_mut(&stored.key) {
                Some(level) => level,
                None => {
                    let ready = self.stock_files().ready_ports(&stored.key)?.len();
                    levels.entry(stored.key.clone()).or_insert(ready)
                }
            };
            let is_kept = *level < maximum && self.stock_files().is_wanted(&stored.key);
            *level += usize::from(is_kept);
            if is_kept {
                // Its container ends now: it may be started again.
                self.stock_files().touch(&stored.key)?;
            }
            tasks.push(if is_kept { Task::Renew(stored) } else { Task::Discard(stored) });
        }
        Ok(tasks)
    }

    /// The wanted kinds, and those that are no longer wanted: the network has had no container for
    /// some time and no runtime has a network of it, or no container was started there for very
    /// long.
    fn wanted(
        &mut self,
        facts: &dyn Fn() -> Result<Facts>,
        round: &mut Round,
    ) -> Result<(Vec<StockDemand>, Vec<StockDemand>)> {
        // A time in the future comes from a clock that was set back.
        let age = |of: &StockDemand| of.last.elapsed().unwrap_or_default();
        let (idle, settling) = (self.settings.idle, SETTLING.min(self.settings.idle));
        let all = self.stock_files().wanted()?;
        for of in all.iter().filter(|of| age(of) < idle) {
            round.next = round.next.min(idle.saturating_sub(age(of)));
        }
        let is_due = self.checked.is_none_or(|at| at.elapsed() >= IDLE);
        if !all.iter().any(|of| age(of) >= idle || is_due && age(of) >= settling) {
            return Ok((all, Vec::new()));
        }
        let users = match facts().and_then(|facts| self.neutron.users(&facts)) {
            Ok(users) => users,
            // Then nothing is known to be over.
            Err(error) => {
                round.failures.push(error);
                return Ok((all, Vec::new()));
            }
        };
        self.checked = Some(Instant::now());
        let is_kept = |of: &StockDemand| match age(of) {
            age if age < settling => true,
            age if users.attached.contains(&of.key.network) => age < FORGOTTEN,
            age => users.declared.contains(&of.key.network) && age < idle,
        };
        Ok(all.into_iter().partition(is_kept))
    }

    /// Keeps what the project's quota allows: no more than half of what is left, for others need
    /// some too.
    fn afford(&mut self, missing: &mut Vec<(usize, &StockDemand)>, round: &mut Round) {
        let Some((_, first)) = missing.first() else { return };
        let digest = first.digest.clone();
        let Some(project) = &self.project else {
            // The first port shows whose quota applies.
            if missing.len() > 1 {
                round.next = Duration::ZERO;
            }
            return missing.truncate(1);
        };
        // Some Neutrons do not say.
        let Ok(Some(room)) = self.neutron.api().port_room(project) else { return };
        missing.truncate(usize::try_from(room / 2).unwrap_or(usize::MAX));
        if missing.is_empty() {
            let error = Error::exhausted(format!(
                "project {project} may have {room} more ports; none are made ahead of need"
            ));
            self.failed(&digest, error, round);
        }
    }

    fn makings(&self, missing: Vec<(usize, &StockDemand)>) -> Vec<Task> {
        if !self.settings.bulk {
            return missing.into_iter().map(|(_, of)| Task::Make(of.clone(), 1)).collect();
        }
        let mut counts: BTreeMap<&KeyDigest, (&StockDemand, usize)> = BTreeMap::new();
        for (_, of) in missing {
            counts.entry(&of.digest).or_insert((of, 0)).1 += 1;
        }
        counts.into_values().map(|(of, count)| Task::Make(of.clone(), count)).collect()
    }

    fn perform(
        &mut self,
        tasks: Vec<Task>,
        is_over: &(dyn Fn() -> bool + Sync),
        round: &mut Round,
    ) {
        let workers = WORKERS.min(self.neutron.settings.access.concurrency.max(1));
        let mut is_fine = false;
        for Done { digest, port, made } in self.neutron.perform(tasks, workers, is_over) {
            match made {
                TaskResult::New(project, count) => {
                    round.made += count;
                    self.project = Some(project).filter(|project| !project.is_empty());
                    self.pauses.end(&digest);
                    is_fine = true;
                }
                TaskResult::Renewed => round.renewed += 1,
                TaskResult::Deleted => round.deleted += 1,
                TaskResult::Nothing => {}
                TaskResult::Failed(error) => match port {
                    Some(port) if !is_away(&error) => {
                        round.is_unsure |= error.kind() == Kind::TryAgain;
                        self.port_pauses.begin(port, Instant::now(), Pause::BUSY);
                        round.failures.push(error);
                    }
                    Some(_) | None => self.failed(&digest, error, round),
                },
            }
        }
        if is_fine && round.failures.is_empty() {
            self.pause = Pause::default();
        }
    }

    fn failed(&mut self, digest: &KeyDigest, error: Error, round: &mut Round) {
        round.is_unsure |= error.kind() == Kind::TryAgain;
        match (error.status(), error.kind()) {
            // Its network is gone; then so are its ports.
            (Some(404), _) | (_, Kind::NotFound) => {
                drained(self.neutron.drain_key(digest), round);
            }
            _ if is_away(&error) => {
                self.pause.begin(Instant::now(), Pause::BUSY);
                round.failures.push(error);
            }
            (_, kind) => {
                let pause = if kind == Kind::TryAgain { Pause::BUSY } else { Pause::REFUSED };
                self.pauses.begin(digest.clone(), Instant::now(), pause);
                round.failures.push(error);
            }
        }
    }

    fn stock_files(&self) -> StockFiles {
        self.neutron.stock_files()
    }
}

/// Counts what was deleted. What was not is tried again in the next round.
fn drained(done: Result<usize>, round: &mut Round) {
    match done {
        Ok(gone) => round.deleted += gone,
        Err(error) => round.failures.push(error),
    }
}

impl Task {
    fn renews(&self, digest: &KeyDigest) -> bool {
        matches!(self, Task::Renew(Stored { key, .. }) if key == digest)
    }
}
