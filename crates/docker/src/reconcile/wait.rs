//! Waits for the first of several events.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::peer::Peer;

/// Why the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It is time.
    Due,
    /// Something happened in an engine.
    Events,
    /// It is over.
    Stop,
}

/// Waits until `due`, unless something happens before.
pub(super) fn wait(peers: &[Peer], due: Instant, stop: BorrowedFd<'_>) -> Woken {
    let events = peers.iter().filter_map(|peer| peer.events.as_ref());
    let mut fds: Vec<PollFd<'_>> = std::iter::once(stop)
        .chain(events.map(AsFd::as_fd))
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let remaining = timespec(due.saturating_duration_since(Instant::now()));
    match poll(&mut fds, Some(&remaining)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => {}
        Ok(_) if fds.first().is_some_and(|stop| !stop.revents().is_empty()) => return Woken::Stop,
        Ok(_) => return Woken::Events,
        // Without memory for the call no event can be received: sleep, and compare.
        Err(_) => std::thread::sleep(Duration::from_secs(1)),
    }
    Woken::Due
}

/// A millisecond more, so that what is due is due.
fn timespec(remaining: Duration) -> Timespec {
    let remaining = remaining + Duration::from_millis(1);
    Timespec {
        tv_sec: i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(remaining.subsec_nanos()),
    }
}
