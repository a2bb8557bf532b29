//! Follows the store: reports every process's changes, and keeps published ports.

use std::time::{Duration, Instant};

use engine::port::Prefix;
use host::time;
use model::Result;
use store::Watch;

use super::Daemon;
use super::event_log::EventLog;
use super::ports::Ports;

/// The interval at which the watch of the store checks whether the daemon stops.
const GLANCE: Duration = Duration::from_millis(500);
/// How soon a container is looked into whose runtime has yet to name its interface.
const SOON: Duration = Duration::from_millis(50);

/// The reported state of the store.
#[derive(Default)]
pub(super) struct Reported {
    event_log: EventLog,
    ports: Ports,
}

impl Daemon {
    /// The changes of the store from now on; what exists already happened before.
    pub(super) fn open_book(&self) -> Result<(Watch, Reported)> {
        let store = host::host_context::open_store(self.context_pool.config())?;
        let mut watch = store.watch(&[Prefix::Networks, Prefix::Attachments])?;
        let mut reported = Reported::default();
        for change in watch.wait(Duration::ZERO)? {
            reported.event_log.report(&change, time::now());
            reported.ports.learn(&change, None, time::now());
        }
        reported.event_log.forget_waiting();
        Ok((watch, reported))
    }

    /// Says what any process does with the store, and keeps published ports from others.
    pub(super) fn follow_book(&self, watch: Watch, reported: Reported) {
        let mut followed = self.follow_book_until_lost(watch, reported);
        while let Err(error) = followed {
            self.journal.failed("watching the book", &error);
            if self.sleep(Duration::from_secs(5)) {
                return;
            }
            followed = self
                .open_book()
                .and_then(|(watch, reported)| self.follow_book_until_lost(watch, reported));
        }
    }

    fn follow_book_until_lost(&self, mut watch: Watch, mut reported: Reported) -> Result<()> {
        while !self.sleep(Duration::ZERO) {
            reported.ports.keep(&self.journal);
            let limit = if reported.event_log.is_waiting() { SOON } else { GLANCE };
            for change in watch.wait(limit)? {
                reported.ports.learn(&change, Some(Instant::now()), time::now());
                for event in reported.event_log.report(&change, time::now()) {
                    self.journal.report(&event);
                }
            }
            for event in reported.event_log.report_waiting() {
                self.journal.report(&event);
            }
        }
        Ok(())
    }
}
