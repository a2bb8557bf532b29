//! Watches for changes by any process (inotify(7)).
//!
//! A record's file is moved into place and unlinked, so each change of a record is an event that
//! names its file; that it was prepared is another one, which is passed over. There may be fewer
//! events than changes, but none arrives later than [`Watch::wait`]. Where the kernel lost some,
//! everything is read again and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::port::{Key, Prefix, Versioned};
use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::file::{self, Kind, LARGEST};
use super::path::{self, Scan};
use super::{Embedded, Reach};

/// A record that was written or deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// Its name.
    pub key: Key,
    /// The present value; `None` where it was deleted.
    pub now: Option<Versioned>,
}

/// Reports changes below some prefixes of a store.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    scans: Vec<(PathBuf, Scan)>,
    directories: BTreeMap<i32, Directory>,
    known: BTreeMap<PathBuf, Key>,
    stale: bool,
}

/// A directory that is watched.
#[derive(Clone, Debug)]
struct Directory {
    path: PathBuf,
    kind: Kind,
    /// Whether its entries are directories of records rather than records.
    nests: bool,
}

/// An event, as far as it matters.
enum StoreEvent {
    Written(Directory, String),
    Deleted(Directory, String),
    Everything,
}

impl Embedded {
    /// Watches what is below `prefixes`; makes the store's directories where they are missing. The
    /// first [`Watch::wait`] reports every record that exists.
    pub fn watch(&self, prefixes: &[Prefix]) -> Result<Watch> {
        drop(self.lock(Reach::Both)?);
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(failed)?;
        let scan = |prefix: &Prefix| {
            let scan = Scan::of(prefix);
            (self.half(scan.kind.is_durable()).root().to_owned(), scan)
        };
        let scans = prefixes.iter().map(scan).collect();
        let (directories, known) = (BTreeMap::new(), BTreeMap::new());
        Ok(Watch { inotify, scans, directories, known, stale: true })
    }
}

impl AsFd for Watch {
    /// Readable where there are events, maybe only of what is passed over: then [`Watch::wait`] waits on for the rest of
    /// its limit.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watch {
    /// The changes since the last call. Waits for a change for at most `limit`, and is empty where
    /// there was none. A record that changed several times is reported at least once, with its
    /// present value.
    pub fn wait(&mut self, limit: Duration) -> Result<Vec<Changed>> {
        let mut changes = Vec::new();
        for seen in self.seen(limit)? {
            match seen {
                StoreEvent::Written(directory, name) => {
                    self.written(&directory, &name, &mut changes)?
                }
                StoreEvent::Deleted(directory, name) => {
                    let key = self.known.remove(&directory.path.join(name));
                    changes.extend(key.map(|key| Changed { key, now: None }));
                }
                StoreEvent::Everything => self.stale = true,
            }
        }
        if self.stale {
            self.read_all(&mut changes)?;
            self.stale = false;
        }
        Ok(changes)
    }

    /// The events since the last call. Waits for one where there is none.
    fn seen(&mut self, limit: Duration) -> Result<Vec<StoreEvent>> {
        let began = Instant::now();
        loop {
            if !self.stale {
                self.sleep(limit.saturating_sub(began.elapsed()))?;
            }
            let seen = self.drain()?;
            if self.stale || !seen.is_empty() || began.elapsed() >= limit {
                return Ok(seen);
            }
        }
    }

    fn sleep(&self, limit: Duration) -> Result<()> {
        let limit = Timespec::try_from(limit).ok();
        match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(cause) => Err(failed(cause)),
        }
    }

    fn drain(&mut self) -> Result<Vec<StoreEvent>> {
        let mut buffer = [const { MaybeUninit::uninit() }; 8192];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut all = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return Ok(all),
                Err(Errno::INTR) => continue,
                Err(cause) => return Err(failed(cause)),
            };
            let (what, wd) = (event.events(), event.wd());
            let name = event.file_name().and_then(|name| name.to_str().ok()).map(str::to_owned);
            let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
            if what.contains(ReadFlags::IGNORED) {
                self.directories.remove(&wd);
            }
            all.extend(match (self.directories.get(&wd), name) {
                _ if what.intersects(lost) => Some(StoreEvent::Everything),
                // A file that is being prepared.
                (Some(directory), Some(name)) if !directory.nests && name.starts_with('.') => None,
                (Some(directory), Some(name)) if what.intersects(GONE) => {
                    Some(StoreEvent::Deleted(directory.clone(), name))
                }
                (Some(directory), Some(name)) => Some(StoreEvent::Written(directory.clone(), name)),
                (_, _) => None,
            });
        }
    }

    fn written(
        &mut self,
        directory: &Directory,
        name: &str,
        changes: &mut Vec<Changed>,
    ) -> Result<()> {
        let path = directory.path.join(name);
        if directory.nests {
            let below = Directory { path, kind: directory.kind, nests: false };
            return self.read_directory(below, changes);
        }
        self.read_file(directory.kind, &path, changes);
        Ok(())
    }

    /// Everything again; what was known and is there no more has been deleted. Of a file that cannot be read what was known
    /// of it holds.
    fn read_all(&mut self, changes: &mut Vec<Changed>) -> Result<()> {
        let before: BTreeSet<PathBuf> = self.known.keys().cloned().collect();
        let at = changes.len();
        let tops: Vec<Directory> = self
            .scans
            .iter()
            .map(|(root, scan)| Directory {
                path: root.join(&scan.directory),
                kind: scan.kind,
                nests: scan.nested,
            })
            .collect();
        for top in tops {
            make(&top.path).map_err(|cause| unmade(&top.path, cause))?;
            self.read_directory(top, changes)?;
        }
        let now: BTreeSet<&Key> = changes[at..].iter().map(|change| &change.key).collect();
        let gone: Vec<PathBuf> = before
            .into_iter()
            .filter(|path| self.known.get(path).is_some_and(|key| !now.contains(key)))
            .filter(|path| std::fs::symlink_metadata(path).is_err())
            .collect();
        for path in gone {
            let key = self.known.remove(&path);
            changes.extend(key.map(|key| Changed { key, now: None }));
        }
        Ok(())
    }

    fn read_directory(&mut self, directory: Directory, changes: &mut Vec<Changed>) -> Result<()> {
        // Watched first, then read: what comes in between is seen twice rather than never.
        let events = if directory.nests { NESTING } else { EVENTS };
        match inotify::add_watch(&self.inotify, &directory.path, events) {
            Ok(wd) => self.directories.insert(wd, directory.clone()),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(cause) => return Err(failed(cause)),
        };
        let Ok(entries) = std::fs::read_dir(&directory.path) else { return Ok(()) };
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str() {
                self.written(&directory, name, changes)?;
            }
        }
        Ok(())
    }

    /// Other code reports files that cannot be read.
    fn read_file(&mut self, kind: Kind, path: &Path, changes: &mut Vec<Changed>) {
        let is_record =
            path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
        let is_small = || std::fs::metadata(path).is_ok_and(|file| file.len() <= LARGEST as u64);
        if !is_record || !is_small() {
            return;
        }
        let Ok(bytes) = std::fs::read(path) else { return };
        if let Ok((key, now)) = file::decode(kind, &bytes) {
            // A copy that an operator or an editor made beside the record says nothing of it, nor does its end.
            if !path.ends_with(path::of(&key)) {
                return;
            }
            self.known.insert(path.to_owned(), key.clone());
            changes.push(Changed { key, now: Some(now) });
        }
    }
}

/// Records are moved into place, directories are made. An operator who mends a damaged record may write into its file.
const EVENTS: WatchFlags = WatchFlags::MOVED_TO
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::ONLYDIR);
const NESTING: WatchFlags = EVENTS.union(WatchFlags::CREATE);
const GONE: ReadFlags = ReadFlags::DELETE.union(ReadFlags::MOVED_FROM);

fn make(directory: &Path) -> std::io::Result<()> {
    let mut make = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700);
    make.recursive(true).create(directory)
}

fn unmade(path: &Path, cause: std::io::Error) -> Error {
    Error::os(format!("making {}", path.display()), cause)
}

fn failed(cause: Errno) -> Error {
    Error::os("watching the store for changes", cause.into())
}
