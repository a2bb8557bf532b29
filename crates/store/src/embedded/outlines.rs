//! What the records of networks and subnets say in short, in one file: whoever looks for those in the
//! way of one reads this instead of all of them.
//!
//! It is made of the records and never needed: where it is missing, stale or damaged, they are
//! read, and it is written again. It says of which moment it is: the sequence number of the durable
//! half, which every program raises before it changes anything there, and when the directories
//! changed last, for whoever moves files by hand. So it is true or known not to be, also after a
//! kill at any place, after another version's work, and after a restored backup. A transaction
//! brings it up to date before it gives the lock back.

use std::collections::BTreeMap;

use engine::port::{Key, Outline, Prefix, Record, Revision, Store};
use model::Result;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::half::Open;
use super::header::State;
use super::outline;
use super::transaction::Held;
use super::{Embedded, Reach};

/// In this boot's half, so that nobody syncs it and a reboot removes it.
const NAME: &str = "outlines";
const PREPARED: &str = ".outlines.new";

/// Of fewer records reading all is as cheap.
const LEAST: usize = 32;

/// No file is longer, in bytes: about a million networks.
const LARGEST: u64 = 64 << 20;

/// Whoever changes what is notified of a record, or how it is written, changes this.
const MAGIC: [u8; 8] = *b"outline1";

/// Length of what precedes the outlines, in bytes: [`MAGIC`], the sequence, and of each directory its
/// inode and the time of its last change.
const START: usize = 8 + 8 + DIRECTORIES.len() * 24;

/// Where the records are.
const DIRECTORIES: [&str; 2] = ["networks", "subnets"];

/// A file that was true under the lock.
#[derive(Debug)]
pub(super) struct Known(Vec<u8>);

/// What was found in the place of the file.
#[derive(Debug)]
enum Found {
    True(Vec<u8>),
    Stale,
    Nothing,
}

/// What was read from the records themselves.
struct Gathered {
    bytes: Vec<u8>,
    /// Of the records.
    count: usize,
    /// Whether all of it can be written.
    fit: bool,
}

type Changes<'a> = BTreeMap<&'a Key, Option<&'a Record>>;

impl Embedded {
    pub(super) fn list_outlines(&self, report: &mut dyn FnMut(&Outline<'_>)) -> Result<()> {
        let Some(durable) = self.durable.existing()? else { return Ok(()) };
        let header = durable.header()?;
        let mut found = Found::Stale;
        if header.state == State::Calm && durable.is_alive()? {
            found = self.look(&durable, header.sequence, None)?;
        }
        if let Found::Stale = found {
            // A transaction may be under way, and brings it up to date.
            let held = self.lock(Reach::Read)?;
            let (Some(durable), Some(sequence)) = (held.open(true), held.sequence(true)) else {
                return Ok(());
            };
            found = self.look(durable, sequence, None)?;
        }
        let bytes = match found {
            Found::True(bytes) => bytes,
            Found::Stale => self.renew()?,
            Found::Nothing => match self.gather()? {
                Gathered { count, .. } if count >= LEAST => self.renew()?,
                few => few.bytes,
            },
        };
        outline::each(bytes.get(START..).unwrap_or_default(), report);
        Ok(())
    }

    /// Reads every record, and writes down what they say where no transaction was under way or has begun
    /// meanwhile: a lock file may name one that has moved nothing yet, so both looks at it are taken under
    /// the lock.
    fn renew(&self) -> Result<Vec<u8>> {
        let moment = |held: &Held<'_>| match (held.open(true), held.sequence(true)) {
            (Some(durable), Some(sequence)) => start(durable, sequence).map(Some),
            _ => Ok(None),
        };
        let before = moment(&self.lock(Reach::Read)?)?;
        let Gathered { mut bytes, count, fit } = self.gather()?;
        if count >= LEAST && fit {
            let held = self.lock(Reach::Read)?;
            let now = moment(&held)?.filter(|now| Some(*now) == before);
            if let (Some(start), Some(boot)) = (now, held.open(false)) {
                bytes[..START].copy_from_slice(&start);
                // Without it the records are read again.
                let _ = boot.replace(&bytes);
            }
        }
        Ok(bytes)
    }

    /// What every record says, behind room for [`START`].
    fn gather(&self) -> Result<Gathered> {
        let mut all = Gathered { bytes: vec![0; START], count: 0, fit: true };
        for prefix in [Prefix::Networks, Prefix::Subnets] {
            for (key, held) in self.list(&prefix)? {
                all.count += 1;
                let mut write = |it: &Outline<'_>| all.fit &= outline::write(it, &mut all.bytes);
                Outline::each_of(&key, &held.record, &mut write);
            }
        }
        Ok(all)
    }

    /// What there is, if it is of this moment; no more of it than `most` bytes where that is given.
    fn look(&self, durable: &Open, sequence: u64, most: Option<usize>) -> Result<Found> {
        let Some(boot) = self.boot.existing()? else { return Ok(Found::Nothing) };
        let Some(bytes) = boot.outlines(most)? else { return Ok(Found::Nothing) };
        let is_of_now = bytes.get(..START) == Some(&start(durable, sequence)?[..]);
        let is_whole = || most.is_some() || outline::is_whole(&bytes[START..]);
        Ok(if is_of_now && is_whole() { Found::True(bytes) } else { Found::Stale })
    }

    /// What is true before a transaction, for [`Embedded::follow`]; all of it only where the transaction
    /// changes it.
    pub(super) fn known_outlines(&self, held: &Held<'_>, changes: &Changes<'_>) -> Option<Known> {
        if !changes.keys().any(|key| key.is_durable()) {
            return None;
        }
        let most = if changes.keys().any(|key| is_outlined(key)) { None } else { Some(START) };
        let (durable, sequence) = (held.open(true)?, held.sequence(true)?);
        match self.look(durable, sequence, most) {
            Ok(Found::True(bytes)) => Some(Known(bytes)),
            Ok(Found::Stale | Found::Nothing) | Err(_) => None,
        }
    }

    /// After a transaction of ours, which still has the lock. What fails leaves a file that is known to
    /// be stale.
    pub(super) fn follow(
        &self,
        held: &Held<'_>,
        known: Option<Known>,
        changes: &Changes<'_>,
        revision: Revision,
    ) -> Result<()> {
        let (Some(Known(old)), Some(boot)) = (known, held.open(false)) else { return Ok(()) };
        let Some(durable) = held.open(true) else { return Ok(()) };
        let start = start(durable, revision.0)?;
        if !changes.keys().any(|key| is_outlined(key)) {
            return boot.restamp(&start);
        }
        let (mut bytes, mut fit) = (start.to_vec(), true);
        outline::each(&old[START..], &mut |it| {
            if !changes.keys().any(|key| it.is_of(key)) {
                fit &= outline::write(it, &mut bytes);
            }
        });
        for (key, record) in changes.iter().filter_map(|(key, record)| Some((key, (*record)?))) {
            Outline::each_of(key, record, &mut |it| fit &= outline::write(it, &mut bytes));
        }
        let is_emptied = bytes.len() == START && old.len() > START;
        match fit && !is_emptied {
            true => boot.replace(&bytes),
            false => boot.remove(NAME),
        }
    }
}

fn is_outlined(key: &Key) -> bool {
    matches!(key, Key::Network(_) | Key::Subnet(_))
}

/// What a file of this moment begins with.
fn start(durable: &Open, sequence: u64) -> Result<[u8; START]> {
    let mut start = [0; START];
    let mut fields = MAGIC.iter().copied().chain(sequence.to_le_bytes()).collect::<Vec<u8>>();
    for directory in DIRECTORIES {
        for field in durable.last_change(directory)? {
            fields.extend(field.to_le_bytes());
        }
    }
    start.copy_from_slice(&fields);
    Ok(start)
}

impl Open {
    fn outlines(&self, most: Option<usize>) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let cannot = |cause| self.failed("cannot read", NAME, cause);
        let file = match fs::openat(self.directory(), NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(cause) => return Err(cannot(cause)),
        };
        let size = fs::fstat(&file).map_err(cannot)?.st_size;
        let size = u64::try_from(size).ok().filter(|size| *size <= LARGEST).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or_default();
        let mut bytes = vec![0; most.unwrap_or(size).min(size)];
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[at..], at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(Errno::INTR) => {}
                // What is no file has no outlines.
                Err(Errno::ISDIR) => return Ok(None),
                Err(cause) => return Err(cannot(cause)),
            }
        }
        bytes.truncate(at);
        Ok(Some(bytes))
    }

    fn replace(&self, bytes: &[u8]) -> Result<()> {
        self.prepare(PREPARED, bytes, true)?;
        self.place(PREPARED, NAME)
    }

    /// The outlines are the same at the old moment and the new one, so nobody minds a half of both.
    fn restamp(&self, start: &[u8; START]) -> Result<()> {
        let cannot = |cause| self.failed("cannot write", NAME, cause);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(self.directory(), NAME, flags, Mode::empty()).map_err(cannot)?;
        rustix::io::pwrite(&file, start, 0).map_err(cannot).map(drop)
    }

    /// A directory's inode and when it changed last; zeros where there is none.
    fn last_change(&self, directory: &str) -> Result<[u64; 3]> {
        match fs::statat(self.directory(), directory, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok([stat.st_ino, stat.st_ctime.cast_unsigned(), stat.st_ctime_nsec]),
            Err(Errno::NOENT) => Ok([0; 3]),
            Err(cause) => Err(self.failed("cannot stat", directory, cause)),
        }
    }
}
