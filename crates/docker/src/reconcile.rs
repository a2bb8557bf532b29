//! Repairs what Docker's engines lose: they ignore errors when they remove, send no DeleteEndpoint
//! for an endpoint whose creation failed, and never repeat what a driver missed while it was down.
//! Their lists are compared with Docker's records in the store.
//!
//! It works outside of every handler, in a thread of its own: an engine that hangs blocks only this
//! thread.
//!
//! An engine's list is never exact while it works, so nothing is freed after one comparison. Every
//! engine must answer completely. What is freed was missing in every snapshot over a grace time,
//! and was as old when that began. An engine that was out of reach is left alone for the grace
//! time, because it cleans up when it starts. Swarm's networks are not touched. And nothing is
//! freed that may belong to an engine that was not asked: its networks were never listed, or by an
//! engine of another id.

mod doubt;
mod live;
mod neighbours;
mod notice;
mod pass;
mod peer;
mod snapshot;
mod store_view;
mod unnamed;
mod wait;
mod watch;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::api::Api;
use crate::driver::Backstage;
use doubt::is_ours;
pub use notice::Notice;
use pass::Pass;
use peer::Peer;
use store_view::{EngineBook, StoreView};
use wait::{Woken, wait};

/// After something happened, more is about to happen.
const QUIET: Duration = Duration::from_secs(1);
/// Looking takes no more than one part in so many of the time.
const SHARE: u32 = 20;
/// How long an engine has for one answer, all of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which engines are asked, and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they serve their API: every engine that uses us. What an engine uses that is not
    /// named here is not touched, but not repaired either.
    pub engines: Vec<PathBuf>,
    /// The name as a driver, such as `spoke`; as a managed plugin with its tag.
    pub driver: String,
    /// Other driver names: those whose networks are a cloud's. A network of theirs that the store
    /// does not know is not reported, and their subnets do not clash.
    pub clouds: Vec<String>,
    /// How long something must have been missing before it is freed.
    pub grace: Duration,
    /// The interval of comparisons without an event.
    pub period: Duration,
}

impl Settings {
    /// Whether a driver is one of Spoke's.
    fn has(&self, driver: &str) -> bool {
        is_ours(driver, &self.driver) || self.clouds.iter().any(|cloud| is_ours(driver, cloud))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engines: vec![PathBuf::from("/var/run/docker.sock")],
            driver: "spoke".to_owned(),
            clouds: Vec::new(),
            grace: Duration::from_secs(30),
            period: Duration::from_secs(60),
        }
    }
}

/// Reconciles until `stop` becomes readable or its other end is closed, and says what it finds.
/// Returns within the time of one request to an engine.
pub fn run(
    settings: &Settings,
    backstage: &impl Backstage,
    report: &dyn Fn(Notice),
    stop: BorrowedFd<'_>,
) {
    run_over(settings, &EngineBook { backstage }, report, stop);
}

fn run_over(
    settings: &Settings,
    book: &dyn StoreView,
    report: &dyn Fn(Notice),
    stop: BorrowedFd<'_>,
) {
    let mut pass = Pass::new(settings, book, report);
    let peer = |socket: &PathBuf| Peer::new(Api::new(socket.clone(), TIMEOUT), settings.period);
    let mut peers: Vec<Peer> = settings.engines.iter().map(peer).collect();
    let mut due = Instant::now();
    loop {
        let names = peers.iter().filter_map(Peer::names_due).min();
        match wait(&peers, names.map_or(due, |names| names.min(due)), stop) {
            Woken::Stop => return,
            Woken::Due => {}
            Woken::Events => due = due.min(pass.rested(Instant::now() + QUIET)),
        }
        let is_there = peers.iter_mut().all(Peer::listen);
        pass.forget_removed(&mut peers);
        pass.learn_names(&mut peers);
        due = peers.iter().filter_map(Peer::retry).fold(due, Instant::min);
        if is_there && Instant::now() < due {
            continue;
        }
        due = pass.make(&mut peers);
        pass.learn_names(&mut peers);
    }
}
