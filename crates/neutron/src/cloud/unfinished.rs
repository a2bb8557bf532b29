//! Networks that are being made for a runtime: recorded before the first request, until the runtime
//! has the answer. What is left of a network without an answer has no owner.
//!
//! The files are deleted with the boot. What a host was making then is removed on an operator's
//! request.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{AliasId, Result};

use crate::files;

/// No engine waits so long for a network.
const LONGEST: Duration = Duration::from_secs(300);

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    directory: PathBuf,
}

/// How far a network came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A process may be working on it.
    Working,
    /// It failed, or its process is gone.
    Over,
}

impl Unfinished {
    /// Below this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.join("begun") }
    }

    /// Records that this process begins with it.
    pub(crate) fn begin(&self, id: &AliasId) -> Result<()> {
        self.write(id, false)
    }

    /// It failed. If this cannot be written it counts as over after a while.
    pub(crate) fn fail(&self, id: &AliasId) {
        let _ = self.write(id, true);
    }

    /// Called when the runtime has the answer, or nothing is left of the network.
    pub(crate) fn settle(&self, id: &AliasId) {
        if let Some(path) = file_of(&self.directory, id.as_str()) {
            // One that stays is of a network that the store knows, or that is not there.
            let _ = files::remove(&path);
        }
    }

    /// How far a network came; none where none is being made for the id.
    pub(crate) fn progress(&self, id: &str) -> Result<Option<Progress>> {
        let Some(path) = file_of(&self.directory, id) else { return Ok(None) };
        let Some(is_over) = files::read::<bool>(&path)? else { return Ok(None) };
        let since = fs::metadata(&path).and_then(|data| data.modified()).ok();
        let age = since.and_then(|since| SystemTime::now().duration_since(since).ok());
        let is_old = age.is_some_and(|age| age >= LONGEST);
        Ok(Some(if is_over || is_old { Progress::Over } else { Progress::Working }))
    }

    fn write(&self, id: &AliasId, is_over: bool) -> Result<()> {
        match file_of(&self.directory, id.as_str()) {
            Some(path) => files::write(&self.directory.join("draft"), &path, &is_over),
            None => Ok(()),
        }
    }
}

/// The file of a network. Engines' ids are digits and letters.
pub(super) fn file_of(directory: &Path, id: &str) -> Option<PathBuf> {
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain.then(|| directory.join(format!("{id}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_over_and_what_is_settled_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let unfinished = Unfinished::at(directory.path());
        let id: AliasId = "0123456789ab".parse().unwrap();
        let progress = || unfinished.progress(id.as_str()).unwrap();
        assert_eq!(progress(), None);
        unfinished.begin(&id).unwrap();
        assert_eq!(progress(), Some(Progress::Working));
        unfinished.fail(&id);
        assert_eq!(progress(), Some(Progress::Over));
        unfinished.begin(&id).unwrap();
        assert_eq!(progress(), Some(Progress::Working), "it is tried again");
        let old = SystemTime::now() - LONGEST;
        let path = file_of(&unfinished.directory, id.as_str()).unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(old).unwrap();
        assert_eq!(progress(), Some(Progress::Over), "the process that began is gone");
        unfinished.settle(&id);
        assert_eq!(progress(), None);
        assert_eq!(unfinished.progress("../../etc/passwd").unwrap(), None);
    }
}
