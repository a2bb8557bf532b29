//! Supervises the networking pod: its plugins run, those that end are started again, and pending
//! calls of pods are retried. The plugins outlive the daemon.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use config::Level;
use host::event::{Event, What};
use host::kurma::{Host, named_by_cni};
use host::time;
use kurma::exec_cni::{self, Unused};
use kurma::{Event as Seen, supervise};
use model::Result;
use netlink::Stop;
use rustix::process::geteuid;

use super::Daemon;

/// The interval of checks of the file of networks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How soon again where the networking pod cannot be run at all.
const AGAIN: Duration = Duration::from_secs(10);

/// Watches until the daemon stops, and begins again whenever the networks are other ones.
pub(super) fn keep(daemon: &Daemon) {
    let pod = Host::new(daemon.context_pool.config(), &|_| None);
    while !daemon.sleep(Duration::ZERO) {
        // A user's daemon runs nothing but what that user may.
        let entered = if geteuid().is_root() { container::host::enter() } else { Ok(()) };
        if let Err(error) = entered.and_then(|()| watch(daemon, &pod)) {
            daemon.journal.failed("running the networking pod", &error);
            if daemon.sleep(AGAIN) {
                return;
            }
        }
    }
}

fn watch(daemon: &Daemon, pod: &Host) -> Result<()> {
    let seen = stamp(pod.file());
    let (networks, plugins) = (pod.networks()?, pod.pod()?);
    for refused in networks.refused() {
        daemon.journal.failed("reading the networks", &refused.error);
    }
    let (plugins, networks) = (Arc::new(plugins), Arc::new(networks));
    let (stop, is_over) = (Stop::new()?, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let is_same = || stamp(pod.file()) == seen && !is_over.load(Ordering::Relaxed);
            while !daemon.sleep(POLL_INTERVAL) && is_same() {}
            stop.stop();
        });
        let watched =
            supervise(&plugins, &networks, stop.as_fd(), &|seen| daemon.report_plugin(&seen));
        is_over.store(true, Ordering::Relaxed);
        watched
    })
}

/// Hides namespaces that plugins out of images see and that are unused, now and at the check
/// before. Returns the unused ones, for the next check.
pub(super) fn sweep(daemon: &Daemon, seen: &[Unused]) -> Vec<Unused> {
    let pod = Host::new(daemon.context_pool.config(), &|_| None);
    if !pod.has_book() {
        return Vec::new();
    }
    let swept = exec_cni::clear(pod.directories(), seen, false);
    for unused in swept.as_deref().unwrap_or_default() {
        let message = format!("namespace {} that a plugin was shown: it was freed", unused.name);
        daemon.journal.metrics.finding("namespace", "free");
        daemon.journal.report(&Event::new(What::Freed, time::now(), message));
    }
    match exec_cni::forget(pod.directories()) {
        Ok(forgotten) => forgotten.iter().for_each(|name| {
            let message = format!(
                "mark of the plugin calls for {name}: its container is gone, and no DEL came"
            );
            daemon.journal.report(&Event::new(What::Freed, time::now(), message));
        }),
        Err(error) => daemon.journal.failed("looking for plugin calls without a DEL", &error),
    }
    match swept.and_then(|_| exec_cni::unused(pod.directories())) {
        Ok(unused) => unused,
        Err(error) => {
            daemon.journal.failed("looking for unused namespaces", &error);
            Vec::new()
        }
    }
}

/// Ends containers of `spoke-image` that nothing names and calls any more.
pub(super) fn end_unused(daemon: &Daemon) {
    let pod = Host::new(daemon.context_pool.config(), &|_| None);
    if !pod.has_book() || !pod.directories().plugins().exists() {
        return;
    }
    let named = named_by_cni(Path::new("/"));
    let (ended, done) = match pod.pod() {
        Ok(pod) => pod.end_unused(&named),
        Err(error) => (Vec::new(), Err(error)),
    };
    for key in ended {
        let message = format!("plugin container {key}: nothing names it or has called it for days");
        daemon.journal.report(&Event::new(What::Freed, time::now(), message));
    }
    if let Err(error) = done {
        daemon.journal.failed("ending plugin containers that nothing uses", &error);
    }
}

/// The identity of a file: another file has another one.
fn stamp(file: &Path) -> Option<(u64, i64, i64, u64)> {
    let there = fs::metadata(file).ok()?;
    Some((there.ino(), there.mtime(), there.mtime_nsec(), there.len()))
}

impl Daemon {
    fn report_plugin(&self, seen: &Seen) {
        let event = |what, message: String| Event::new(what, time::now(), message);
        let (network, event) = match seen {
            Seen::Started { network, pid } => {
                let message = format!("the plugin of network {network} runs as process {pid}");
                (Some(network), event(What::PluginCame, message))
            }
            Seen::Ended { network, why } => {
                let message = format!("the plugin of network {network} has ended: {why}");
                (Some(network), event(What::PluginGone, message))
            }
            Seen::Failed { network, error } => {
                let message = format!("starting the plugin of network {network}: {error}");
                (Some(network), event(What::Failed, message))
            }
            Seen::Settled { pod } => (
                None,
                event(What::CleanupDone, format!("pod {pod} has no pending cleanup any more")),
            ),
            Seen::PendingDel { pod, error } => {
                (None, event(What::CleanupPending, format!("pod {pod} is not undone: {error}")))
            }
            Seen::Unswept { error } => {
                (None, event(What::Failed, format!("clearing the networking pod: {error}")))
            }
        };
        match seen {
            Seen::Started { network, .. } => self.journal.metrics.plugin(network.as_str(), true),
            Seen::Ended { network, .. } | Seen::Failed { network, .. } => {
                self.journal.metrics.plugin(network.as_str(), false);
            }
            Seen::Settled { .. } | Seen::PendingDel { .. } | Seen::Unswept { .. } => {}
        }
        let network = network.map(ToString::to_string);
        self.journal.report(&Event { network, ..event });
    }

    /// Whether the networking pod is this daemon's, as it says when it begins.
    pub(super) fn has_networking_pod(&self) -> bool {
        let config = &self.context_pool.config().kurma;
        if config.enabled {
            let message = format!("running the networking pod of {}", config.networks.display());
            self.journal.log.say(Level::Debug, &message, &[]);
        }
        config.enabled
    }
}
