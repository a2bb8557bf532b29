//! The outlines of all networks and subnets in one file. A search for overlapping networks reads
//! this file instead of all records.
//!
//! The file is derived from the records and never necessary: where it is missing, stale or damaged,
//! the records are read, and it is written again. It says for which state it holds: the sequence
//! number of the durable half, which every program raises before it changes anything there, and the
//! change times of the directories, for a person who moves files. So it is current or known to be
//! stale, also after a kill at any instruction, after another version's work, and after a restored
//! backup. A transaction updates it before it releases the lock.

use std::collections::BTreeMap;

use engine::port::{Key, Outline, Prefix, Record, Revision, Store};
use model::Result;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::header::State;
use super::open::Open;
use super::outline;
use super::transaction::Locks;
use super::{Embedded, Reach};

/// In this boot's half, so that it is not synced and a reboot removes it.
const NAME: &str = "outlines";
const PREPARED: &str = ".outlines.new";

/// Of fewer records reading all is as cheap.
const LEAST: usize = 32;

/// A change of the outlines' contents or encoding changes this.
const MAGIC: [u8; 8] = *b"outline3";

/// Length of what precedes the outlines, in bytes: [`MAGIC`], the sequence, and of each directory its
/// inode and the time of its last change.
const START: usize = 8 + 8 + DIRECTORIES.len() * 24;

/// Where the records are.
const DIRECTORIES: [&str; 2] = ["networks", "subnets"];

/// A file that was true under the lock.
#[derive(Debug)]
pub(super) struct LockedOutline(Vec<u8>);

/// What is in the place of the file.
#[derive(Debug)]
enum OutlineState {
    True(Vec<u8>),
    Stale,
    Nothing,
}

/// The result of reading the records themselves.
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
        let mut found = OutlineState::Stale;
        if header.state == State::Calm && durable.is_alive()? {
            found = self.read_current(&durable, header.sequence, None)?;
        }
        if let OutlineState::Stale = found {
            // A transaction may be under way, and brings it up to date.
            let held = self.lock(Reach::Read)?;
            let (Some(durable), Some(sequence)) = (held.open(true), held.sequence(true)) else {
                return Ok(());
            };
            found = self.read_current(durable, sequence, None)?;
        }
        let bytes = match found {
            OutlineState::True(bytes) => bytes,
            OutlineState::Stale => self.renew()?,
            OutlineState::Nothing => match self.gather()? {
                Gathered { count, .. } if count >= LEAST => self.renew()?,
                few => few.bytes,
            },
        };
        outline::each(bytes.get(START..).unwrap_or_default(), report);
        Ok(())
    }

    /// Reads every record, and writes the outlines if no transaction was in progress or has begun
    /// meanwhile. A lock file may name a transaction that has moved nothing yet, so it is read
    /// twice under the lock.
    fn renew(&self) -> Result<Vec<u8>> {
        let moment = |held: &Locks<'_>| match (held.open(true), held.sequence(true)) {
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
                let _ = boot.replace_derived((PREPARED, NAME), &bytes);
            }
        }
        Ok(bytes)
    }

    /// The outlines of every record, behind room for [`START`].
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

    /// The file's contents if they are current; at most `most` bytes where that is given.
    fn read_current(
        &self,
        durable: &Open,
        sequence: u64,
        most: Option<usize>,
    ) -> Result<OutlineState> {
        let Some(boot) = self.boot.existing()? else { return Ok(OutlineState::Nothing) };
        let Some(bytes) = boot.derived(NAME, most)? else { return Ok(OutlineState::Nothing) };
        let is_of_now = bytes.get(..START) == Some(&start(durable, sequence)?[..]);
        let is_whole = || most.is_some() || outline::is_whole(&bytes[START..]);
        Ok(if is_of_now && is_whole() { OutlineState::True(bytes) } else { OutlineState::Stale })
    }

    /// The outlines before a transaction, for [`Embedded::follow`]; complete only where the
    /// transaction changes them.
    pub(super) fn known_outlines(
        &self,
        held: &Locks<'_>,
        changes: &Changes<'_>,
    ) -> Option<LockedOutline> {
        if !changes.keys().any(|key| key.is_durable()) {
            return None;
        }
        let most = if changes.keys().any(|key| is_outlined(key)) { None } else { Some(START) };
        let (durable, sequence) = (held.open(true)?, held.sequence(true)?);
        match self.read_current(durable, sequence, most) {
            Ok(OutlineState::True(bytes)) => Some(LockedOutline(bytes)),
            Ok(OutlineState::Stale | OutlineState::Nothing) | Err(_) => None,
        }
    }

    /// Updates the file after a transaction of this process, which still has the lock. A failure
    /// leaves a file that is known to be stale.
    pub(super) fn follow(
        &self,
        held: &Locks<'_>,
        known: Option<LockedOutline>,
        changes: &Changes<'_>,
        revision: Revision,
    ) -> Result<()> {
        let (Some(LockedOutline(old)), Some(boot)) = (known, held.open(false)) else {
            return Ok(());
        };
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
            true => boot.replace_derived((PREPARED, NAME), &bytes),
            false => boot.remove(NAME),
        }
    }
}

fn is_outlined(key: &Key) -> bool {
    matches!(key, Key::Network(_) | Key::Subnet(_))
}

/// The beginning of a current file.
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
    /// The outlines are the same for the old state and the new one, so a mixture of both is
    /// harmless.
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
