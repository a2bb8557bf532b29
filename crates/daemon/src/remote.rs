//! The long-lived work with third-party Docker plugins: pending cleanups are retried, and plugins
//! that appear, end or restart are noticed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use host::dataplane::Foreign;
use host::event::{Event, What};
use host::time;
use host::views::cleanup_object;
use libnetwork::{Discovery, Node};
use model::{DriverName, Error, LinkKind, Result};
use remote::calls::Life;
use remote::{PendingCleanup, Urgency};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::Daemon;

/// The interval of checks without a notification: other processes add pending cleanups, too.
const PERIOD: Duration = Duration::from_secs(5);

/// The interval of retries; the pauses between tries of one cleanup are the undo log's.
const AGAIN: Duration = Duration::from_millis(500);

/// The hosts that were announced to plugins, below the runtime directory.
const REPORTED: &str = "remote.hosts";

/// A larger file is refused, in bytes.
const LARGEST: u64 = 1 << 20;

/// The state of this thread.
struct Keeper<'a> {
    daemon: &'a Daemon,
    foreign: Arc<Foreign>,
    /// The installed plugins, and their lives.
    known: BTreeMap<DriverName, Life>,
    /// The reported pending cleanups.
    pending: BTreeMap<(String, String), PendingCleanup>,
    /// The lives of plugins that know the hosts.
    informed: BTreeMap<DriverName, Life>,
    /// The hosts: those of the configuration, and the members of the cluster.
    hosts: BTreeSet<IpAddr>,
    /// The hosts that exist no longer.
    gone: BTreeSet<IpAddr>,
    /// Whether the last check failed: that is reported once.
    is_troubled: bool,
}

/// Keeps an eye on plugins until the daemon stops.
pub(super) fn keep(daemon: &Daemon) {
    let foreign = match daemon.context_pool.foreign() {
        Ok(foreign) => foreign,
        Err(error) => return daemon.journal.failed("looking for Docker plugins", &error),
    };
    let mut keeper = Keeper {
        daemon,
        foreign,
        known: BTreeMap::new(),
        pending: BTreeMap::new(),
        informed: BTreeMap::new(),
        hosts: BTreeSet::new(),
        gone: BTreeSet::new(),
        is_troubled: false,
    };
    keeper.remember_hosts();
    keeper.run();
}

impl Keeper<'_> {
    fn run(mut self) {
        let mut urgency = Urgency::Now;
        loop {
            // Subscribed before the check, so that nothing is missed in between.
            let subscriptions = self.listen();
            if self.check() {
                urgency = Urgency::Now;
            }
            let settled = self.retry(urgency);
            self.reported(settled.err());
            self.follow_members();
            self.inform();
            urgency = Urgency::Due;
            let limit = if self.pending.is_empty() { PERIOD } else { AGAIN };
            match self.wait(subscriptions, limit) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    self.reported(Some(error));
                    if self.daemon.sleep(PERIOD) {
                        return;
                    }
                }
            }
        }
    }

    /// Subscribes to changes in the directories of plugins. Where that is not possible, they are
    /// checked at intervals.
    fn listen(&self) -> Option<OwnedFd> {
        let subscriptions = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let signs = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR;
        let config = &self.daemon.context_pool.config().remote;
        for directory in config.sockets.iter().chain(&config.descriptions) {
            let within = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let below = within.map(|entry| entry.path()).filter(|path| path.is_dir());
            for path in std::iter::once(directory.clone()).chain(below) {
                // A missing directory is checked at intervals.
                let _ = inotify::add_watch(&subscriptions, &path, signs);
            }
        }
        Some(subscriptions)
    }

    /// Waits for a change, or for so long. Whether the daemon stops.
    fn wait(&self, subscriptions: Option<OwnedFd>, limit: Duration) -> Result<bool> {
        let failed = |cause: Errno| Error::os("waiting for Docker plugins", cause.into());
        let limit = Timespec::try_from(limit)
            .map_err(|_| Error::bug(format!("{limit:?} is too long to wait")))?;
        let stop = self.daemon.stop.as_fd();
        let mut sources = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        sources.extend(
            subscriptions.as_ref().map(|subscriptions| PollFd::new(subscriptions, PollFlags::IN)),
        );
        match poll(&mut sources, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(failed(cause)),
        }
        Ok(!sources[0].revents().is_empty())
    }

    fn lives(&self) -> BTreeMap<DriverName, Life> {
        let config = self.daemon.context_pool.config();
        let ours = [config.docker.driver(), config.kuryr.driver()];
        let installed = self.foreign.calls.installed().into_iter();
        let others = installed.filter(|name| !ours.contains(&name.as_str()));
        let with_life = others.filter_map(|name| {
            let life = self.foreign.calls.life(&name).ok()?;
            Some((name, life))
        });
        with_life.collect()
    }

    /// Reports plugins that appeared and ended. Returns whether any is new.
    fn check(&mut self) -> bool {
        let now = self.lives();
        let before = std::mem::replace(&mut self.known, now);
        let mut is_anybody_new = false;
        for (name, life) in &self.known {
            let message = match before.get(name) {
                Some(known) if known == life => continue,
                Some(_) => format!("plugin {name} was started anew"),
                None => format!("plugin {name} came"),
            };
            is_anybody_new = true;
            self.report(What::PluginCame, message);
        }
        for name in before.keys().filter(|name| !self.known.contains_key(*name)) {
            self.informed.remove(name);
            self.report(What::PluginGone, format!("plugin {name} went"));
        }
        is_anybody_new
    }

    fn report(&self, what: What, message: String) {
        self.daemon.journal.report(&Event::new(what, time::now(), message));
    }

    fn retry(&mut self, urgency: Urgency) -> Result<()> {
        let settled = self.foreign.remote.retry(urgency)?;
        let key = |cleanup: &PendingCleanup| (cleanup.log_file.clone(), cleanup.what.clone());
        let remaining: BTreeMap<_, _> =
            settled.remaining.into_iter().map(|cleanup| (key(&cleanup), cleanup)).collect();
        for (key, cleanup) in &remaining {
            if !self.pending.contains_key(key) {
                let what = sentence("is pending", cleanup);
                self.report(
                    What::CleanupPending,
                    match cleanup.error.is_empty() {
                        true => what,
                        false => format!("{what}: {}", cleanup.error),
                    },
                );
            }
        }
        let done: BTreeMap<_, _> =
            settled.done.iter().map(|cleanup| (key(cleanup), cleanup)).collect();
        // Another process may have carried out those that are not left.
        let gone = self.pending.iter().filter(|(key, _)| !done.contains_key(*key));
        let gone =
            gone.filter(|(key, _)| !remaining.contains_key(*key)).map(|(_, cleanup)| cleanup);
        for cleanup in done.values().copied() {
            self.report(What::CleanupDone, sentence("is done", cleanup));
        }
        // This process made no call for those, and perhaps no process ever will.
        for cleanup in gone
            .chain(settled.moot.iter().filter(|cleanup| !self.pending.contains_key(&key(cleanup))))
        {
            self.report(What::CleanupDone, sentence("is not pending any more", cleanup));
        }
        let metrics = &self.daemon.journal.metrics;
        metrics.pending(remaining.len());
        metrics.settled(settled.done.len() + settled.moot.len());
        self.pending = remaining;
        Ok(())
    }

    /// The hosts of the life before that are not hosts any more.
    fn remember_hosts(&mut self) {
        let config = self.daemon.context_pool.config();
        let path = config.store.runtime.join(REPORTED);
        let text = match file::text(&path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => {
                let error = file::failed(format!("reading {}", path.display()), error);
                self.daemon.journal.failed("remembering hosts", &error);
                String::new()
            }
        };
        let reported = text.lines().filter_map(|line| line.parse::<IpAddr>().ok());
        self.hosts = config.remote.hosts.iter().copied().collect();
        let others: BTreeSet<IpAddr> = reported.filter(|host| !self.hosts.contains(host)).collect();
        // A member of a cluster knows who is gone when it has heard of the others.
        match host::hosts::is_member(&host::hosts::place(&config.store.state)) {
            true => self.hosts.extend(others),
            false => self.gone = others,
        }
        if self.lines() != text {
            self.write_hosts();
        }
    }

    /// Takes hosts over that joined the cluster, and forgets those that left it.
    fn follow_members(&mut self) {
        let config = self.daemon.context_pool.config();
        let members = self.daemon.members();
        if members.is_none() && host::hosts::is_member(&host::hosts::place(&config.store.state)) {
            return;
        }
        let mut hosts: BTreeSet<IpAddr> = config.remote.hosts.iter().copied().collect();
        hosts.extend(members.into_iter().flat_map(|(own, others)| others.into_iter().chain([own])));
        if hosts == self.hosts {
            return;
        }
        self.gone.extend(self.hosts.difference(&hosts).copied());
        self.gone.retain(|host| !hosts.contains(host));
        self.hosts = hosts;
        self.informed.clear();
        self.write_hosts();
    }

    /// Those that plugins know, one a line.
    fn lines(&self) -> String {
        let hosts = self.hosts.iter().chain(&self.gone);
        hosts.map(|host| format!("{host}\n")).collect()
    }

    fn write_hosts(&self) {
        let path = self.daemon.context_pool.config().store.runtime.join(REPORTED);
        if let Err(error) = std::fs::write(&path, self.lines()) {
            let error = Error::os(format!("writing {}", path.display()), error);
            self.daemon.journal.failed("remembering hosts", &error);
        }
    }

    /// Announces the hosts to drivers of Spoke's networks: to each life of theirs, once.
    fn inform(&mut self) {
        if self.hosts.is_empty() && self.gone.is_empty() {
            return;
        }
        let Ok(used) = self.used() else { return };
        let mut do_all_know = true;
        for name in used {
            let Some(life) = self.known.get(&name).cloned() else {
                do_all_know = false;
                continue;
            };
            if self.informed.get(&name) == Some(&life) {
                continue;
            }
            match self.inform_one(&name) {
                Ok(()) => drop(self.informed.insert(name, life)),
                Err(error) => {
                    do_all_know = false;
                    self.reported(Some(error));
                }
            }
        }
        if do_all_know && !self.gone.is_empty() {
            self.gone.clear();
            self.write_hosts();
        }
    }

    fn inform_one(&self, name: &DriverName) -> Result<()> {
        let config = &self.daemon.context_pool.config().remote;
        let own = self.daemon.members().map(|(own, _)| own).or(config.own);
        let node = |address: &IpAddr| {
            Discovery::Node(Node {
                address: *address,
                bind: Some(*address),
                own: own.as_ref() == Some(address),
            })
        };
        for host in &self.gone {
            self.foreign.remote.disappear(name, &node(host))?;
        }
        for host in &self.hosts {
            self.foreign.remote.discover(name, &node(host))?;
        }
        Ok(())
    }

    /// The drivers of Spoke's networks.
    fn used(&self) -> Result<BTreeSet<DriverName>> {
        let networks = self
            .daemon
            .context_pool
            .with(|host_context| host_context.engine().records.networks())?;
        let drivers = networks.iter().filter_map(|network| {
            match network.wiring.link.as_ref().map(|link| &link.kind) {
                Some(LinkKind::Remote(link)) => Some(link.driver.clone()),
                Some(_) | None => None,
            }
        });
        Ok(drivers.collect())
    }

    /// A failure is reported when it begins.
    fn reported(&mut self, trouble: Option<Error>) {
        if let (Some(error), false) = (&trouble, self.is_troubled) {
            self.daemon.journal.failed("looking after Docker plugins", error);
        }
        self.is_troubled = trouble.is_some();
    }
}

fn sentence(state: &str, cleanup: &PendingCleanup) -> String {
    let driver = cleanup.driver.as_ref().map_or("?", |driver| driver.as_str());
    format!("plugin {driver}: {} for {} {state}", cleanup.what, cleanup_object(cleanup))
}
