//! The thread that frees what is no longer used.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::time::Duration;

use config::Level;
use docker::reconcile::{Notice, Settings};
use engine::{Finding, Mode, Reconciled, Remedy};
use host::event::{Event, What};
use host::time;

use super::docker_backend::Stage;
use super::{Daemon, kurma};

/// How often the store is compared with the kernel.
const PERIOD: Duration = Duration::from_secs(60);

/// Compares the store with the kernel now and then, until the daemon stops.
pub(super) fn book(daemon: &Daemon) {
    let mut reported = BTreeSet::new();
    let mut shown = Vec::new();
    while !daemon.sleep(PERIOD) {
        shown = kurma::sweep(daemon, &shown);
        kurma::end_unused(daemon);
        let found = daemon
            .context_pool
            .with(|host_context| Ok(host_context.engine().repair.reconcile_each(Mode::Mend)))
            .unwrap_or_else(|error| Reconciled { failures: vec![error], ..Reconciled::default() });
        announce(daemon, &found.findings, &mut reported);
        for error in &found.failures {
            daemon.journal.failed("freeing what has no owner any more", error);
        }
    }
}

/// Compares the store with what Docker's engines say is alive, until the daemon stops.
pub(super) fn docker(daemon: &Daemon, stage: &Stage) {
    let (config, kuryr) =
        (&daemon.context_pool.config().docker, &daemon.context_pool.config().kuryr);
    if !config.enabled && !kuryr.enabled || config.api.is_empty() {
        return;
    }
    let grace = Duration::from_secs(config.grace_seconds);
    let settings = Settings {
        engines: config.api.clone(),
        driver: config.driver().to_owned(),
        clouds: kuryr.enabled.then(|| kuryr.driver().to_owned()).into_iter().collect(),
        grace,
        period: 2 * grace,
    };
    let report = |notice: Notice| notice_of(daemon, &notice);
    docker::reconcile::run(&settings, stage, &report, daemon.stop.as_fd());
}

fn notice_of(daemon: &Daemon, notice: &Notice) {
    let say = |level| {
        let fields = [("frontend", "docker".to_owned())];
        daemon.journal.log.say(level, &notice.to_string(), &fields);
    };
    let restoring = || daemon.restoring.lock().unwrap_or_else(PoisonError::into_inner);
    match notice {
        Notice::Reached { engine, restores, .. } => {
            if let Some(restores) = restores {
                restoring().insert(engine.clone(), *restores);
            }
            say(Level::Info);
        }
        // Many hosts have no Docker, and dockerd restarts.
        Notice::Lost { engine, .. } => {
            restoring().remove(engine);
            say(Level::Info);
        }
        Notice::Unclaimed { .. } | Notice::Unlisted { .. } => say(Level::Warn),
        Notice::Reclaimed { finding, .. } => {
            let (kind, _) = (daemon.views.finding)(finding);
            report(daemon, kind, finding.remedy, &notice.to_string());
        }
        Notice::Unknown { network, name } => {
            let event = Event::new(What::Failed, time::now(), notice.to_string());
            let name = name.as_ref().map_or_else(|| network.to_string(), ToString::to_string);
            daemon.journal.report(&Event { network: Some(name), ..event });
        }
        Notice::Failed(error) => daemon.journal.failed("reconciling with Docker", error),
    }
}

/// Reports what was freed, and once of what is kept in doubt.
fn announce(daemon: &Daemon, found: &[Finding], reported: &mut BTreeSet<String>) {
    let mut doubtful = BTreeSet::new();
    for finding in found {
        let (kind, sentence) = (daemon.views.finding)(finding);
        let is_news = match finding.remedy {
            Remedy::Free => true,
            Remedy::Quarantine => {
                doubtful.insert(sentence.clone());
                !reported.contains(&sentence)
            }
        };
        if is_news {
            report(daemon, kind, finding.remedy, &sentence);
        }
    }
    *reported = doubtful;
}

fn report(daemon: &Daemon, kind: &str, remedy: Remedy, sentence: &str) {
    let (what, name, done) = match remedy {
        Remedy::Free => (What::Freed, "free", "was freed"),
        Remedy::Quarantine => (What::Quarantined, "quarantine", "is kept back"),
    };
    daemon.journal.metrics.finding(kind, name);
    daemon.journal.report(&Event::new(what, time::now(), format!("{kind} {sentence}: {done}")));
}
