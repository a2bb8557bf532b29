//! Each call of a Docker Engine, as the log and the figures show it.

use std::sync::Arc;
use std::time::Instant;

use config::Level;
use docker::server::{Answered, Observe, Outcome};
use model::Kind;

use super::journal::Journal;
use super::rate::Rate;

/// Writes to the journal.
pub(super) struct Calls {
    pub(super) journal: Arc<Journal>,
    /// Which plugin is called.
    pub(super) frontend: &'static str,
    /// Of lines of what was refused.
    pub(super) rate: Rate,
}

impl Observe for Calls {
    fn answered(&self, request: &Answered<'_>) {
        let operation = request.method.map_or("unknown", libnetwork::Method::name);
        let result = result(request.outcome);
        self.journal.metrics.operation(self.frontend, operation, &result, request.took);
        let level = match request.outcome {
            Outcome::Done => Level::Debug,
            Outcome::Failed(_) | Outcome::Refused(_) => Level::Warn,
        };
        if !self.journal.log.wants(level) {
            return;
        }
        let mut fields =
            vec![("frontend", self.frontend.to_owned()), ("call", operation.to_owned())];
        fields.extend(request.subject.map(|subject| (about(operation), subject.to_owned())));
        fields.push(("result", result));
        fields.push(("ms", format!("{:.2}", request.took.as_secs_f64() * 1000.0)));
        let what = request.error.unwrap_or("answered");
        match request.outcome {
            Outcome::Refused(_) => self.refused(what, fields),
            Outcome::Done | Outcome::Failed(_) => self.journal.log.say(level, what, &fields),
        }
    }

    fn trouble(&self, what: &str) {
        self.refused(what, vec![("frontend", self.frontend.to_owned())]);
    }
}

impl Calls {
    /// A line about a refused call, which any client at the socket can cause.
    fn refused(&self, what: &str, mut fields: Vec<(&'static str, String)>) {
        let Some(left_out) = self.rate.admits(Instant::now()) else { return };
        if left_out > 0 {
            fields.push(("left_out", left_out.to_string()));
        }
        self.journal.log.say(Level::Warn, what, &fields);
    }
}

/// The kind of id of a call's subject.
fn about(operation: &str) -> &'static str {
    match operation {
        "NetworkDriver.CreateNetwork"
        | "NetworkDriver.DeleteNetwork"
        | "NetworkDriver.AllocateNetwork"
        | "NetworkDriver.FreeNetwork" => "network",
        _ if operation.starts_with("IpamDriver.") => "pool",
        _ => "endpoint",
    }
}

fn result(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done => "ok".to_owned(),
        Outcome::Failed(kind) => name(kind).to_owned(),
        Outcome::Refused(status) => format!("http-{status}"),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "invalid",
        Kind::Unsupported => "unsupported",
        Kind::NotFound => "not-found",
        Kind::Conflict => "conflict",
        Kind::Exhausted => "exhausted",
        Kind::TryAgain => "try-again",
        Kind::Denied => "denied",
        Kind::Kernel => "kernel",
        Kind::Bug => "bug",
    }
}
