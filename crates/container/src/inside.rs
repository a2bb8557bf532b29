//! Paths inside of a container's root. No symbolic link leads out of it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::fault::{Doing, Fault};

/// A directory that is taken for `/`.
#[derive(Debug)]
pub(crate) struct Inside(OwnedFd);

/// The kind of a mount's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Directory,
    File,
}

impl Inside {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self(root)
    }

    /// The file at `path`, without opening it.
    pub(crate) fn find(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // EAGAIN: something was renamed meanwhile.
        let mut tries = 0;
        loop {
            match openat2(&self.0, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < 100 => tries += 1,
                result => return result,
            }
        }
    }

    /// The file at `path`; made, with the directories above, if it is missing.
    pub(crate) fn make(&self, path: &Path, target: Target) -> Result<OwnedFd, Fault> {
        let found = self.make_all(path, target);
        found.wanted(format_args!("{} as target of a mount in the container", path.display()))
    }

    fn make_all(&self, path: &Path, target: Target) -> Result<OwnedFd, Errno> {
        let mut parts: Vec<&OsStr> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(part) => parts.push(part),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
            }
        }
        let last = parts.len();
        let (mut at, mut above) = (PathBuf::from("."), self.find(Path::new("."))?);
        for (index, part) in parts.into_iter().enumerate() {
            at.push(part);
            let is_file = index + 1 == last && target == Target::File;
            above = match self.find(&at) {
                Err(Errno::NOENT) => {
                    make_one(above.as_fd(), part, is_file)?;
                    self.find(&at)?
                }
                result => result?,
            };
        }
        let is_directory = FileType::from_raw_mode(fstat(&above)?.st_mode) == FileType::Directory;
        match (target, is_directory) {
            (Target::Directory, false) => Err(Errno::NOTDIR),
            (Target::File, true) => Err(Errno::ISDIR),
            _ => Ok(above),
        }
    }

    /// Makes a symbolic link, unless there is something.
    pub(crate) fn link(&self, path: &str, to: &str) -> Result<(), Fault> {
        let path = Path::new(path);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let above = self.make(above, Target::Directory)?;
        match rustix::fs::symlinkat(to, &above, name) {
            Err(Errno::EXIST) => Ok(()),
            result => result.doing(format_args!("making the link {}", path.display())),
        }
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn make_one(above: BorrowedFd<'_>, name: &OsStr, is_file: bool) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(0o755);
    if !is_file {
        return mkdirat(above, name, mode);
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(above, name, flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o644)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::open;

    use super::*;

    fn inside(root: &Path) -> Inside {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Inside::new(open(root, flags, Mode::empty()).unwrap())
    }

    #[test]
    fn links_lead_nowhere_but_inside() {
        let home = tempfile::tempdir().unwrap();
        let (root, out) = (home.path().join("root"), home.path().join("out"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&out).unwrap();
        symlink(&out, root.join("absolute")).unwrap();
        symlink("../../../../out", root.join("relative")).unwrap();
        symlink("/etc", root.join("etc-link")).unwrap();
        fs::create_dir(root.join("etc")).unwrap();
        let inside = inside(&root);
        // Dangling in there, though not outside.
        for path in ["/absolute/x", "/relative/x"] {
            assert!(inside.make(Path::new(path), Target::Directory).is_err(), "{path}");
        }
        inside.make(Path::new("/etc-link/a/b"), Target::File).unwrap();
        assert!(root.join("etc/a/b").is_file());
        assert!(inside.make(Path::new("/a/../../out/y"), Target::File).is_err());
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_is_of_the_right_kind() {
        let home = tempfile::tempdir().unwrap();
        let inside = inside(home.path());
        inside.make(Path::new("/d/e"), Target::Directory).unwrap();
        inside.make(Path::new("/d/e"), Target::Directory).unwrap();
        inside.make(Path::new("/d/f"), Target::File).unwrap();
        assert!(inside.make(Path::new("/d/e"), Target::File).is_err());
        assert!(inside.make(Path::new("/d/f"), Target::Directory).is_err());
        inside.link("/d/l", "/proc/self/fd").unwrap();
        inside.link("/d/l", "/proc/self/fd").unwrap();
        assert_eq!(fs::read_link(home.path().join("d/l")).unwrap(), Path::new("/proc/self/fd"));
    }
}
