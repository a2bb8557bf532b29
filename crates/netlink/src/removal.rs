//! Removing a directory with all that is in it, however deep that is.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, unlinkat};
use rustix::io::Errno;

/// A directory on the path.
struct Level {
    /// Its name in the one above.
    name: OsString,
    /// Its identity: `..` must lead back to it.
    place: FileId,
    /// The remaining entries in it.
    names: Vec<OsString>,
}

type FileId = (u64, u64);

/// Removes what is at `path`, whatever it is; nothing, if nothing is there. Of all directories on the
/// way only one is open at a time, so that no depth is too much, and symbolic links are not followed.
///
/// # Errors
/// The kernel's refusal; what is mounted in there, or is moved elsewhere meanwhile, is refused.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    remove_tree_at(CWD, path.as_os_str())
}

/// As [`remove_tree`], of `name` in the directory `above`.
///
/// # Errors
/// As of [`remove_tree`].
pub fn remove_tree_at(above: impl AsFd, name: &OsStr) -> io::Result<()> {
    match unlink(above.as_fd(), name) {
        Err(Errno::ISDIR) => {}
        result => return Ok(result?),
    }
    let mut directory = open(above.as_fd(), name)?;
    let (mut levels, mut level) = (Vec::new(), Level::of(&directory, name.to_owned())?);
    loop {
        if let Some(below) = level.names.pop() {
            match unlink(directory.as_fd(), &below) {
                Err(Errno::ISDIR) => {}
                result => {
                    result?;
                    continue;
                }
            }
            let next = open(directory.as_fd(), &below)?;
            let next_level = Level::of(&next, below)?;
            if next_level.place.0 != level.place.0 {
                return Err(Errno::XDEV.into());
            }
            levels.push(std::mem::replace(&mut level, next_level));
            directory = next;
            continue;
        }
        let Some(up) = levels.pop() else { break };
        let parent = open(directory.as_fd(), OsStr::new(".."))?;
        if place(&fstat(&parent)?) != up.place {
            return Err(Errno::BUSY.into());
        }
        unlinkat(&parent, &level.name, AtFlags::REMOVEDIR)?;
        (directory, level) = (parent, up);
    }
    Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)
}

impl Level {
    fn of(directory: &OwnedFd, name: OsString) -> io::Result<Self> {
        Ok(Self { name, place: place(&fstat(directory)?), names: names(directory)? })
    }
}

fn place(stat: &Stat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

/// Removes what is no directory: that is [`Errno::ISDIR`].
fn unlink(above: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(above, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        // POSIX's word for it, which some file systems use.
        Err(Errno::PERM) if open(above, name).is_ok() => Err(Errno::ISDIR),
        result => result,
    }
}

fn open(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::mkdirat;

    use super::*;

    /// Far more levels than a process may have files open, and than a path can name.
    #[test]
    fn a_deep_tree_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut at = open(CWD, top.as_os_str()).unwrap();
        for _ in 0..5000 {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(at.as_fd(), OsStr::new("d")).unwrap();
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        remove_tree(&top).unwrap();
    }

    #[test]
    fn links_are_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (top, kept) = (home.path().join("top"), home.path().join("kept"));
        for path in ["top/a/b", "top/c", "kept"] {
            fs::create_dir_all(home.path().join(path)).unwrap();
        }
        for path in ["top/a/b/f", "top/c/f", "top/f", "kept/f"] {
            fs::write(home.path().join(path), "").unwrap();
        }
        symlink(&kept, top.join("a/link")).unwrap();
        symlink(&kept, home.path().join("link")).unwrap();
        remove_tree(&top).unwrap();
        remove_tree(&home.path().join("link")).unwrap();
        assert!(kept.join("f").exists() && !top.exists());
    }
}
