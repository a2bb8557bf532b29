//! Locks on files (flock(2)), by which processes exclude each other.

use std::fs::File;
use std::io::{ErrorKind, Result as IoResult};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The pause between two attempts: flock(2) cannot be waited for with a limit.
const PAUSE: Duration = Duration::from_millis(2);

/// Locks an open file for as long as it, or a copy of its descriptor, is open.
///
/// # Errors
/// What the system says; `WouldBlock` where `how` does not wait, and another process holds the
/// lock.
pub fn lock(file: impl AsFd, how: FlockOperation) -> IoResult<()> {
    loop {
        match flock(file.as_fd(), how) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// The same, waiting until `deadline`; whether it is locked. `how` is one that does not wait.
///
/// # Errors
/// What the system says.
pub fn lock_until(file: impl AsFd, how: FlockOperation, deadline: Instant) -> IoResult<bool> {
    loop {
        match lock(file.as_fd(), how) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= deadline => return Ok(false),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Opens a file and locks it as [`lock_until`] does; `None` where another process still holds the lock. The file is
/// opened again where the previous holder has removed it: the next process would lock another one.
///
/// # Errors
/// Those of `open`, and what the system says.
pub fn lock_opened(
    open: impl Fn() -> IoResult<File>,
    how: FlockOperation,
    deadline: Instant,
) -> IoResult<Option<File>> {
    loop {
        let file = open()?;
        if !lock_until(&file, how, deadline)? {
            return Ok(None);
        }
        if file.metadata()?.nlink() > 0 {
            return Ok(Some(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_until_the_deadline() {
        let root = tempfile::tempdir().unwrap();
        let open = || File::create(root.path().join("lock")).unwrap();
        let (first, second, how) = (open(), open(), FlockOperation::NonBlockingLockExclusive);
        lock(&first, FlockOperation::LockExclusive).unwrap();
        assert_eq!(lock(&second, how).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!lock_until(&second, how, Instant::now()).unwrap());
        let far = Instant::now() + Duration::from_secs(600);
        let waiting = thread::spawn(move || lock_until(&second, how, far).unwrap());
        drop(first);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn a_file_that_its_holder_removed_is_opened_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        let how = FlockOperation::NonBlockingLockExclusive;
        let opened = std::cell::Cell::new(0);
        let open = || {
            let file = File::options().append(true).create(true).open(&path)?;
            opened.set(opened.get() + 1);
            if opened.get() == 1 {
                std::fs::remove_file(&path)?;
            }
            Ok(file)
        };
        let held = lock_opened(open, how, Instant::now()).unwrap();
        assert!(held.is_some() && path.exists() && opened.get() == 2);
        assert!(lock_opened(open, how, Instant::now()).unwrap().is_none());
    }
}
