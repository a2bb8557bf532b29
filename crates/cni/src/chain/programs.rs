//! The plugins of one network, as they are called for it.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::{fs, io};

use model::{AttachmentId, Error, NetworkName, Result};

use super::{Chain, parking};
use crate::runtime::Programs;

/// Where turns are, below the directory of what goes with the boot.
const LOCKS: &str = "turns";

/// Those in `path` that make the attachments of `network`.
pub(super) fn of(path: &[PathBuf], network: &NetworkName) -> Programs<'static> {
    Programs { chain: Some(network.clone()), ..Programs::new(path.to_vec(), &complain) }
}

pub(super) fn complain(answer: &[u8]) {
    // Without standard error there is no reader.
    let _ = io::stderr().write_all(answer);
}

impl Chain {
    /// Those in `path` for one attachment, one at a time.
    pub(super) fn programs(&self, path: &[PathBuf], id: &AttachmentId) -> Programs<'static> {
        Programs { lock: Some(self.lock_path(id)), ..of(path, &id.network) }
    }

    fn lock_path(&self, id: &AttachmentId) -> PathBuf {
        self.directory.join(LOCKS).join(parking::name(id))
    }

    /// No caller waits for a turn any more.
    pub(super) fn remove_lock(&self, id: &AttachmentId) -> Result<()> {
        self.remove_lock_called(&parking::name(id))
    }

    /// The same where nothing but its name is known.
    pub(super) fn remove_lock_called(&self, name: &str) -> Result<()> {
        let file = self.directory.join(LOCKS).join(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::os(format!("removing {}", file.display()), error))
            }
            _ => Ok(()),
        }
    }
}
