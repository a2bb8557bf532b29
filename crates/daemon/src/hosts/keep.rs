//! Makes this host what the cluster says, and says to the cluster what this host has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cluster::{Cluster, Etcd, Key, LeaseId, Revision, View, WatchEnd, book};
use host::time;
use model::{Error, HostName, IpNet, Kind, NetworkName, Result};

use super::addresses::announce::Announced;
use super::addresses::resting::Resting;
use super::etcd::etcd_upkeep::Tended;
use super::etcd::lease::{Pauses, refuse_unheard};
use super::etcd::older::SavedState;
use super::links::near;
use super::links::overlay::{self, Silent};
use super::links::tunnel;
use super::member::Member;
use super::membership::Membership;
use super::{Hosts, Wake, engines, local};
use crate::Daemon;

/// How long a host counts as alive that does not renew its lease, in seconds. etcd looks twice a second which
/// leases are over: all hosts know of a dead one within ten seconds.
pub(super) const LEASE: u32 = 8;
/// How often the lease is renewed and everything is compared, whatever is heard.
pub(super) const PERIOD: Duration = Duration::from_secs(3);
/// How long to wait for etcd before it is asked again: a host that is joined again to the others is to have
/// their entries within two seconds.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// A host of no cluster looks again after so long, or when it becomes a member.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// After changes of so many bytes everything is read again, which says how much there is; each counts as [`CHANGE`] more.
const MOST_BYTES: usize = 256 << 20;
/// What a change takes in memory besides.
const CHANGE: usize = 256;
/// A watch that has heard nothing for so long begins anew: a connection may be dead without a word.
const QUIET: Duration = Duration::from_secs(20);

/// Takes part in the cluster until the daemon stops.
pub(super) fn keep(daemon: &Daemon, hosts: &Arc<Hosts>, wakes: Receiver<Wake>) {
    let session = Arc::new(AtomicU64::new(0));
    let (silent, noted, heard) = (Silent::default(), Vec::new(), Revision::default());
    let mut keeper = Keeper {
        daemon,
        hosts,
        wakes,
        session,
        silent,
        noted,
        heard,
        alive: heard,
        latest: None,
        changed: 0,
        resting: Resting::default(),
        ruled: BTreeMap::new(),
        anothers: BTreeSet::new(),
        announced: Announced::default(),
        unsettled: BTreeMap::new(),
        renewed: None,
        lease: None,
        unwritten: None,
        unwritten_before: None,
        pauses: Pauses::default(),
        is_older: false,
        is_other: false,
        is_refused: false,
        is_refusal_reported: false,
        kept: SavedState::default(),
        isolated: BTreeSet::new(),
        membership: Membership::default(),
        tended: Tended::default(),
        rotated: None,
        is_settled: false,
        may_be_anothers: false,
        is_swept: false,
    };
    if let Err(error) = keeper.remember() {
        daemon.journal.failed("the cluster of hosts", &error);
    }
    let mut mended = time::since_boot();
    while !daemon.sleep(Duration::ZERO) {
        let member = hosts.lock().member.clone();
        let Some(member) = member else {
            keeper.idle();
            continue;
        };
        keeper.close_unheard(&member);
        let end = keeper.session(&member);
        keeper.session.fetch_add(1, Ordering::SeqCst);
        match end {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::NotFound || keeper.is_leaving(&member) => {
                keeper.leave(&member, &error);
            }
            Err(error) => {
                keeper.lose(&error);
                let now = time::since_boot();
                if now.saturating_sub(mended) >= PERIOD || keeper.is_over_since(mended) {
                    keeper.mend(&member);
                    mended = now;
                }
                keeper.pause(keeper.pauses.next());
            }
        }
    }
}

pub(super) struct Keeper<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) hosts: &'a Arc<Hosts>,
    wakes: Receiver<Wake>,
    /// Which session it is: what an earlier one's watch still says is not heard.
    session: Arc<AtomicU64>,
    silent: Silent,
    /// What does not work between the hosts, as it was reported last.
    noted: Vec<String>,
    /// The latest state of the cluster that this daemon knows.
    pub(super) heard: Revision,
    /// Since when this host is heard of without a break: no host takes its addresses over meanwhile.
    pub(super) alive: Revision,
    /// The latest record that it knows, and when that was written.
    pub(super) latest: Option<(Key, Revision)>,
    /// The bytes of the changes of this session.
    changed: usize,
    /// Blocks that are given back soon.
    pub(super) resting: Resting,
    /// When rules of iptables were compared last, by network.
    pub(super) ruled: BTreeMap<NetworkName, Instant>,
    /// Later blocks that another host has by now, as they were reported.
    pub(super) anothers: BTreeSet<(NetworkName, IpNet)>,
    announced: Announced,
    /// What did not work with addresses between hosts, as it was reported last.
    pub(super) unsettled: BTreeMap<Option<NetworkName>, String>,
    /// Before the lease was renewed last, by the clock of this host that runs on while it sleeps.
    pub(super) renewed: Option<Duration>,
    /// That of this session, or of the one before.
    pub(super) lease: Option<LeaseId>,
    /// What etcd did not take in this round, and what was reported last.
    pub(super) unwritten: Option<Error>,
    pub(super) unwritten_before: Option<String>,
    pub(super) pauses: Pauses,
    /// Whether etcd had an older state than was heard of before.
    pub(super) is_older: bool,
    /// Whether that is another history, to which others wrote.
    pub(super) is_other: bool,
    /// Whether etcd answers with a state that is not heeded, and whether that was reported.
    is_refused: bool,
    is_refusal_reported: bool,
    pub(super) kept: SavedState,
    /// The hosts that may have given addresses of this one to others.
    pub(super) isolated: BTreeSet<HostName>,
    pub(super) membership: Membership,
    pub(super) tended: Tended,
    /// Since when every host has the newest keys, while this one has older ones too.
    pub(super) rotated: Option<Instant>,
    /// Whether it is known that no address of this host is another's: not before a daemon has heard of the cluster.
    pub(super) is_settled: bool,
    /// Whether addresses of this host may have become others' since that was compared: its lease was over for so long.
    pub(super) may_be_anothers: bool,
    /// Whether it is known that nothing is left of an earlier membership.
    pub(super) is_swept: bool,
}

impl Keeper<'_> {
    /// From one connection to etcd to its loss. Ends without an error where everything is to be read
    /// again, or the daemon stops; with `NotFound` where this host is no member any more.
    fn session(&mut self, member: &Member) -> Result<()> {
        self.tended.begin(self.hosts, member)?;
        let etcd = Arc::new(member.etcd()?);
        let mut view = etcd.read()?;
        book::refuse_other_layout(&view)?;
        self.pauses.read();
        let refused = self.refuse_older(&etcd, &view, member);
        self.is_refused = refused.is_err();
        refused?;
        refuse_removed(&view, member)?;
        self.changed = 0;
        self.be_heard_of(&etcd, &mut view, member)?;
        self.heard = view.revision.max(self.alive);
        // The view may have been read anew, and the watch goes on from it.
        self.watch(&etcd, view.revision)?;
        if !self.catch_up(&etcd, &mut view, member)? {
            return Ok(());
        }
        loop {
            self.unwritten = None;
            self.converge(&etcd, &mut view, member)?;
            self.rejoin();
            self.report_members(&view, member);
            let draining = view.hosts.get(&member.name).map(|host| host.draining);
            self.hosts.set(|state| (state.view, state.draining) = (Some(view.clone()), draining));
            let tended = self.tended.tend((self.daemon, self.hosts), (&etcd, &view), member);
            if self.unless_refused(tended)? == Some(true) {
                return Ok(());
            }
            self.report_unwritten();
            self.keep_latest();
            let limit = self.silent.next(Instant::now(), self.grace()).min(self.renewal());
            if !self.hear(&mut view, limit)? {
                return Ok(());
            }
            refuse_unusable(&view, member)?;
            self.keep_alive(&etcd, member)?;
        }
    }

    /// Takes over what others wrote before this host was heard of; `false` where this session is over.
    fn catch_up(&mut self, etcd: &Etcd, view: &mut View, member: &Member) -> Result<bool> {
        while view.revision < self.alive {
            if !self.hear(view, self.renewal())? {
                return Ok(false);
            }
            refuse_removed(view, member)?;
            book::refuse_other_layout(view)?;
            self.keep_alive(etcd, member)?;
        }
        // Until here it may be the end of this host's earlier lease that is heard.
        refuse_unheard(view, member)?;
        Ok(true)
    }

    /// Waits for something to do, for at most `limit`, and takes all of it over; `false` where this
    /// session is over.
    fn hear(&mut self, view: &mut View, limit: Duration) -> Result<bool> {
        let mut next = match self.wakes.recv_timeout(limit) {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        };
        let session = self.session.load(Ordering::SeqCst);
        while let Some(wake) = next {
            match wake {
                Wake::Changed(of, revision, changes) if of == session => {
                    let bytes = changes.iter().map(|change| change.bytes + CHANGE);
                    self.changed = self.changed.saturating_add(bytes.sum());
                    changes.into_iter().for_each(|change| view.apply(change));
                    view.revision = revision;
                    self.heard = self.heard.max(revision);
                }
                Wake::Ended(of, None) if of == session => return Ok(false),
                Wake::Ended(of, Some(error)) if of == session => return Err(error),
                Wake::Changed(..) | Wake::Ended(..) | Wake::Here => {}
            }
            next = self.wakes.try_recv().ok();
        }
        self.note_latest(view);
        Ok(self.changed <= MOST_BYTES && !self.daemon.sleep(Duration::ZERO))
    }

    fn watch(&self, etcd: &Arc<Etcd>, from: Revision) -> Result<()> {
        let (etcd, wake) = (Arc::clone(etcd), self.hosts.sender());
        let (current, session) = (Arc::clone(&self.session), self.session.load(Ordering::SeqCst));
        let watch = move || {
            let mut after = from;
            let is_over = || current.load(Ordering::SeqCst) != session;
            while !is_over() {
                let end = etcd.watch(after, QUIET, &mut |revision, changes| {
                    after = revision;
                    let sent = wake.send(Wake::Changed(session, revision, changes));
                    match sent.is_err() || is_over() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                let ended = match end {
                    Ok(WatchEnd::Over) => continue,
                    Ok(WatchEnd::Compacted) => None,
                    Err(error) => Some(error),
                };
                drop(wake.send(Wake::Ended(session, ended)));
                return;
            }
        };
        let thread = std::thread::Builder::new().name("hosts-watch".to_owned());
        let spawned = thread.stack_size(super::super::STACK).spawn(watch);
        spawned.map(drop).map_err(|cause| Error::os("starting the thread hosts-watch", cause))
    }

    /// Networks, then entries, then what others have to know.
    fn converge(&mut self, etcd: &Etcd, view: &mut View, member: &Member) -> Result<()> {
        let wanted: Vec<NetworkName> =
            view.networks_of(&member.name).map(|(name, _)| name.clone()).collect();
        let mut made = BTreeMap::new();
        for name in &wanted {
            match self.make(etcd, view, member, name)? {
                Ok(block) => drop(made.insert(name.clone(), block)),
                Err(error) => {
                    self.fail(name, &error);
                    made.extend(self.had(view, member, name)?.map(|block| (name.clone(), block)));
                }
            }
            self.keep_alive(etcd, member)?;
        }
        // Before its networks are as the cluster says, a container may join one as it was: the files say what plugins do.
        self.hosts.set(|state| (state.lost, state.unheard) = (None, None));
        let attached = self.hosts.lock().attached.clone();
        if !self.is_settled || self.may_be_anothers || !self.isolated.is_empty() {
            // A daemon before this one may have been cut off: what its containers have is known in a moment.
            let Some(attached) = &attached else { return Ok(()) };
            // What others have by now is detached before anything of it reaches them again.
            let settled = self.settle_pins(etcd, view, member, attached);
            self.report_unsettled(None, settled);
            self.is_settled = true;
            if self.unsettled.is_empty() {
                self.may_be_anothers = false;
                self.isolated.clear();
            }
        }
        let reported = near::report(etcd, view, member);
        self.unless_refused(reported)?;
        let outcome = self.link(view, member)?;
        let settled = self.settle_tunnels(etcd, view, member, &outcome);
        self.unless_refused(settled)?;
        let removed = self.remove_others(etcd, view, member, &wanted);
        self.unless_refused(removed)?;
        self.keep_alive(etcd, member)?;
        // Before the store was read the others keep what they know.
        let Some(attached) = attached else { return Ok(()) };
        let held_back = engines::untried(view, member, &self.hosts.place);
        let published = overlay::published(view, member, &attached, &made, &held_back);
        let done = book::publish(etcd, view, &member.name, &published);
        if self.unless_refused(done)?.is_some() {
            view.endpoints.retain(|(host, _, _), _| *host != member.name);
            let of = |(network, address)| (member.name.clone(), network, address);
            let now = view.revision;
            view.endpoints.extend(published.into_iter().map(|(name, it)| (of(name), (it, now))));
        }
        let settled = self.settle_pins(etcd, view, member, &attached);
        self.report_unsettled(None, settled);
        Ok(())
    }

    /// How long the addresses of a host are kept whose lease has ended.
    pub(super) fn grace(&self) -> Duration {
        Duration::from_secs(self.daemon.context_pool.config().hosts.takeover_seconds.into())
    }

    /// Makes the entries between this host and the others what the cluster says.
    pub(super) fn link(&mut self, view: &View, member: &Member) -> Result<::overlay::Outcome> {
        let gone = self.silent.gone(view, (Instant::now(), self.grace()));
        let made = local::made(&self.hosts.place)?;
        let overlay::ExpectedOverlay { mut overlay, names, refused } =
            overlay::wanted(view, member, (&gone, &self.isolated), &made)?;
        let tunnels = tunnel::wanted(view, member, &overlay.members, &self.hosts.place);
        let no_tunnels = tunnels.map(|tunnels| overlay.tunnels = tunnels).err();
        if no_tunnels.is_some() {
            // Without their keys encrypted networks have no device; the others go on.
            overlay.networks.retain(|network| !network.encrypted);
        }
        let filter = overlay.route_filter()?;
        self.hosts.set(|state| {
            state.refused = refused;
            state.guarded = overlay.guarded();
            state.filter = filter;
            state.gone = gone;
        });
        let mut outcome = overlay.apply().unwrap_or_else(|error| ::overlay::Outcome {
            failures: vec![error],
            ..::overlay::Outcome::default()
        });
        outcome.failures.extend(no_tunnels.map(|error| error.context("encrypted networks")));
        self.note(outcome.failures.iter().map(ToString::to_string).collect());
        // Where the entries are there, or nearly all: a name is not found before its container is reached.
        self.daemon.elsewhere.set(names);
        self.announced.moved(&overlay, self.hosts.lock().attached.as_ref());
        Ok(outcome)
    }

    /// Reports once what does not work between the hosts.
    pub(super) fn note(&mut self, failures: Vec<String>) {
        for new in failures.iter().filter(|failure| !self.noted.contains(failure)) {
            let error = Error::new(Kind::Kernel, new.clone());
            self.daemon.journal.failed("reaching the other hosts", &error);
        }
        let shown = failures.clone();
        self.hosts.set(|state| state.broken = shown);
        self.noted = failures;
    }

    /// etcd does not answer, or with a state that is not heeded: each is reported once. What the kernel has stays as it is.
    fn lose(&mut self, error: &Error) {
        let was_lost = self.hosts.lock().lost.is_some();
        let was_reported = std::mem::replace(&mut self.is_refusal_reported, self.is_refused);
        if !was_lost || (self.is_refused && !was_reported) {
            self.daemon.journal.failed("the cluster of hosts", error);
        }
        let what = error.to_string();
        self.hosts.set(|state| {
            let since = state.lost.take().map_or_else(time::now, |(since, _)| since);
            state.lost = Some((since, what));
            state.unheard.get_or_insert_with(time::since_boot);
        });
    }

    /// What another program changed while etcd does not answer: the entries are made as they were heard of last, without
    /// those of hosts that hold this one for gone.
    fn mend(&mut self, member: &Member) {
        let view = self.hosts.lock().view.clone();
        if let Some(view) = &view {
            self.isolate(view, member);
        }
        if let Some(view) = &view {
            self.daemon.journal.metrics.hosts(&self.figures(view));
        }
        let guarded = self.guard_made();
        // Not before it is known which addresses are others' by now.
        let view = view.filter(|_| self.is_settled);
        let linked = view.map_or(Ok(()), |view| self.link(&view, member).map(drop));
        if let Err(error) = guarded.and(linked) {
            self.note(vec![error.to_string()]);
        }
    }

    /// Waits until something changes on this host, or so long.
    pub(super) fn pause(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while let Ok(wake) =
            self.wakes.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if matches!(wake, Wake::Here) && self.hosts.lock().lost.is_none() {
                return;
            }
        }
    }
}

fn refuse_unusable(view: &View, member: &Member) -> Result<()> {
    refuse_removed(view, member)?;
    refuse_unheard(view, member)?;
    book::refuse_other_layout(view)
}

fn refuse_removed(view: &View, member: &Member) -> Result<()> {
    match view.hosts.get(&member.name) {
        Some(host) if host.address == member.address => Ok(()),
        // No host has removed it.
        None if view.is_damaged(&member.name) => Err(Error::try_again(format!(
            "what etcd has of host {} cannot be read, and is not this host's word; `spoke host ls` on another one says why",
            member.name
        ))),
        Some(_) | None => Err(Error::not_found(format!(
            "host {} was removed from the cluster; join it again with a token",
            member.name
        ))),
    }
}
