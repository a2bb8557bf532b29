//! Each call of a Docker Engine, as the log and the figures show it.

use std::sync::Arc;

use docker::server::{Answered, Observe, Outcome};
use model::Kind;

use super::journal::Journal;
use crate::config::Level;

/// Tells the journal.
pub(super) struct Calls {
    pub(super) journal: Arc<Journal>,
    /// Which plugin is called.
    pub(super) frontend: &'static str,
}

impl Observe for Calls {
    fn answered(&self, request: &Answered<'_>) {
        let operation = request.method.map_or("unknown", docker::wire::Method::name);
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
        self.journal.log.say(level, request.error.unwrap_or("answered"), &fields);
    }

    fn trouble(&self, what: &str) {
        self.journal.log.say(Level::Warn, what, &[("frontend", self.frontend.to_owned())]);
    }
}

/// What the subject of a call is the id of.
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
