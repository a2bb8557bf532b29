//! Which attachments a plugin out of an image may have been called for: a file for each, from before the call
//! until DEL has succeeded. A namespace that is shown says so, too, but it may be cleared before DEL comes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{Error, Result};

use super::unused::is_shown;
use crate::volume::Volume;
use crate::{Directories, disk};

/// A DEL that has not come so long after the last call, or after the namespace was freed, comes no more.
pub(super) const OVER: Duration = Duration::from_secs(24 * 60 * 60);

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

    /// Sets it, as of now: a call is about to begin. The caller has the volume's lock, so that nothing collects it
    /// meanwhile.
    pub(super) fn set(&self) -> Result<()> {
        disk::make_directory(&self.directory)?;
        let mut options = OpenOptions::new();
        let made = options.create(true).append(true).mode(0o600).open(&self.path);
        let set = made.and_then(|file| file.set_modified(SystemTime::now()));
        set.map_err(|cause| Error::os(format!("making {}", self.path.display()), cause))
    }

    /// Its time begins anew, if it is there: the namespace is freed now, and DEL may come after that.
    pub(super) fn refresh(&self) -> Result<()> {
        match self.is_set()? {
            true => self.set(),
            false => Ok(()),
        }
    }

    /// How long ago it was set; `None` where it is not there.
    fn age(&self) -> Option<Duration> {
        let set = fs::symlink_metadata(&self.path).ok()?.modified().ok()?;
        // After a clock was set back it counts as young.
        Some(set.elapsed().unwrap_or_default())
    }

    /// Removes it: no call has begun, or the last one has ended the attachment.
    pub(super) fn clear(&self) -> Result<()> {
        disk::remove(&self.path)
    }
}

/// The attachments that a plugin may have been called for, and whose DEL never came: no namespace of theirs is shown,
/// and the last call was a day ago. By the names of their namespaces.
///
/// # Errors
/// Where the marks cannot be listed.
pub fn forgotten(directories: &Directories) -> Result<Vec<String>> {
    let mut names = disk::names(&directories.runtime.join("called"), "")?;
    let volume = Volume::new(&directories.netns);
    names.retain(|name| {
        let is_over = |age: Duration| age >= OVER;
        is_shown(name)
            && !volume.shows(name)
            && Mark::new(directories, name).age().is_some_and(is_over)
    });
    Ok(names)
}

/// Removes the marks of [`forgotten`] attachments, and returns their names.
///
/// # Errors
/// As [`forgotten`]; where one cannot be removed.
pub fn forget(directories: &Directories) -> Result<Vec<String>> {
    if forgotten(directories)?.is_empty() {
        return Ok(Vec::new());
    }
    // No call begins meanwhile.
    let _lock = Volume::new(&directories.netns).lock()?;
    let names = forgotten(directories)?;
    names.iter().try_for_each(|name| Mark::new(directories, name).clear())?;
    Ok(names)
}
