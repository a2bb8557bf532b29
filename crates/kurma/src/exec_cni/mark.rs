//! Which attachments a plugin out of an image may have been called for: a file for each, from before the call
//! until DEL has succeeded. A namespace that is shown says so, too, but it may be cleared before DEL comes.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use model::{Error, Result};

use crate::{Directories, disk};

/// The mark of one attachment.
pub(super) struct Mark {
    directory: PathBuf,
    path: PathBuf,
}

impl Mark {
    /// That of the attachment whose namespace is called `name` in the volume.
    pub(super) fn new(directories: &Directories, name: &str) -> Self {
        let directory = directories.runtime.join("called");
        Self { path: directory.join(name), directory }
    }

    /// Whether it is there.
    pub(super) fn is_set(&self) -> Result<bool> {
        let failed = |cause| Error::os(format!("looking for {}", self.path.display()), cause);
        self.path.try_exists().map_err(failed)
    }

    /// Sets it: a call is about to begin.
    pub(super) fn set(&self) -> Result<()> {
        disk::make_directory(&self.directory)?;
        let mut options = OpenOptions::new();
        let made = options.create(true).append(true).mode(0o600).open(&self.path);
        made.map(drop).map_err(|cause| Error::os(format!("making {}", self.path.display()), cause))
    }

    /// Removes it: no call has begun, or the last one has ended the attachment.
    pub(super) fn clear(&self) -> Result<()> {
        disk::remove(&self.path)
    }
}
