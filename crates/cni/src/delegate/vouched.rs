//! Whether anybody else has written into a directory of the reference plugin `host-local`.
//!
//! The plugin reads every file at each ADD, to refuse a container that has an address already. We look
//! only where somebody else may have written: our files bear a mark in their time, and after each change
//! of ours the lock file's time tells the directory's. Whoever else adds or removes a file changes that.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, futimens, utimensat};

const OMITTED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };

/// The nanoseconds in the time of a file of ours.
const MARK: i64 = 194_701_923;

/// Marks a file as ours.
pub(super) fn mark(file: &File) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let Ok(tv_sec) = since.as_secs().try_into() else { return };
    let last_modification = Timespec { tv_sec, tv_nsec: MARK };
    let _ = futimens(file, &Timestamps { last_access: OMITTED, last_modification });
}

/// Whether the file is somebody else's.
pub(super) fn is_foreign(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok_and(|it| it.mtime_nsec() != MARK)
}

/// Whether the last change was ours, and nobody else's file was there then. Only under the lock.
pub(super) fn is_vouched(directory: &Path) -> bool {
    match (time(directory), fs::metadata(directory.join("lock"))) {
        (Ok(time), Ok(lock)) => (lock.mtime(), lock.mtime_nsec()) == (time.tv_sec, time.tv_nsec),
        (_, _) => false,
    }
}

/// Says so. Where it cannot be said, the next call looks for itself.
pub(super) fn vouch(directory: &Path) {
    let Ok(time) = time(directory) else { return };
    let times = Timestamps { last_access: OMITTED, last_modification: time };
    let _ = utimensat(CWD, directory.join("lock"), &times, AtFlags::empty());
}

/// The directory's time and a nanosecond, lest two files of one tick of the clock look like it.
fn time(directory: &Path) -> io::Result<Timespec> {
    let there = fs::metadata(directory)?;
    let next = there.mtime_nsec() + 1;
    Ok(Timespec { tv_sec: there.mtime(), tv_nsec: next % 1_000_000_000 })
}
