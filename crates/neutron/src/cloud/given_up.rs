//! Networks that a runtime has removed and that Neutron refused to delete. No engine asks again, so
//! the removal is carried out later.
//!
//! The files are deleted with the boot. The store still has such a network, marked as removed.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{AliasId, Result};

use super::unfinished::file_of;
use crate::files;

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    directory: PathBuf,
}

impl GivenUp {
    /// Below this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.join("given-up") }
    }

    /// It is to go.
    pub(crate) fn add(&self, id: &AliasId) {
        if let Some(path) = file_of(&self.directory, id.as_str()) {
            // Else it goes once no engine lists it.
            let _ = files::write(&self.directory.join("draft"), &path, &id.as_str());
        }
    }

    /// It is gone, or is being made again.
    pub(crate) fn settle(&self, id: &AliasId) {
        if let Some(path) = file_of(&self.directory, id.as_str()) {
            // Removing what is gone does no harm.
            let _ = files::remove(&path);
        }
    }

    /// All that are to go.
    pub(crate) fn all(&self) -> Result<Vec<AliasId>> {
        let names = files::names(&self.directory)?.into_iter();
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Where something happens when there is work.
    pub(crate) fn notifier(&self) -> Result<PathBuf> {
        files::make_directory(&self.directory).map(|()| self.directory.clone())
    }

    /// Rings there.
    pub(crate) fn ring(&self) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // Without the directory there is no worker to wake.
        let _ = File::open(&self.directory).and_then(|directory| directory.set_times(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_remembered_until_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let given_up = GivenUp::at(directory.path());
        let id: AliasId = "0123456789ab".parse().unwrap();
        assert_eq!(given_up.all().unwrap(), []);
        given_up.ring();
        given_up.add(&id);
        given_up.add(&id);
        assert_eq!(given_up.all().unwrap(), std::slice::from_ref(&id));
        given_up.settle(&id);
        given_up.settle(&id);
        assert_eq!(given_up.all().unwrap(), []);
    }
}
