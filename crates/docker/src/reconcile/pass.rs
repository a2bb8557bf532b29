//! One pass of the reconciler: snapshot, names, decisions.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use engine::{Live, Mode, Reconciled};
use model::{AliasId, EngineId, Kind, Result};

use super::doubt::{Doubts, doubts};
use super::live::{add_running, live};
use super::neighbours::Neighbours;
use super::peer::{Peer, State};
use super::snapshot::{Sighting, Snapshot};
use super::store_view::{DockerRecords, StoreView};
use super::watch::{Moment, Verdict, Watch};
use super::{Notice, SHARE, Settings};
use crate::api::Reach;

/// What is kept from pass to pass.
pub(super) struct Pass<'a> {
    settings: &'a Settings,
    book: &'a dyn StoreView,
    report: &'a dyn Fn(Notice),
    watch: Watch,
    doubts: Doubts,
    neighbours: Neighbours,
    rest: Instant,
    /// Networks that have no title to learn: those of a swarm.
    nameless: BTreeSet<AliasId>,
}

/// The result of a pass.
enum Outcome {
    /// Nothing seems to be missing.
    Clean,
    /// Something is missing, and will be freed unless it turns up.
    Suspicious,
    /// Not every engine answered.
    Broken,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        book: &'a dyn StoreView,
        report: &'a dyn Fn(Notice),
    ) -> Self {
        let now = Instant::now();
        Self {
            settings,
            book,
            report,
            watch: Watch::new(settings.grace, now),
            doubts: Doubts::default(),
            neighbours: Neighbours::default(),
            rest: now,
            nameless: BTreeSet::new(),
        }
    }

    /// The wanted time, or later if looking has taken long.
    pub(super) fn rested(&self, wanted: Instant) -> Instant {
        wanted.max(self.rest)
    }

    /// Makes a pass, and says when the next one is due.
    pub(super) fn make(&mut self, peers: &mut [Peer]) -> Instant {
        // An engine that is starting keeps a greeting waiting, which is no load and has no pause after it: until the
        // next pass its containers have no names.
        let states: Vec<State> = peers.iter_mut().map(|peer| peer.reach(self.report)).collect();
        let begin = Instant::now();
        let outcome = self.attempt(peers, &states).unwrap_or_else(|error| {
            (self.report)(Notice::Failed(error));
            Outcome::Clean
        });
        self.forget_removed(peers);
        let end = Instant::now();
        self.rest = end + (end - begin) * SHARE;
        let latest = end + self.settings.period;
        match outcome {
            Outcome::Clean => latest,
            Outcome::Suspicious => self.rested(self.watch.ripe()).min(latest),
            Outcome::Broken => {
                self.watch.disturb(end);
                self.neighbours.expire(end, self.book);
                let retries = peers.iter().filter_map(Peer::retry);
                retries.min().map_or(latest, |retry| retry.min(latest))
            }
        }
    }

    /// A removed network no longer blocks others, also before the next snapshot.
    pub(super) fn forget_removed(&mut self, peers: &mut [Peer]) {
        let removed = peers.iter_mut().flat_map(Peer::removed).collect();
        self.neighbours.forget(&removed, self.book);
        self.nameless.retain(|id| !removed.contains(id));
    }

    /// Names of networks are known as soon as they are made, those of containers as soon as they run.
    pub(super) fn learn_names(&mut self, peers: &mut [Peer]) {
        for peer in peers {
            let made = peer.made();
            // Where one fails, the next snapshot has the rest: an engine that hangs is waited for once.
            let mut titles = self.learn_titles(peer, made.iter());
            for (container, names) in peer.learned(self.report) {
                let networks = names.iter().filter_map(|names| names.network.as_ref());
                titles = titles.and_then(|()| self.learn_titles(peer, networks));
                let called = names.iter().map(|names| self.book.call(names));
                let called = called.collect::<Vec<_>>().into_iter().collect::<Result<()>>();
                match called {
                    // Its attachment is being worked on.
                    Err(error) if error.kind() == Kind::TryAgain => {
                        peer.learn_again(&container, error, self.report);
                    }
                    done => {
                        peer.has_learned(&container);
                        self.reported(done);
                    }
                }
            }
        }
    }

    /// Containers are found below what their network is called.
    fn learn_titles<'n>(
        &mut self,
        peer: &Peer,
        mut networks: impl Iterator<Item = &'n AliasId>,
    ) -> Result<()> {
        networks.try_for_each(|id| self.learn_title(peer, id))
    }

    fn learn_title(&mut self, peer: &Peer, id: &AliasId) -> Result<()> {
        if self.nameless.contains(id) || !self.book.is_untitled(id)? {
            return Ok(());
        }
        let Some(network) = peer.api.network(id)? else { return Ok(()) };
        match network.name.filter(|_| network.reach == Reach::Local) {
            Some(title) => self.book.entitle(id, &title, peer.id.as_ref()),
            None => {
                self.nameless.insert(id.clone());
                Ok(())
            }
        }
    }

    fn attempt(&mut self, peers: &mut [Peer], states: &[State]) -> Result<Outcome> {
        if states.contains(&State::Back) {
            self.watch.disturb(Instant::now());
        }
        let is_silent = states.contains(&State::Silent);
        if is_silent && !peers.iter().any(Peer::asks_names) {
            return Ok(Outcome::Broken);
        }
        let held = self.book.held()?;
        // Names wait for no other engine.
        if !self.ask_names(peers, &held) || is_silent {
            return Ok(Outcome::Broken);
        }
        let Some(snapshot) = self.snapshot(peers, &held) else { return Ok(Outcome::Broken) };
        self.neighbours.replace(&snapshot, self.settings, self.book);
        self.nameless.retain(|id| held.networks.iter().any(|network| network.id == *id));
        self.learn(&held, &snapshot);
        let live = live(&held, &snapshot);
        self.doubt(&held, &snapshot);
        let missing = self.book.reclaim(&live, self.settings.grace, Mode::DryRun)?.findings;
        let now = Moment { at: Instant::now(), clock: SystemTime::now() };
        match self.watch.add(now, live) {
            Some(verdict) => self.judge(verdict, peers),
            None if missing.is_empty() => Ok(Outcome::Clean),
            None => Ok(Outcome::Suspicious),
        }
    }

    /// Whether every engine that is back has said which containers run.
    fn ask_names(&self, peers: &mut [Peer], held: &DockerRecords) -> bool {
        let networks = held.networks.iter().map(|network| &network.id).collect();
        let mut have_answered = true;
        for peer in peers {
            if let Err(why) = peer.ask_names(&networks) {
                peer.lose(why, self.report);
                have_answered = false;
            }
        }
        have_answered
    }

    fn snapshot(&self, peers: &mut [Peer], held: &DockerRecords) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        for peer in peers {
            if let Err(why) = snapshot.add_all(peer, held) {
                peer.lose(why, self.report);
                return None;
            }
        }
        Some(snapshot)
    }

    /// Names are for people; one that cannot be recorded now can be at the next snapshot.
    fn learn(&self, held: &DockerRecords, snapshot: &Snapshot) {
        for subnet in &held.subnets {
            let is_local = |sighting: &&Sighting| sighting.network.reach == Reach::Local;
            let users = snapshot.users(&subnet.id).filter(is_local);
            let by: Vec<Option<&EngineId>> = users.map(|user| user.engine.as_ref()).collect();
            let is_known = subnet.listed && by.contains(&subnet.lister.as_ref());
            if let Some(by) = by.first().filter(|_| !is_known) {
                self.reported(self.book.enlist(&subnet.id, *by));
            }
        }
        for network in &held.networks {
            let Some(sighting) = snapshot.networks.get(&network.id) else { continue };
            let (title, by) = (sighting.network.name.as_ref(), sighting.engine.as_ref());
            let is_known =
                network.title.as_ref() == title && (by.is_none() || network.lister.as_ref() == by);
            if let Some(title) = title.filter(|_| !is_known)
                && sighting.network.reach == Reach::Local
            {
                self.reported(self.book.entitle(&network.id, title, by));
            }
        }
        for endpoint in &held.endpoints {
            let sighting = endpoint.network.as_ref().and_then(|id| snapshot.networks.get(id));
            let known = sighting.and_then(|sighting| sighting.endpoints.as_ref()).into_iter();
            let seen = known.flatten().find(|seen| seen.id == endpoint.id.container);
            if let Some(name) = seen.and_then(|seen| seen.name.as_ref())
                && endpoint.owner.as_ref() != Some(name)
            {
                self.reported(self.book.name(&endpoint.id, name));
            }
        }
    }

    fn reported(&self, result: Result<()>) {
        if let Err(error) = result {
            (self.report)(Notice::Failed(error));
        }
    }

    fn doubt(&mut self, held: &DockerRecords, snapshot: &Snapshot) {
        let current = doubts(held, snapshot, &self.settings.driver);
        let (now, grace) = (Instant::now(), self.settings.grace);
        self.doubts.mature(current, now, grace).into_iter().for_each(self.report);
    }

    /// Frees what was missing all the time; the containers themselves are asked once more before.
    fn judge(&self, verdict: Verdict, peers: &mut [Peer]) -> Result<Outcome> {
        let Verdict { mut live, span } = verdict;
        // As old as it must be now to have had its grace when the span began.
        let age = span + self.settings.grace;
        self.reported(self.book.lower_references(&live, age));
        if self.reclaim(&live, age, Mode::DryRun)?.findings.is_empty() {
            return Ok(Outcome::Clean);
        }
        let held = self.book.held()?;
        for peer in peers {
            match peer.api.running() {
                Ok(running) => add_running(&held, &mut live, running),
                Err(why) => {
                    peer.lose(why, self.report);
                    return Ok(Outcome::Broken);
                }
            }
        }
        let mended = self.reclaim(&live, age, Mode::Mend)?;
        for finding in mended.findings {
            (self.report)(Notice::Reclaimed { finding, missing: span });
        }
        mended.failures.into_iter().for_each(|error| (self.report)(Notice::Failed(error)));
        Ok(Outcome::Suspicious)
    }

    fn reclaim(&self, live: &Live, age: Duration, mode: Mode) -> Result<Reconciled> {
        self.book.reclaim(live, age, mode)
    }
}
