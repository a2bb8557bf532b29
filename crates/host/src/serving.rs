//! Whether a daemon serves the book of this host.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::FlockOperation;

/// The file that the daemon has locked while it runs, below the runtime directory.
pub const LOCK: &str = "serve.lock";

/// Whether a daemon serves the book below `runtime`; `None` where the caller may not know. A daemon that starts meanwhile tries
/// again.
pub fn is_served(runtime: &Path) -> Option<bool> {
    let lock = match file::open(&runtime.join(LOCK)) {
        Ok(lock) => lock,
        Err(cause) => return (cause.kind() == ErrorKind::NotFound).then_some(false),
    };
    match file::lock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(cause) => (cause.kind() == ErrorKind::WouldBlock).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_that_is_held_is_a_daemon() {
        let runtime = tempfile::tempdir().unwrap();
        assert_eq!(is_served(runtime.path()), Some(false));
        let held = File::create(runtime.path().join(LOCK)).unwrap();
        assert_eq!(is_served(runtime.path()), Some(false));
        file::lock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(is_served(runtime.path()), Some(true));
        drop(held);
        assert_eq!(is_served(runtime.path()), Some(false));
    }
}
