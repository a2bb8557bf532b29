//! Taking turns in a namespace.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Netns;
use crate::outcome::refused;

/// The pause between two attempts, as in crate `file`, which this one cannot use.
const PAUSE: Duration = Duration::from_millis(2);

/// The right to be the only one that works in a namespace, among those who ask for it: those of
/// this program, and the reference plugin `sbr`. It ends with the process at the latest.
#[derive(Debug)]
pub struct NamespaceLock<'a>(&'a Netns);

impl<'a> NamespaceLock<'a> {
    /// Waits for the turn, for at most `limit`: a process in the namespace could keep it.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if it does not come.
    pub fn take(netns: &'a Netns, limit: Duration) -> Result<Self> {
        match lock_within(netns.as_fd(), limit) {
            Ok(true) => Ok(Self(netns)),
            Ok(false) => Err(Error::try_again(format!(
                "another process has been working in network namespace {} for {} s",
                netns.inode(),
                limit.as_secs()
            ))),
            Err(errno) => {
                let what = format!("locking network namespace {}", netns.inode());
                Err(refused(what, errno))
            }
        }
    }
}

/// Takes the lock of a network namespace with this descriptor, and waits for it for at most `limit`: any process in
/// the namespace can take it and keep it, also one without privileges. `false` where it does not come.
///
/// # Errors
/// Where the descriptor cannot be locked.
pub fn lock_within(namespace: BorrowedFd<'_>, limit: Duration) -> rustix::io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match flock(namespace, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => sleep(PAUSE),
            Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

impl Drop for NamespaceLock<'_> {
    fn drop(&mut self) {
        // It fails only where the descriptor is gone, and the lock with it.
        let _ = flock(self.0.as_fd(), FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::Kind;

    use super::*;

    #[test]
    fn one_at_a_time() {
        let open = || Netns::open(Path::new("/proc/thread-self/ns/net")).unwrap();
        let (one, other) = (open(), open());
        let namespace_lock = NamespaceLock::take(&one, Duration::from_secs(10)).unwrap();
        let refused = NamespaceLock::take(&other, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), Kind::TryAgain);
        drop(namespace_lock);
        NamespaceLock::take(&other, Duration::from_secs(10)).unwrap();
    }
}
