//! Network namespaces of Spoke's, which a path keeps while no process is in them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;

use model::{Error, Result};
use rustix::fs::OFlags;
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
        if let Ok(there) = Self::kept(path) {
            return Ok(there);
        }
        let failed = |cause| Error::os(format!("making namespace {}", path.display()), cause);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut options = File::options();
        let file = options.create(true).append(true).custom_flags(nofollow()).open(path);
        let file = file.map_err(failed)?;
        // A thread is in a namespace of its own without moving the others, and leaves it by ending.
        let maker = thread::spawn(move || {
            sys::unshare_network()?;
            mount_bind(OWN, through(&file))
        });
        let made = maker.join().unwrap_or(Err(Errno::NOTRECOVERABLE));
        made.map_err(|errno| failed(io::Error::from(errno)))?;
        Self::kept(path)
    }

    /// Has `path`, where nothing may be, keep this namespace until [`Netns::unmake`].
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_SYS_ADMIN; where something is at `path`.
    pub fn keep_at(&self, path: &Path) -> Result<()> {
        let failed =
            |cause| Error::os(format!("mounting a namespace at {}", path.display()), cause);
        let mut options = File::options();
        let file = options.create_new(true).append(true).mode(0o600).custom_flags(nofollow());
        let file = file.open(path).map_err(failed)?;
        mount_bind(through(self), through(&file)).map_err(|errno| failed(errno.into()))
    }

    /// Ends what [`Netns::make`] made; what is gone is no error. The namespace itself ends with its
    /// last user. Of a symbolic link the link is removed, and nothing where it leads.
    ///
    /// # Errors
    /// Where it may not be unmounted, or the file may not be removed.
    pub fn unmake(path: &Path) -> Result<()> {
        let failed = |cause| Error::os(format!("removing namespace {}", path.display()), cause);
        while Self::kept(path).is_ok() {
            unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                .map_err(|errno| failed(errno.into()))?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

/// A path to an open file, whatever its name leads to by now.
fn through(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// For `open`, whose numbers are of this type.
fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()
}
