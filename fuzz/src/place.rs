//! Where targets have their files.

use tempfile::TempDir;

/// A folder that is gone with the value. In memory where that is possible: what is tried is what is read, not the disk,
/// and it is tens of thousands of folders.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}
