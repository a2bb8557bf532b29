//! Network namespaces: checked when opened, and never resolved by path again.

mod id;

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::abort;

use model::{Error, Result};
use rustix::fs::{FsWord, Mode, OFlags, fstat, fstatfs, open};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::outcome::refused;
use crate::sys;

/// The calling thread's own namespace.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// An open network namespace. It exists as long as this value, whatever happens to its path.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    device: u64,
    inode: u64,
}

impl Netns {
    /// Opens the namespace at `path`.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] if there is nothing, or something that is not a network
    /// namespace; [`model::Kind::Denied`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, OFlags::empty())
    }

    /// The same where `path` itself is the namespace, and no symbolic link to it. Of a file that a
    /// container may have made, nothing else is known.
    ///
    /// # Errors
    /// As of [`Netns::open`]; a symbolic link is [`model::Kind::Invalid`].
    pub fn kept(path: &Path) -> Result<Self> {
        Self::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, flags: OFlags) -> Result<Self> {
        // Opening a device or a pipe has side effects: the file's type is checked before.
        let there = open(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
            .map_err(|errno| unusable(path, errno))?;
        let system = fstatfs(&there).map_err(|errno| unusable(path, errno))?;
        if system.f_type != NSFS_MAGIC {
            let what = format!("{} is not a namespace", path.display());
            return Err(Error::invalid(what));
        }
        let itself = format!("/proc/thread-self/fd/{}", there.as_raw_fd());
        let fd = open(itself, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| unusable(path, errno))?;
        let kind = sys::namespace_type(&fd).map_err(|errno| unusable(path, errno))?;
        if kind != libc::CLONE_NEWNET {
            let what = format!("{} is a namespace, but not of networks", path.display());
            return Err(Error::invalid(what));
        }
        Self::known(fd).map_err(|errno| unusable(path, errno))
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// Where `/proc` is not mounted, or the process may not open more files.
    pub fn current() -> Result<Self> {
        let about = "opening the own network namespace";
        Self::known(current()?).map_err(|errno| refused(about, errno))
    }

    fn known(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(&fd)?;
        Ok(Self { fd, device: stat.st_dev, inode: stat.st_ino })
    }

    /// The inode in the kernel's namespace file system: what `readlink /proc/PID/ns/net` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// What a file is called that stands for this namespace.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}", self.device, self.inode)
    }

    /// Whether both are the same namespace.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Does `work` with the calling thread in this namespace. Sockets and files that it opens
    /// stay there. The thread is back in its namespace afterwards, also after a panic; if it
    /// could not return, the process is aborted, because everything later would happen in the
    /// wrong place.
    ///
    /// # Errors
    /// If the namespace cannot be entered: [`model::Kind::Denied`] without CAP_SYS_ADMIN.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let home = current()?;
        step_into(&self.fd).map_err(|errno| {
            refused(format!("entering network namespace {}", self.inode), errno)
        })?;
        let _return = Return { home };
        Ok(work())
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `NSFS_MAGIC` (`linux/magic.h`).
const NSFS_MAGIC: FsWord = 0x6e73_6673;

/// The way back.
struct Return {
    home: OwnedFd,
}

impl Drop for Return {
    fn drop(&mut self) {
        if step_into(&self.home).is_err() {
            abort();
        }
    }
}

fn current() -> Result<OwnedFd> {
    let file = fs::File::open(CURRENT)
        .map_err(|error| Error::os("opening the own network namespace", error))?;
    Ok(file.into())
}

fn step_into(namespace: &OwnedFd) -> Result<(), Errno> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

fn unusable(path: &Path, errno: Errno) -> Error {
    let what = format!("opening network namespace {}", path.display());
    match errno {
        Errno::PERM | Errno::ACCESS => refused(what, errno),
        _ => Error::invalid(what).because(std::io::Error::from(errno)),
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    #[test]
    fn what_is_not_a_network_namespace_is_refused() {
        for path in ["/nowhere", "/etc/passwd", "/dev/null", "/proc/self/ns/mnt", "/"] {
            let error = Netns::open(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains(path), "{error}");
        }
    }

    #[test]
    fn what_is_no_namespace_is_not_opened() {
        use rustix::fs::inotify;
        let name = format!("spoke-netns-{}", std::process::id());
        let pipe = std::env::temp_dir().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, &pipe, inotify::WatchFlags::OPEN).unwrap();
        let refused = Netns::open(&pipe);
        let mut buffer = [0; 64];
        let seen = rustix::io::read(&watch, &mut buffer);
        fs::remove_file(&pipe).unwrap();
        assert_eq!(refused.unwrap_err().kind(), Kind::Invalid);
        assert_eq!(seen, Err(Errno::AGAIN), "a writer may wait for a reader");
    }

    #[test]
    fn the_own_namespace_is_known() {
        let own = Netns::open(Path::new("/proc/self/ns/net")).unwrap();
        assert!(own.is_same(&Netns::current().unwrap()));
        let link = fs::read_link("/proc/self/ns/net").unwrap();
        assert_eq!(link.to_str().unwrap(), format!("net:[{}]", own.inode()));
    }
}
