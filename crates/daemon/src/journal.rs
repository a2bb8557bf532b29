//! The one place where the daemon says what happened: a line in the event file, a line in the log,
//! and a figure.

use std::sync::atomic::{AtomicBool, Ordering};

use config::{Config, Level};
use host::event::{Event, EventFile, What};
use host::time;
use model::Error;

use super::log::Log;
use super::metrics::Metrics;

/// The destinations of every report.
#[derive(Debug)]
pub(crate) struct Journal {
    /// For the operator.
    pub(crate) log: Log,
    /// For Prometheus.
    pub(crate) metrics: Metrics,
    events: EventFile,
    /// Whether the last write of the event file succeeded: its failure is reported once.
    writable: AtomicBool,
}

impl Journal {
    /// As configured; nothing is written yet.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            log: Log::new(config.log),
            metrics: Metrics::new(),
            events: EventFile::new(config.events.path.clone()),
            writable: AtomicBool::new(true),
        }
    }

    /// Something happened.
    pub(crate) fn report(&self, event: &Event) {
        self.log.say(event.event.level(), &event.message, &event.fields());
        self.metrics.event(event.event);
        let written = self.events.append(event);
        let could = self.writable.swap(written.is_ok(), Ordering::Relaxed);
        if let (Err(cause), true) = (written, could) {
            self.log.say(Level::Error, &format!("events cannot be written: {cause}"), &[]);
        }
    }

    /// A limitation that an operator may not expect.
    pub(crate) fn warn(&self, what: &str) {
        self.log.say(Level::Warn, what, &[]);
    }

    /// Something did not work, and the daemon continues.
    pub(crate) fn failed(&self, doing: &str, error: &Error) {
        self.report(&Event::new(What::Failed, time::now(), format!("{doing}: {error}")));
    }
}
