//! The volume of network namespaces: a directory of files that each keep one. It is a shared mount,
//! so that what is mounted there later appears in every plugin container. A plugin that is
//! privileged can write there: no symbolic link in it is followed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Error, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Netns, Socket};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::PodId;
use crate::disk::{self, Lock};

/// Where every plugin container has the volume.
pub const INSIDE: &str = "/var/lib/kurma/netns";

/// The directory.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    directory: &'a Path,
}

impl<'a> Volume<'a> {
    /// The volume in `directory`, which need not be there.
    pub fn new(directory: &'a Path) -> Self {
        Self { directory }
    }

    /// Makes it what it has to be, wherever it is not.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_SYS_ADMIN; where the directory cannot be made.
    pub fn prepare(&self) -> Result<()> {
        if self.is_mounted()? {
            return Ok(());
        }
        let path = self.directory;
        let failed = |cause: io::Error| {
            Error::os(format!("making {} the volume of namespaces", path.display()), cause)
        };
        let mut directory = DirBuilder::new();
        directory.recursive(true).mode(0o770).create(path).map_err(failed)?;
        let _lock = self.lock()?;
        if self.is_mounted()? {
            return Ok(());
        }
        let shared = || -> Result<(), Errno> {
            mount_bind(path, path)?;
            // Not with the peers of what it lies on, or every namespace would be mounted there, too.
            mount_change(path, MountPropagationFlags::PRIVATE)?;
            mount_change(path, MountPropagationFlags::SHARED)
        };
        shared().map_err(|errno| failed(errno.into()))
    }

    /// The turn to change what is in the volume without a pod's turn.
    pub(crate) fn lock(&self) -> Result<Lock> {
        Lock::wait(&self.directory.with_extension("lock"))
    }

    /// Its names, sorted; empty where there is no volume.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        disk::names(self.directory, "")
    }

    /// How long ago a namespace was shown under `name`; none where it is gone.
    pub(crate) fn age(&self, name: &str) -> Option<Duration> {
        let shown = fs::symlink_metadata(self.directory.join(name)).ok()?.modified().ok()?;
        // After a clock was set back it counts as young.
        Some(shown.elapsed().unwrap_or_default())
    }

    /// The inode of the namespace that is shown under `name`; none where there is only a file.
    pub(crate) fn inode(&self, name: &str) -> Option<u64> {
        Netns::kept(&self.directory.join(name)).ok().map(|netns| netns.inode())
    }

    /// Whether it is a mount, which [`Volume::prepare`] has at least begun with.
    fn is_mounted(&self) -> Result<bool> {
        match statx(CWD, self.directory, AtFlags::empty(), StatxFlags::BASIC_STATS) {
            Ok(data) if !data.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Ok(false),
            // If a process was killed before this, it is done now.
            Ok(_) => mount_change(self.directory, MountPropagationFlags::SHARED)
                .map(|()| true)
                .map_err(|errno| self.failed(errno)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn failed(&self, errno: Errno) -> Error {
        Error::os(format!("looking at {}", self.directory.display()), errno.into())
    }

    /// A pod's new and empty namespace, with its loopback up; whatever was there before is gone.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_SYS_ADMIN; the kernel's refusal.
    pub fn make(&self, pod: &PodId) -> Result<PathBuf> {
        let path = self.directory.join(pod.as_str());
        Netns::unmake(&path)?;
        Netns::make(&path)?.enter(|| {
            let mut batch = Batch::new();
            batch.change_link(At::Name(&"lo".parse()?), &[Change::Up(true)]);
            Socket::route()?.send(&mut batch)?.into_result()
        })??;
        Ok(path)
    }

    /// Whether the pod's namespace is there.
    pub fn has(&self, pod: &PodId) -> bool {
        Netns::kept(&self.directory.join(pod.as_str())).is_ok()
    }

    /// Removes a pod's namespace; what is gone is removed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&self, pod: &PodId) -> Result<()> {
        Netns::unmake(&self.directory.join(pod.as_str()))
    }

    /// Shows a third party's namespace under `name`, which is one part of a path.
    ///
    /// # Errors
    /// [`model::Kind::Denied`] without CAP_SYS_ADMIN; the kernel's refusal.
    pub fn show(&self, name: &str, netns: &Netns) -> Result<()> {
        let path = self.directory.join(name);
        if Netns::kept(&path).is_ok_and(|there| there.is_same(netns)) {
            return Ok(());
        }
        Netns::unmake(&path)?;
        netns.keep_at(&path)
    }

    /// Whether a namespace is shown under `name`.
    pub fn shows(&self, name: &str) -> bool {
        Netns::kept(&self.directory.join(name)).is_ok()
    }

    /// Ends what [`Volume::show`] began; what is gone is no error.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn hide(&self, name: &str) -> Result<()> {
        Netns::unmake(&self.directory.join(name))
    }
}
