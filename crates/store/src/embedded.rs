//! A directory of small files, used by many short-lived processes and a daemon at once.
//!
//! One record is one file. Writers exclude each other by flock(2) on a lock file, which the kernel
//! releases when a process dies. A transaction prepares its files beside their places, writes a
//! journal of its changes in one call (this is the commit), and moves the files into place. A
//! process that finds the journal of a dead process finishes that work first.
//!
//! Readers take no lock. A file is replaced in one step, so no reader sees half of it. A reader
//! accepts what it read only if the lock file had no journal *after* the read. Therefore a read
//! that saw the first of a transaction's changes returns only after the last one is visible, and no
//! later read can see less. A list compares the sequence number before and after. A reader whose
//! check fails takes the lock and reads again. A process does not read its own writes again until
//! another process has written ([`write_cache`]).

mod called;
mod derived;
pub(crate) mod file;
mod half;
mod header;
mod naming;
mod open;
mod outline;
mod outlines;
mod path;
mod transaction;
mod watch;
mod write_cache;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use engine::port::{Damaged, Key, Outcome, Outline, Prefix, Record, Store, Txn, Versioned};
use model::{AttachmentOutline, Error, Result};

use self::file::Kind;
use self::half::Half;
use self::header::State;
use self::open::{Name, Open};
use self::path::Scan;
use self::transaction::Locks;
use self::write_cache::WriteCache;
use crate::boot::is_boot_id;

pub use self::watch::{Changed, Watch};

/// Where the two halves of the store are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The half that lasts for one boot, one directory per boot: `/run/spoke`. It need not survive
    /// a power cut.
    pub runtime: PathBuf,
    /// The half that outlives a reboot: `/var/lib/spoke`.
    pub state: PathBuf,
}

/// The store of one host. Opening it touches nothing; nothing is made before the first commit.
#[derive(Debug)]
pub struct Embedded {
    boot_id: String,
    runtime: PathBuf,
    boot: Half,
    durable: Half,
    /// Of this boot's half: the durable one changes too seldom.
    own: WriteCache,
    guard: Mutex<()>,
}

/// The contents of a list.
#[derive(Debug, Default)]
struct Files {
    /// By their paths below the root.
    whole: Vec<(String, Vec<u8>)>,
    damaged: Vec<Damaged>,
}

/// The records of a listing, and what is none.
type Sifted = (Vec<(Key, Versioned)>, Vec<Damaged>);

/// Which halves a lock should make where they are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Neither.
    Read,
    /// Only that of this boot.
    Boot,
    /// That of this boot; the durable one is read too.
    BootReadDurable,
    /// Both.
    Both,
}

impl Embedded {
    /// The store below `roots` in the boot of the kernel that `boot_id` names (see
    /// [`crate::boot_id`]). Fails with `Invalid` where that is no boot id.
    pub fn open(roots: Roots, boot_id: &str) -> Result<Self> {
        if !is_boot_id(boot_id) {
            return Err(Error::invalid(format!("{boot_id:?} is no boot id")));
        }
        Ok(Self {
            boot_id: boot_id.to_owned(),
            boot: Half::new(roots.runtime.join(boot_id), false),
            durable: Half::new(roots.state, true),
            runtime: roots.runtime,
            own: WriteCache::default(),
            guard: Mutex::new(()),
        })
    }

    fn half(&self, durable: bool) -> &Half {
        if durable { &self.durable } else { &self.boot }
    }

    /// Takes the locks, in one order everywhere, and finishes what a dead process left.
    fn lock(&self, reach: Reach) -> Result<Locks<'_>> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let make_boot = reach != Reach::Read;
        let boot = match self.boot.lock(make_boot)? {
            Some((boot, true)) => {
                self.remove_other_boots();
                Some(boot)
            }
            boot => boot.map(|(boot, _)| boot),
        };
        let elsewhere = boot.as_ref().is_some_and(|boot| boot.header.state == State::Elsewhere);
        let durable = match reach {
            Reach::Boot if !elsewhere => None,
            reach => self.durable.lock(reach == Reach::Both)?.map(|(durable, _)| durable),
        };
        Locks::settled(&self.boot_id, guard, boot, durable)
    }

    /// The directories of other boots are obsolete. One that cannot be removed does no harm; the
    /// next boot tries again.
    fn remove_other_boots(&self) {
        let Ok(entries) = std::fs::read_dir(&self.runtime) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let other = name.to_str().filter(|name| is_boot_id(name) && *name != self.boot_id);
            if other.is_some() {
                // The next boot tries again.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The value under `key`, if this process was the last to write it.
    fn written(&self, key: &Key) -> Result<Option<Option<Versioned>>> {
        if key.is_durable() {
            return Ok(None);
        }
        match self.boot.existing()? {
            Some(open) => self.own.get(key, &open),
            None => Ok(None),
        }
    }

    /// Reads without a lock; `None` where a transaction may be under way.
    fn read_freely(&self, key: &Key, at: &str) -> Result<Option<Option<Vec<u8>>>> {
        let half = self.half(key.is_durable());
        let Some(open) = half.existing()? else { return Ok(Some(None)) };
        let bytes = open.read(at)?;
        if open.header()?.state != State::Calm {
            return Ok(None);
        }
        if bytes.is_none() && !open.is_alive()? {
            half.forget();
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    fn path_of(&self, key: &Key) -> PathBuf {
        self.half(key.is_durable()).root().join(path::of(key))
    }

    /// The contents of some directories: the records, and the files that are none.
    fn sift(&self, scan: &Scan) -> Result<Sifted> {
        let durable = scan.kind.is_durable();
        let half = self.half(durable);
        let files = match self.list_freely(half, scan)? {
            Some(files) => files,
            None => {
                let held = self.lock(Reach::Read)?;
                held.open(durable).map_or(Ok(Files::default()), |open| read_all(open, scan))?
            }
        };
        let mut records = Vec::with_capacity(files.whole.len());
        let mut bad = files.damaged;
        for (at, bytes) in files.whole {
            let why = match file::decode(scan.kind, &bytes) {
                Ok((key, record)) if path::of(&key) == at => {
                    records.push((key, record));
                    continue;
                }
                Ok((key, _)) => format!("it holds {key:?}"),
                Err(cause) => cause.to_string(),
            };
            let path = half.root().join(at);
            bad.push(reported(&path, &damaged(&path, why)));
        }
        records.sort_by(|(one, _), (other, _)| one.cmp(other));
        bad.sort();
        Ok((records, bad))
    }

    /// Every kind's, and what was moved aside.
    fn damaged_anywhere(&self) -> Result<Vec<Damaged>> {
        let mut found = Vec::new();
        for scan in Scan::everything() {
            found.extend(self.sift(&scan)?.1);
        }
        for half in [&self.boot, &self.durable] {
            let Some(open) = half.existing()? else { continue };
            for name in open.names(path::ASIDE)?.whole {
                let path = open.path(&format!("{}/{}", path::ASIDE, name.text));
                let why = format!(
                    "a damaged record, moved aside; look at it, then: rm -r '{}'",
                    path.display()
                );
                found.push(Damaged { path: path.display().to_string(), why });
            }
        }
        Ok(found)
    }

    fn list_freely(&self, half: &Half, scan: &Scan) -> Result<Option<Files>> {
        let Some(open) = half.existing()? else { return Ok(Some(Files::default())) };
        let before = open.header()?;
        if before.state != State::Calm {
            return Ok(None);
        }
        let files = read_all(&open, scan)?;
        if open.header()? != before {
            return Ok(None);
        }
        if !open.is_alive()? {
            half.forget();
            return Ok(None);
        }
        Ok(Some(files))
    }
}

impl Store for Embedded {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        if let Some(written) = self.written(key)? {
            return Ok(written);
        }
        let at = path::of(key);
        let read = match self.read_freely(key, &at) {
            Ok(None) => {
                let held = self.lock(Reach::Read)?;
                held.open(key.is_durable()).map_or(Ok(None), |open| open.read(&at))
            }
            read => read.map(Option::flatten),
        };
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Err(error) if !is_hint(key) || error.kind() != model::Kind::Invalid => {
                return Err(error);
            }
            Ok(None) | Err(_) => return Ok(None),
        };
        match file::decode(Kind::of(key), &bytes) {
            Ok((found, record)) if found == *key => Ok(Some(record)),
            _ if is_hint(key) => Ok(None),
            Ok((found, _)) => Err(damaged(&self.path_of(key), format!("it holds {found:?}"))),
            Err(cause) => Err(damaged(&self.path_of(key), cause)),
        }
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        Ok(self.sift(&Scan::of(prefix))?.0)
    }

    fn attachments_called(&self, name: &str) -> Result<Vec<(Key, Versioned)>> {
        let mut found = match self.find_called(name)? {
            Some(found) => found,
            None => self.sift(&Scan::called(name))?.0,
        };
        found.retain(|(_, held)| held.record.may_be_called(name));
        Ok(found)
    }

    fn attachment_outlines(&self) -> Result<Vec<AttachmentOutline>> {
        if let Some(known) = self.find_outlines()? {
            return Ok(known);
        }
        let of = |(_, held): &(Key, Versioned)| match &held.record {
            Record::Attachment(held) => Some(AttachmentOutline::of(held)),
            _ => None,
        };
        Ok(self.list(&Prefix::Attachments)?.iter().filter_map(of).collect())
    }

    fn damaged(&self, prefix: Option<&Prefix>) -> Result<Vec<Damaged>> {
        let Some(prefix) = prefix else { return self.damaged_anywhere() };
        Ok(self.sift(&Scan::of(prefix))?.1)
    }

    fn outline(&self, report: &mut dyn FnMut(&Outline<'_>)) -> Result<()> {
        self.list_outlines(report)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let mut held = self.lock(Reach::of(txn))?;
        let before = held.sequence_of_boot();
        for (key, expect) in &txn.expect {
            let found = match self.own.revision(key, before) {
                Some(found) => found,
                None => held.revision(key)?,
            };
            if !expect.holds(found) {
                return Ok(Outcome::Lost(key.clone()));
            }
        }
        let revision = held.next_revision();
        // Of several changes of one key only the last is seen, and only one can be repeated.
        let changes: BTreeMap<&Key, Option<&Record>> =
            txn.changes.iter().map(|(key, change)| (key, change.as_ref())).collect();
        if !changes.is_empty() {
            let outlines = self.known_outlines(&held, &changes);
            let steps = held.prepare(&changes, (revision, !txn.unreported))?;
            held.happen(&steps, revision)?;
            // It has happened, whatever becomes of what can be made of it again.
            let _ = self.follow(&held, outlines, &changes, revision);
            let mut of_boot = changes.into_iter().filter(|(key, _)| !key.is_durable()).peekable();
            if of_boot.peek().is_some() {
                self.own.changed(before, revision, of_boot);
            }
        }
        Ok(Outcome::Done(revision))
    }

    fn mark_answered(&self, key: &Key) -> Result<()> {
        match self.half(key.is_durable()).existing()? {
            Some(open) => open.mark_answered(&path::of(key)),
            None => Ok(()),
        }
    }

    fn is_answered(&self, key: &Key) -> Result<bool> {
        match self.half(key.is_durable()).existing()? {
            Some(open) => open.is_answered(&path::of(key)),
            None => Ok(true),
        }
    }
}

impl Reach {
    fn of(txn: &Txn) -> Self {
        if txn.changes.iter().any(|(key, _)| key.is_durable()) {
            Reach::Both
        } else if txn.expect.iter().any(|(key, _)| key.is_durable()) {
            Reach::BootReadDurable
        } else {
            Reach::Boot
        }
    }
}

impl Kind {
    fn is_durable(self) -> bool {
        match self {
            Kind::Network
            | Kind::Reservation
            | Kind::Sticky
            | Kind::Subnet
            | Kind::Alias
            | Kind::Amendment
            | Kind::Usage
            | Kind::Endpoint => true,
            Kind::Configured
            | Kind::Title
            | Kind::Attachment
            | Kind::Lease
            | Kind::Cursor
            | Kind::Port
            | Kind::Sandbox => false,
        }
    }
}

/// A file that is no record, or no directory of records, is reported and skipped.
fn read_all(open: &Open, scan: &Scan) -> Result<Files> {
    let mut files = Files::default();
    let mut directories = vec![scan.directory.clone()];
    if scan.nested {
        let names = open.names(&scan.directory)?;
        files.damaged.extend(names.odd);
        let path = |name: &Name| format!("{}/{}", scan.directory, name.text);
        directories = names.whole.iter().map(path).collect();
    }
    for directory in directories {
        let names = match open.names(&directory) {
            Ok(names) => names,
            Err(error) => {
                passed_over(open, &directory, error, &mut files)?;
                continue;
            }
        };
        files.damaged.extend(names.odd);
        for name in names.whole.iter().filter(|name| name.text.starts_with(&scan.begin)) {
            let path = format!("{directory}/{}", name.text);
            match open.read(&path) {
                Ok(Some(bytes)) if scan.is_meant(&bytes) => files.whole.push((path, bytes)),
                Ok(_) => {}
                Err(error) => passed_over(open, &path, error, &mut files)?,
            }
        }
    }
    Ok(files)
}

/// Whatever is wrong with the file itself; anything else is an error of the listing.
fn passed_over(open: &Open, at: &str, error: Error, files: &mut Files) -> Result<()> {
    if error.kind() != model::Kind::Invalid {
        return Err(error);
    }
    files.damaged.push(reported(&open.path(at), &error));
    Ok(())
}

fn reported(path: &std::path::Path, error: &Error) -> Damaged {
    Damaged { path: path.display().to_string(), why: error.to_string() }
}

/// Whether the record only saves work: a damaged one is as good as none.
fn is_hint(key: &Key) -> bool {
    matches!(key, Key::Cursor(_) | Key::Configured(_) | Key::Title(_))
}

/// A read of this one record is refused: an address must not look free because its holder cannot be
/// read.
fn damaged(path: &std::path::Path, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!(
        "record {0} is damaged ({why}); if what its name says is gone, mend it with: rm -r '{0}'",
        path.display()
    ))
}
