//! A request for a plugin, and its reply.

use std::time::{Duration, Instant};

use super::calls::Life;
use super::client::Reply;
use libnetwork::Method;

/// A plugin that restarts is waited for as long, once.
const RESTART: Duration = Duration::from_secs(2);
/// A plugin that took a request and closed the connection is asked again after so long, then twice as
/// long, and so on, as Docker does (`pkg/plugins/client.go`).
pub(super) const CLOSED: Duration = Duration::from_secs(1);
/// So long after the beginning it is asked for the last time. Docker's pauses are 1, 2, 4 and 8 s.
const CLOSED_LAST: Duration = Duration::from_secs(15);

/// A request that can be sent as often as it takes.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) body: &'a [u8],
    /// It does no harm if it is carried out twice.
    pub(super) is_repeatable: bool,
}

/// How long a call may take, with the questions that have to be asked before it.
#[derive(Clone, Copy)]
pub(super) struct Until {
    pub(super) timeout: Duration,
    /// No answer is waited for any longer.
    pub(super) deadline: Instant,
    /// No new try begins later.
    pub(super) restart: Instant,
    /// Nor does one later, where the plugin closes connections.
    pub(super) closed: Instant,
}

impl Until {
    pub(super) fn timeout(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            timeout,
            deadline: now + timeout,
            restart: now + RESTART.min(timeout),
            // The time of the attempts themselves does not count in Docker either.
            closed: now + (CLOSED_LAST + CLOSED).min(timeout),
        }
    }
}

/// A reply.
pub(super) struct Replied {
    pub(super) reply: Reply,
    /// The life of the plugin.
    pub(super) life: Life,
    /// An earlier try may have been carried out already.
    pub(super) was_taken: bool,
}
