//! Small files that several processes share: replaced in one step, changed by one at a time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Instant, SystemTime};

use model::{Error, Result};
use rustix::fs::FlockOperation;
use serde_json::Value;

/// A longer file is not Spoke's, in bytes.
const LONGEST: u64 = 16 << 20;

/// Exclusion among processes, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Which others may hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Others who share it.
    Shared,
    /// None.
    Alone,
}

impl Lock {
    /// Waits for the lock as long as it takes.
    pub(crate) fn wait(path: &Path) -> Result<Self> {
        let lock = Self::taken(path, FlockOperation::LockExclusive, Instant::now())?;
        lock.ok_or_else(|| Error::bug(format!("the lock of {} was not obtained", path.display())))
    }

    /// Waits for the lock until `deadline`; `None` where another process still holds it.
    pub(crate) fn until(path: &Path, share: Share, deadline: Instant) -> Result<Option<Self>> {
        let how = match share {
            Share::Shared => FlockOperation::NonBlockingLockShared,
            Share::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        Self::taken(path, how, deadline)
    }

    /// Notes that it was taken now, in the file's time of modification.
    pub(crate) fn note_use(&self) {
        // Without it, what the lock is of counts as unused earlier.
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// The lock, if it is free.
    pub(crate) fn now(path: &Path) -> Result<Option<Self>> {
        Self::taken(path, FlockOperation::NonBlockingLockExclusive, Instant::now())
    }

    fn taken(path: &Path, how: FlockOperation, deadline: Instant) -> Result<Option<Self>> {
        let failed = |cause| Error::os(format!("locking {}", path.display()), cause);
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let locked = file::lock_opened(open, how, deadline).map_err(failed)?;
        Ok(locked.map(|file| Self { file }))
    }
}

/// Makes a directory, and those above, for this user alone.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| Error::os(format!("making {}", path.display()), cause))
}

/// The document in a file; none where there is no file.
pub(crate) fn read(path: &Path) -> Result<Option<Value>> {
    let failed = |cause| Error::os(format!("reading {}", path.display()), cause);
    let file = match File::open(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).map_err(failed)?;
    let damaged = |cause| Error::bug(format!("{} is damaged", path.display())).because(cause);
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// Replaces a file. Only the holder of its lock may do so.
pub(crate) fn write(path: &Path, value: &Value) -> Result<()> {
    let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
    let new = path.with_extension("new");
    file::replace(path, &new, value.to_string().as_bytes()).map_err(failed)
}

/// Removes a file; one that is gone is removed.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::os(format!("removing {}", path.display()), cause))
        }
        _ => Ok(()),
    }
}

/// The names in a directory that end so, without that, sorted; none where there is no directory.
pub(crate) fn names(directory: &Path, ending: &str) -> Result<Vec<String>> {
    let failed = |cause| Error::os(format!("reading {}", directory.display()), cause);
    let entries = match fs::read_dir(directory) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(ending));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        assert_eq!(read(&path).unwrap(), None);
        for value in [json!({"long": "x".repeat(100)}), json!(7)] {
            write(&path, &value).unwrap();
            assert_eq!(read(&path).unwrap(), Some(value));
        }
        assert_eq!(names(directory.path(), ".json").unwrap(), ["a"]);
        fs::write(&path, "{").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("is damaged"));
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(names(&directory.path().join("no"), "").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn a_lock_is_one_process_s_and_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let soon = || Instant::now() + Duration::from_millis(10);
        let shared = Lock::until(&path, Share::Shared, soon()).unwrap().unwrap();
        assert!(Lock::until(&path, Share::Shared, soon()).unwrap().is_some());
        assert!(Lock::now(&path).unwrap().is_none());
        assert!(Lock::until(&path, Share::Alone, soon()).unwrap().is_none());
        drop(shared);
        let alone = Lock::wait(&path).unwrap();
        let waiter = {
            let path = path.clone();
            thread::spawn(move || Lock::wait(&path).map(drop))
        };
        remove(&path).unwrap();
        drop(alone);
        waiter.join().unwrap().unwrap();
    }
}
