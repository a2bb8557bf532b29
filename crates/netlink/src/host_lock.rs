//! The exclusion of processes that work on what a namespace's attachments share.
//!
//! Any process in a namespace can lock the namespace itself (flock(2)), also one without privileges, and keep the
//! lock. On the host that is every process of every user. So processes of Spoke exclude each other by a file that
//! only their user can open.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock, fstat};

use crate::{Netns, TIMEOUT, lock_within};

/// The directory of lock files, below the runtime directory.
const DIRECTORY: &str = "namespaces";

/// How the processes of Spoke exclude each other in the calling thread's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLock {
    directory: Option<PathBuf>,
}

impl HostLock {
    /// By files below this directory, one for each namespace. All processes that work in a namespace need the same
    /// directory, as they need the same store. Without one, the namespace itself is locked.
    pub fn below(runtime: &Path) -> Self {
        Self { directory: Some(runtime.join(DIRECTORY)) }
    }

    /// Works while no other process of Spoke has the lock of the calling thread's namespace.
    ///
    /// # Errors
    /// As [`HostLock::take`] within [`TIMEOUT`]; those of the work.
    pub fn with<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _locked = self.take(TIMEOUT)?;
        work()
    }

    /// Waits for the lock of the calling thread's namespace, for at most `limit`.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where another process keeps it.
    pub fn take(&self, limit: Duration) -> Result<HostLocked> {
        let namespace = Netns::current()?;
        // Where the directory cannot be written, what was made must be undone all the same.
        let file = self.directory.as_deref().and_then(|at| open(at, &namespace).ok());
        let locked = HostLocked { namespace, file };
        match lock_within(locked.as_fd(), limit) {
            Ok(true) => Ok(locked),
            Ok(false) => Err(locked.busy(limit)),
            Err(errno) => {
                let what = format!("locking network namespace {}", locked.namespace.inode());
                Err(Error::os(what, errno.into()))
            }
        }
    }
}

/// The exclusion of others, until it is dropped. It ends with the process at the latest.
#[derive(Debug)]
pub struct HostLocked {
    namespace: Netns,
    file: Option<File>,
}

impl HostLocked {
    /// Why this is not locked.
    fn busy(&self, limit: Duration) -> Error {
        let inode = fstat(self.as_fd()).map(|stat| stat.st_ino).unwrap_or_default();
        Error::try_again(format!(
            "another process has kept the lock on network namespace {} for {} s; /proc/locks names it in the line of \
             inode {inode}",
            self.namespace.inode(),
            limit.as_secs()
        ))
    }
}

impl AsFd for HostLocked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().map_or_else(|| self.namespace.as_fd(), AsFd::as_fd)
    }
}

impl Drop for HostLocked {
    fn drop(&mut self) {
        // A child may have the descriptor too, so closing it does not suffice. It fails only where the
        // descriptor is gone, and the lock with it.
        let _ = flock(self.as_fd(), FlockOperation::Unlock);
    }
}

/// The namespace's file, which is made where it is missing. It stays: another process may wait for it.
fn open(directory: &Path, here: &Netns) -> io::Result<File> {
    let path = directory.join(here.file_name());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // Fits: flags are small positive numbers.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    match options.open(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            options.open(&path)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use model::Kind;

    use super::*;
    use crate::NamespaceLock;

    #[test]
    fn what_anyone_can_lock_excludes_no_process() {
        let runtime = tempfile::tempdir().unwrap();
        let lock = HostLock::below(&runtime.path().join("spoke"));
        let here = Netns::current().unwrap();
        let _anyone = NamespaceLock::take(&here, Duration::from_secs(10)).unwrap();
        let locked = lock.take(Duration::ZERO).unwrap();
        let refused = lock.clone().take(Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), Kind::TryAgain, "one at a time");
        drop(locked);
        lock.take(Duration::ZERO).unwrap();
        let directory = runtime.path().join("spoke").join(DIRECTORY);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join(here.file_name())), 0o600);
    }

    #[test]
    fn where_no_file_can_be_made_the_namespace_is_locked() {
        let runtime = tempfile::tempdir().unwrap();
        std::fs::write(runtime.path().join("file"), "").unwrap();
        let lock = HostLock::below(&runtime.path().join("file"));
        let here = Netns::current().unwrap();
        let kept = NamespaceLock::take(&here, Duration::from_secs(10)).unwrap();
        assert_eq!(lock.take(Duration::ZERO).unwrap_err().kind(), Kind::TryAgain);
        drop(kept);
        lock.with(|| Ok(())).unwrap();
    }
}
