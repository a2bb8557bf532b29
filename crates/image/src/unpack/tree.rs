//! Making files below one directory, and nowhere else.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::{Error, Result};
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::{Budget, Entry, Kind};

/// The treatment of a path that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twice {
    /// It is an error: in an App Container image.
    Refused,
    /// The new one stands in its place: in a layer over others.
    Replaced,
}

/// A directory that is being filled.
pub(crate) struct Tree<'b> {
    root: OwnedFd,
    pub(crate) budget: &'b mut Budget,
    twice: Twice,
    /// The paths of this archive.
    made: HashSet<PathBuf>,
    /// Where nothing is left of what was there before.
    cleared: HashSet<PathBuf>,
    /// The directory that was written to last: archives come sorted.
    last: Option<(PathBuf, OwnedFd)>,
    /// Whether files can be given away.
    is_root: bool,
    buffer: Vec<u8>,
}

impl<'b> Tree<'b> {
    /// Fills the directory `path`.
    pub(crate) fn open(path: &Path, twice: Twice, budget: &'b mut Budget) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| os("opening", path, errno))?;
        Ok(Self {
            root,
            budget,
            twice,
            made: HashSet::new(),
            cleared: HashSet::new(),
            last: None,
            is_root: rustix::process::geteuid().is_root(),
            buffer: vec![0; 1 << 17],
        })
    }

    /// Makes what `entry` is at `path`, with `content`; `link` is what a hard link is another name of.
    pub(crate) fn put(
        &mut self,
        path: &Path,
        entry: &Entry,
        link: Option<&Path>,
        content: &mut dyn Read,
    ) -> Result<()> {
        if self.made.contains(path) && self.twice == Twice::Refused {
            return Err(Error::invalid("it is in the archive twice"));
        }
        self.remember(path)?;
        let name = name(path)?;
        self.make_way(path, name, entry.kind)?;
        let parent = self.parent(path)?;
        let failed = |errno| os("making", path, errno);
        match entry.kind {
            Kind::File => return self.file(path, name, entry, content),
            Kind::Directory => match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            },
            Kind::Symbolic => {
                rustix::fs::symlinkat(OsStr::from_bytes(&entry.link), &parent, name)
                    .map_err(failed)?;
            }
            Kind::Fifo => {
                let kind = FileType::Fifo;
                rustix::fs::mknodat(&parent, name, kind, Mode::RUSR, 0).map_err(failed)?;
            }
            Kind::Hard => return self.link(path, name, link),
            Kind::Device => {
                return Err(Error::invalid("it is a device: an image may not hold one"));
            }
        }
        self.adorn(&parent, path, entry)
    }

    /// Knows that this archive brought `path`, and in a layer what is above: a directory stays where
    /// only what is in it was named.
    fn remember(&mut self, path: &Path) -> Result<()> {
        let levels = if self.twice == Twice::Replaced { usize::MAX } else { 1 };
        for path in path.ancestors().take(levels) {
            if self.made.contains(path) {
                break;
            }
            self.budget.path(path)?;
            self.made.insert(path.to_owned());
        }
        Ok(())
    }

    /// Removes what lies at `path`, except what this archive brought.
    pub(crate) fn remove(&mut self, path: &Path) -> Result<()> {
        let Some(parent) = self.existing(path)? else { return Ok(()) };
        self.last = None;
        self.remove_below(&parent, name(path)?, path)
    }

    /// Empties the directory `path`, except of what this archive brought.
    pub(crate) fn clear(&mut self, path: &Path) -> Result<()> {
        if self.cleared.contains(path) {
            return Ok(());
        }
        self.budget.path(path)?;
        self.cleared.insert(path.to_owned());
        self.last = None;
        match self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)? {
            Ok(directory) => self.clear_open(&directory, path),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(escape(path, errno)),
        }
    }

    fn file(
        &mut self,
        path: &Path,
        name: &OsStr,
        entry: &Entry,
        content: &mut dyn Read,
    ) -> Result<()> {
        let parent = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::RUSR)
            .map_err(|errno| os("making", path, errno))?;
        let mut file = File::from(file);
        self.copy(content, &mut file).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::invalid("it is cut off"),
            _ => Error::os("writing", error),
        })?;
        let failed = |errno| os("changing", path, errno);
        if self.is_root {
            let (uid, gid) = owner(entry);
            forgive(rustix::fs::fchown(&file, uid, gid)).map_err(failed)?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(entry.mode)).map_err(failed)?;
        if let Some(value) = &entry.capability {
            let name = "security.capability";
            forgive(rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()))
                .map_err(failed)?;
        }
        rustix::fs::futimens(&file, &times(entry)).map_err(failed)
    }

    fn copy(&mut self, content: &mut dyn Read, file: &mut File) -> io::Result<()> {
        let mut remaining = entry_end(content, &mut self.buffer)?;
        while remaining > 0 {
            file.write_all(&self.buffer[..remaining])?;
            remaining = entry_end(content, &mut self.buffer)?;
        }
        Ok(())
    }

    fn link(&mut self, path: &Path, name: &OsStr, to: Option<&Path>) -> Result<()> {
        let to = to.ok_or_else(|| Error::invalid("it is a link to nothing"))?;
        let missing = || Error::invalid(format!("it is a link to {to:?}, which is not there"));
        let from = self.existing(to)?.ok_or_else(missing)?;
        let parent = self.parent(path)?;
        match rustix::fs::linkat(&from, self::name(to)?, &parent, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(missing()),
            Err(errno) => Err(os("linking", path, errno)),
        }
    }

    /// Owner and mode of what is no file.
    fn adorn(&self, parent: &OwnedFd, path: &Path, entry: &Entry) -> Result<()> {
        let (name, failed) = (name(path)?, |errno| os("changing", path, errno));
        if self.is_root {
            let (uid, gid) = owner(entry);
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            forgive(rustix::fs::chownat(parent, name, uid, gid, flags)).map_err(failed)?;
        }
        if entry.kind != Kind::Symbolic {
            // A directory that its owner cannot enter could be filled and removed by root only.
            let own = if entry.kind == Kind::Directory { 0o700 } else { 0 };
            let mode = Mode::from_raw_mode(entry.mode | own);
            rustix::fs::chmodat(parent, name, mode, AtFlags::empty()).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes what cannot stay where something of `kind` comes.
    fn make_way(&mut self, path: &Path, name: &OsStr, kind: Kind) -> Result<()> {
        let parent = self.parent(path)?;
        let there = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => FileType::from_raw_mode(there.st_mode),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(os("looking at", path, errno)),
        };
        if there == FileType::Directory && kind == Kind::Directory {
            return Ok(());
        }
        if self.twice == Twice::Refused {
            return Err(Error::invalid("something else of that path is in the archive"));
        }
        self.last = None;
        netlink::remove_tree_at(&parent, name)
            .map_err(|error| Error::os(format!("replacing {path:?}"), error))
    }

    fn remove_below(&mut self, parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
        if !self.made.contains(path) {
            return netlink::remove_tree_at(parent, name)
                .map_err(|error| Error::os(format!("removing {path:?}"), error));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(directory) => self.clear_open(&directory, path),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(()),
            Err(errno) => Err(os("opening", path, errno)),
        }
    }

    /// As deep as an archive may be, no more.
    fn clear_open(&mut self, directory: &OwnedFd, path: &Path) -> Result<()> {
        let mut started = Instant::now();
        for name in names(directory).map_err(|errno| os("reading", path, errno))? {
            self.budget.follow(started.elapsed())?;
            self.remove_below(directory, &name, &path.join(&name))?;
            started = Instant::now();
        }
        Ok(())
    }

    /// The directory that `path` is in; it is made where it is missing.
    fn parent(&mut self, path: &Path) -> Result<OwnedFd> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let again = |fd: &OwnedFd| fd.try_clone().map_err(|error| Error::os("opening", error));
        if let Some((last, fd)) = &self.last
            && last == directory
        {
            return again(fd);
        }
        let fd = match self.open_directory(directory)? {
            Ok(fd) => fd,
            Err(Errno::NOENT) => self.make_directory(directory)?,
            Err(errno) => return Err(escape(directory, errno)),
        };
        let copy = again(&fd)?;
        self.last = Some((directory.to_owned(), fd));
        Ok(copy)
    }

    fn make_directory(&mut self, path: &Path) -> Result<OwnedFd> {
        let mut whole = PathBuf::new();
        for part in path {
            let parent = self.open_directory(&whole)?.map_err(|errno| escape(path, errno))?;
            whole.push(part);
            let made = rustix::fs::mkdirat(&parent, part, Mode::from_raw_mode(0o755));
            match made {
                Ok(()) => self.budget.imply()?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(os("making", &whole, errno)),
            }
        }
        self.open_directory(path)?.map_err(|errno| escape(path, errno))
    }

    /// The directory that `path` is in, if it exists.
    fn existing(&mut self, path: &Path) -> Result<Option<OwnedFd>> {
        let directory = path.parent().unwrap_or(Path::new(""));
        match self.open_directory(directory)? {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(escape(directory, errno)),
        }
    }

    fn open_directory(&mut self, path: &Path) -> Result<rustix::io::Result<OwnedFd>> {
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens `path`; an error of its own if following paths has taken too long by now.
    fn resolve(&mut self, path: &Path, flags: OFlags) -> Result<rustix::io::Result<OwnedFd>> {
        let started = Instant::now();
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let mut tries = 100;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), how) {
                // A concurrent rename, and the path has a link with `..` in it.
                Err(Errno::AGAIN) if tries > 0 => tries -= 1,
                result => {
                    self.budget.follow(started.elapsed())?;
                    return Ok(result);
                }
            }
        }
    }
}

fn name(path: &Path) -> Result<&OsStr> {
    path.file_name().ok_or_else(|| Error::invalid("it is no path"))
}

/// Fills `buffer` as far as the entry goes.
fn entry_end(content: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

fn names(directory: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn owner(entry: &Entry) -> (Option<Uid>, Option<Gid>) {
    // All ones mean "leave it" to the kernel.
    let valid = |id: u32| (id != u32::MAX).then_some(id);
    (valid(entry.uid).map(Uid::from_raw), valid(entry.gid).map(Gid::from_raw))
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec { tv_sec: entry.modified, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// Root of a user namespace cannot give files to every user, nor set capabilities everywhere.
fn forgive(result: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match result {
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

fn escape(path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::XDEV | Errno::LOOP => {
            Error::invalid(format!("{path:?} leads out of the image through a link"))
        }
        Errno::NOTDIR => Error::invalid(format!("{path:?} is no directory, yet has entries")),
        errno => os("opening", path, errno),
    }
}

fn os(doing: &str, path: &Path, errno: Errno) -> Error {
    Error::os(format!("{doing} {path:?}"), errno.into())
}
