//! An open root of one half of the store: its files, and its lock.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use engine::port::Damaged;
use model::{Error, Result};
use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::file::LARGEST;
use super::header::{self, Header, State, Unread};
use super::{damaged, path};

/// How long a process waits for the others. A transaction of this boot takes microseconds. One that also writes
/// durable records holds both locks while these reach the disk, four times one after the other: where a disk is
/// slow, or several wait, that takes seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An open root. Its lock is held by the process, so threads take turns by other means.
#[derive(Debug)]
pub(super) struct Open {
    root: PathBuf,
    durable: bool,
    directory: OwnedFd,
    lock: OwnedFd,
}

/// The names in a directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) whole: Vec<Name>,
    /// Which no record has.
    pub(super) odd: Vec<Damaged>,
}

/// A name, and the number of what has it.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) inode: u64,
}

/// Opens the lock file of a root, and makes it where it is missing. A store that is read-only can be read; one without
/// a lock file cannot, as nothing says whether a transaction is under way.
fn open_lock(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |how: OFlags| fs::openat(directory, "lock", how | flags, FILE_MODE);
    match open(OFlags::RDWR | OFlags::CREATE) {
        Err(cause @ (Errno::ROFS | Errno::ACCESS)) => {
            open(OFlags::RDONLY).map_err(|why| match why {
                Errno::NOENT => cause,
                why => why,
            })
        }
        opened => opened,
    }
}

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// The mode of a record whose caller does not have its result yet.
const UNREPORTED: Mode = Mode::from_raw_mode(0o700);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);

impl Open {
    /// The root, if there is one.
    pub(super) fn at(root: &Path, durable: bool) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match fs::open(root, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(cause) => return Err(failed("cannot open store", root, cause)),
        };
        match open_lock(&directory) {
            Ok(lock) => Ok(Some(Self { root: root.to_owned(), durable, directory, lock })),
            // The root was removed meanwhile.
            Err(Errno::NOENT) => Ok(None),
            Err(cause) => Err(failed("cannot open", &root.join("lock"), cause)),
        }
    }

    /// The file's contents; `None` where there is no file. Fails with `Invalid` where what exists
    /// is no file of records.
    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.directory, path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(cause) => return Err(self.unreadable("cannot open", path, cause)),
        };
        let mut first = [MaybeUninit::<u8>::uninit(); 8192];
        let (start, rest) = rustix::io::read(&file, &mut first)
            .map_err(|cause| self.unreadable("cannot read", path, cause))?;
        let mut bytes = start.to_vec();
        if rest.is_empty() {
            let limit = LARGEST as u64 + 1;
            io::Read::read_to_end(
                &mut io::Read::take(std::fs::File::from(file), limit),
                &mut bytes,
            )
            .map_err(|cause| Error::os(self.sentence("cannot read", path), cause))?;
        }
        if bytes.len() > LARGEST {
            return Err(damaged(&self.path(path), "no record is of this size"));
        }
        Ok(Some(bytes))
    }

    /// The names in a directory, those in the making aside; none where there is no directory. Fails with
    /// `Invalid` where something else is there.
    pub(super) fn names(&self, directory: &str) -> Result<Names> {
        let failed = |cause| self.unreadable("cannot list", directory, cause);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match fs::openat(&self.directory, directory, flags, Mode::empty()) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(Names::default()),
            Err(cause) => return Err(failed(cause)),
        };
        let mut names = Names::default();
        for entry in Dir::new(open).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.file_name().to_str() {
                Ok(name) if name.starts_with('.') => {}
                Ok(name) => {
                    names.whole.push(Name { text: name.to_owned(), inode: entry.ino() });
                }
                Err(_) => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let path = self.path(directory).join(name).display().to_string();
                    let why = format!("{path:?}: no record has such a name");
                    names.odd.push(Damaged { path, why });
                }
            }
        }
        Ok(names)
    }

    /// A damaged record where the fault is the file's own, and not the host's.
    fn unreadable(&self, doing: &str, path: &str, cause: Errno) -> Error {
        match cause {
            Errno::ISDIR | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::IO => {
                damaged(&self.path(path), cause)
            }
            cause => failed(doing, &self.path(path), cause),
        }
    }

    /// Moves a file that is no record to a directory that is not read.
    pub(super) fn set_aside(&self, path: &str) -> Result<()> {
        let cannot = |cause| failed("cannot move aside", &self.path(path), cause);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}.{}", path.replace('/', ","), now.as_micros());
        // The longest name of a record leaves no room for more.
        let start = name.len().saturating_sub(200);
        let kept =
            name.char_indices().map(|(at, _)| at).find(|at| *at >= start).unwrap_or_default();
        let aside = format!("{}/{}", path::ASIDE, &name[kept..]);
        self.make_directories(&aside)?;
        match fs::renameat(&self.directory, path, &self.directory, &aside) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(cause) => Err(cannot(cause)),
        }
    }

    /// Writes a file that is not in place yet, with its directory if that is missing.
    pub(super) fn prepare(&self, path: &str, bytes: &[u8], is_answered: bool) -> Result<()> {
        let mode = if is_answered { FILE_MODE } else { UNREPORTED };
        let cannot = |cause| failed("cannot write", &self.path(path), cause);
        // One that a dead process left would keep the mode that it has.
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || fs::openat(&self.directory, path, flags, mode);
        let file = match open() {
            Err(Errno::NOENT) => {
                self.make_directories(path)?;
                open()
            }
            Err(Errno::EXIST) => {
                self.remove(path)?;
                open()
            }
            file => file,
        };
        let file = file.map_err(cannot)?;
        write_all(&file, bytes, 0).map_err(cannot)?;
        if self.durable { fs::fsync(&file).map_err(cannot) } else { Ok(()) }
    }

    /// Notes that the caller of the file's record has its result; no effect where the file is gone.
    pub(super) fn mark_answered(&self, path: &str) -> Result<()> {
        match fs::chmodat(&self.directory, path, FILE_MODE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(cause) => Err(failed("cannot mark", &self.path(path), cause)),
        }
    }

    /// Whether that was noted, or need not be.
    pub(super) fn is_answered(&self, path: &str) -> Result<bool> {
        match fs::statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Mode::from_raw_mode(stat.st_mode) & UNREPORTED != UNREPORTED),
            Err(Errno::NOENT) => Ok(true),
            Err(cause) => Err(failed("cannot look at", &self.path(path), cause)),
        }
    }

    /// Moves a prepared file into its place; done if that was done before.
    pub(super) fn place(&self, prepared: &str, path: &str) -> Result<()> {
        match fs::renameat(&self.directory, prepared, &self.directory, path) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // A directory would stop this transaction, and with it every later one.
            Err(Errno::ISDIR) => {
                self.set_aside(path)?;
                self.place(prepared, path)
            }
            Err(cause) => Err(failed("cannot write", &self.path(path), cause)),
        }
    }

    /// Removes a file; done if there is none.
    pub(super) fn remove(&self, path: &str) -> Result<()> {
        match fs::unlinkat(&self.directory, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => self.set_aside(path),
            Err(cause) => Err(failed("cannot remove", &self.path(path), cause)),
        }
    }

    /// Waits until what was done in the directory is on the disk; done if there is no such one.
    pub(super) fn sync(&self, directory: &str) -> Result<()> {
        let cannot = |cause| failed("cannot sync", &self.path(directory), cause);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.directory, directory, flags, Mode::empty()) {
            Ok(open) => fs::fsync(open).map_err(cannot),
            Err(Errno::NOENT) => Ok(()),
            Err(cause) => Err(cannot(cause)),
        }
    }

    /// The header of the lock file. The sequence of a new one starts at the time, so that no number
    /// repeats even where the file was removed.
    pub(super) fn header(&self) -> Result<Header> {
        let mut bytes = [0; header::SIZE];
        let read = rustix::io::pread(&self.lock, &mut bytes[..], 0)
            .map_err(|cause| failed("cannot read", &self.path("lock"), cause))?;
        if read == 0 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let sequence = u64::try_from(now.as_micros()).unwrap_or_default();
            return Ok(Header { sequence, state: State::Calm });
        }
        Header::decode(&bytes[..read]).map_err(|unread| {
            let lock = self.path("lock");
            let lock = lock.display();
            match unread {
                Unread::Damaged => Error::invalid(format!(
                    "{lock} is damaged; repair it with: truncate --size 0 '{lock}'"
                )),
                Unread::Layout(layout) => Error::unsupported(format!(
                    "{lock} says that a later version of Spoke wrote its records (layout {layout}); \
                     install that version again, or restore a backup of this one"
                )),
            }
        })
    }

    /// The journal that the header speaks of; `None` where it was cut short.
    pub(super) fn journal(&self, length: u32, checksum: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; length as usize];
        let mut at = 0;
        while at < bytes.len() {
            let offset = (header::SIZE + at) as u64;
            let read = rustix::io::pread(&self.lock, &mut bytes[at..], offset)
                .map_err(|cause| failed("cannot read", &self.path("lock"), cause))?;
            if read == 0 {
                return Ok(None);
            }
            at += read;
        }
        Ok((header::checksum(&bytes) == checksum).then_some(bytes))
    }

    /// Writes the lock file from its start; on disk before it returns where `sync` and durable.
    pub(super) fn announce(&self, bytes: &[u8], sync: bool) -> Result<()> {
        let cannot = |cause| failed("cannot write", &self.path("lock"), cause);
        write_all(&self.lock, bytes, 0).map_err(|cause| match cause {
            Errno::BADF => cannot(Errno::ROFS),
            cause => cannot(cause),
        })?;
        if sync && self.durable { fs::fdatasync(&self.lock).map_err(cannot) } else { Ok(()) }
    }

    /// Whether the lock file is still the one in its directory, and was not removed.
    pub(super) fn is_alive(&self) -> Result<bool> {
        let stat = fs::fstat(&self.lock)
            .map_err(|cause| failed("cannot stat", &self.path("lock"), cause))?;
        Ok(stat.st_nlink > 0)
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    pub(super) fn failed(&self, doing: &str, path: &str, cause: Errno) -> Error {
        failed(doing, &self.path(path), cause)
    }

    /// The full path of a file in it.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Locks it against every other process, after waiting for at most [`TIMEOUT`].
    pub(super) fn acquire(&self) -> Result<()> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            match fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) if started.elapsed() < TIMEOUT => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(Error::try_again(format!(
                        "another process has held {} for {TIMEOUT:?}; see who with: fuser -v {0}",
                        self.path("lock").display()
                    )));
                }
                Err(cause) => return Err(failed("cannot lock", &self.path("lock"), cause)),
            }
        }
    }

    /// Whether it is locked now: no other process had it.
    pub(super) fn try_acquire(&self) -> bool {
        fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    pub(super) fn unlock(&self) {
        // Unlocking a lock that is held does not fail.
        let _ = fs::flock(&self.lock, FlockOperation::Unlock);
    }

    fn make_directories(&self, path: &str) -> Result<()> {
        for (at, _) in path.match_indices('/') {
            let directory = &path[..at];
            match fs::mkdirat(&self.directory, directory, DIRECTORY_MODE) {
                Ok(()) if self.durable => {
                    let above = directory.rsplit_once('/').map_or(".", |(above, _)| above);
                    self.sync(above)?;
                }
                Ok(()) | Err(Errno::EXIST) => {}
                Err(cause) => return Err(failed("cannot make", &self.path(directory), cause)),
            }
        }
        Ok(())
    }

    fn sentence(&self, what: &str, path: &str) -> String {
        format!("{what} {}", self.path(path).display())
    }
}

fn write_all(file: &OwnedFd, bytes: &[u8], start: u64) -> Result<(), Errno> {
    let mut at = 0;
    while at < bytes.len() {
        match rustix::io::pwrite(file, &bytes[at..], start + at as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => at += written,
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// An error that tells the operator what to do where a file cannot be used.
pub(super) fn failed(doing: &str, path: &Path, cause: Errno) -> Error {
    let hint = match cause {
        Errno::NOSPC | Errno::DQUOT => "; the store is full: free space there and repeat",
        Errno::ROFS => "; the store is read-only: mount it writable and repeat",
        _ => "",
    };
    Error::os(format!("{doing} {}{hint}", path.display()), cause.into())
}
