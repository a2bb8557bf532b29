//! Network namespaces of Spoke's, which a path keeps while no process is in them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;

use model::{Error, Result};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::netns::Netns;
use crate::sys;

/// A new thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

impl Netns {
    /// The namespace that `path` keeps; made, with the directories above, where there is none. It
    /// lasts until [`Netns::unmake`], whatever becomes of this process.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_SYS_ADMIN; where the path cannot be written.
    pub fn make(path: &Path) -> Result<Self> {
        if let Ok(there) = Self::open(path) {
            return Ok(there);
        }
        let failed = |cause| Error::os(format!("making namespace {}", path.display()), cause);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        File::options().create(true).append(true).open(path).map_err(failed)?;
        let at = path.to_owned();
        // A thread is in a namespace of its own without moving the others, and leaves it by ending.
        let maker = thread::spawn(move || {
            sys::unshare_network()?;
            mount_bind(OWN, &at)
        });
        let made = maker.join().unwrap_or(Err(Errno::NOTRECOVERABLE));
        made.map_err(|errno| failed(io::Error::from(errno)))?;
        Self::open(path)
    }

    /// Ends what [`Netns::make`] made; what is gone is no error. The namespace itself ends with its
    /// last user.
    ///
    /// # Errors
    /// Where it may not be unmounted, or the file may not be removed.
    pub fn unmake(path: &Path) -> Result<()> {
        let failed = |cause| Error::os(format!("removing namespace {}", path.display()), cause);
        while Self::open(path).is_ok() {
            unmount(path, UnmountFlags::DETACH).map_err(|errno| failed(errno.into()))?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }
}
