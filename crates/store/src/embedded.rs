//! A directory of small files, used by many short-lived processes and a daemon at once.
//!
//! One record is one file. Writers exclude each other by flock(2) on a lock file, which the kernel
//! gives back when a process dies. A transaction prepares its files beside their places, writes
//! down what it is about to do in one call (the moment at which it has happened), and moves the
//! files into place. Whoever finds such a note of a dead process finishes its work first.
//!
//! Readers take no lock. A file is replaced in one step, so none is ever seen half; and a reader
//! believes what it read only if no note stood in the lock file *after* it had read. Therefore a
//! read that saw the first of a transaction's changes returns only after the last one is visible,
//! and no later read can see less. A listing compares the sequence number before and after. A
//! reader that is out of luck takes the lock and reads again.

mod file;
mod half;
mod header;
mod path;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::port::{Expect, Key, Outcome, Prefix, Record, Revision, Store, Txn, Versioned};
use model::{Error, Result};

use self::file::Kind;
use self::half::{Half, Locked, Open};
use self::header::{Header, State, Step};
use self::path::Scan;
use crate::boot::is_boot_id;
use crate::memory::expect_holds;

/// Where the two halves of the store are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// What a reboot voids, one directory per boot: `/run/spoke`. Need not survive a power cut.
    pub runtime: PathBuf,
    /// What outlives a reboot: `/var/lib/spoke`.
    pub state: PathBuf,
}

/// The store of one host. Opening it touches nothing; nothing is made before the first commit.
#[derive(Debug)]
pub struct Embedded {
    boot_id: String,
    runtime: PathBuf,
    boot: Half,
    durable: Half,
    turn: Mutex<()>,
}

/// Files by their paths below a root.
type Files = Vec<(String, Vec<u8>)>;

/// Both locks, as far as they are needed, and the turn among the threads of this process.
struct Held<'a> {
    boot_id: &'a str,
    durable: Option<Locked>,
    boot: Option<Locked>,
    _turn: MutexGuard<'a, ()>,
}

/// Which halves a lock should make where they are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Neither.
    Read,
    /// That of this boot; the durable one is not looked at.
    Boot,
    /// That of this boot; the durable one is looked at.
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
            turn: Mutex::new(()),
        })
    }

    fn half(&self, durable: bool) -> &Half {
        if durable { &self.durable } else { &self.boot }
    }

    /// Takes the locks, in one order everywhere, and finishes what a dead process left.
    fn lock(&self, reach: Reach) -> Result<Held<'_>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut held = Held { boot_id: &self.boot_id, durable, boot, _turn: turn };
        held.settle()?;
        Ok(held)
    }

    /// What other boots left is void. Whatever cannot be removed does no harm and is tried again
    /// after the next boot.
    fn remove_other_boots(&self) {
        let Ok(entries) = std::fs::read_dir(&self.runtime) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let other = name.to_str().filter(|name| is_boot_id(name) && *name != self.boot_id);
            if other.is_some() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
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

    fn list_freely(&self, half: &Half, scan: &Scan) -> Result<Option<Files>> {
        let Some(open) = half.existing()? else { return Ok(Some(Vec::new())) };
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
        let at = path::of(key);
        let bytes = match self.read_freely(key, &at)? {
            Some(bytes) => bytes,
            None => {
                let held = self.lock(Reach::Read)?;
                held.open(key.is_durable()).map_or(Ok(None), |open| open.read(&at))?
            }
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let root = self.half(key.is_durable()).root();
        match file::decode(Kind::of(key), &bytes) {
            Ok((found, record)) if found == *key => Ok(Some(record)),
            Ok((found, _)) => Err(damaged(&root.join(at), format!("it holds {found:?}"))),
            Err(cause) => Err(damaged(&root.join(at), cause)),
        }
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        let scan = Scan::of(prefix);
        let durable = scan.kind.is_durable();
        let half = self.half(durable);
        let files = match self.list_freely(half, &scan)? {
            Some(files) => files,
            None => {
                let held = self.lock(Reach::Read)?;
                held.open(durable).map_or(Ok(Vec::new()), |open| read_all(open, &scan))?
            }
        };
        let mut records = Vec::with_capacity(files.len());
        for (at, bytes) in files {
            match file::decode(scan.kind, &bytes) {
                Ok((key, record)) if path::of(&key) == at => records.push((key, record)),
                Ok((key, _)) => {
                    return Err(damaged(&half.root().join(at), format!("it holds {key:?}")));
                }
                Err(cause) => return Err(damaged(&half.root().join(at), cause)),
            }
        }
        records.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(records)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let mut held = self.lock(Reach::of(txn))?;
        for (key, expect) in &txn.expect {
            if !held.holds(key, *expect)? {
                return Ok(Outcome::Lost(key.clone()));
            }
        }
        let revision = held.next_revision();
        // Of several changes of one key only the last is seen, and only one can be repeated.
        let changes: BTreeMap<&Key, Option<&Record>> =
            txn.changes.iter().map(|(key, change)| (key, change.as_ref())).collect();
        if !changes.is_empty() {
            let steps = held.prepare(&changes, revision)?;
            held.happen(&steps, revision)?;
        }
        Ok(Outcome::Done(revision))
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

impl Held<'_> {
    fn open(&self, durable: bool) -> Option<&Open> {
        let locked = if durable { &self.durable } else { &self.boot };
        locked.as_ref().map(|locked| &*locked.open)
    }

    /// The half, which a commit has made.
    fn made(&self, durable: bool) -> Result<&Open> {
        self.open(durable).ok_or_else(|| Error::bug("a change in a half that was not locked"))
    }

    fn holds(&self, key: &Key, expect: Expect) -> Result<bool> {
        let at = path::of(key);
        let Some(open) = self.open(key.is_durable()) else { return Ok(expect == Expect::Absent) };
        let found = match open.read(&at)? {
            None => None,
            Some(bytes) => Some(file::revision(&bytes).map_err(|e| damaged(&open.path(&at), e))?),
        };
        Ok(expect_holds(expect, found))
    }

    fn next_revision(&self) -> Revision {
        let halves = [&self.boot, &self.durable];
        let last = halves.into_iter().flatten().map(|half| half.header.sequence).max();
        Revision(last.unwrap_or_default() + 1)
    }

    /// Writes every new file beside its place. After an error none is left.
    fn prepare(
        &self,
        changes: &BTreeMap<&Key, Option<&Record>>,
        revision: Revision,
    ) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(changes.len());
        for (slot, (key, record)) in changes.iter().enumerate() {
            let (durable, path) = (key.is_durable(), path::of(key));
            let prepared = record.map(|_| path::prepared(&path, slot));
            steps.push(Step { durable, prepared, path });
            if let Err(error) = self.prepare_one(key, *record, steps.last(), revision) {
                self.abandon(&steps);
                return Err(error);
            }
        }
        if let Err(error) = self.sync(&steps) {
            self.abandon(&steps);
            return Err(error);
        }
        Ok(steps)
    }

    fn prepare_one(
        &self,
        key: &Key,
        record: Option<&Record>,
        step: Option<&Step>,
        revision: Revision,
    ) -> Result<()> {
        match (record, step.and_then(|step| step.prepared.as_deref())) {
            (Some(record), Some(path)) => {
                let bytes = file::encode(key, revision, record)?;
                self.made(key.is_durable())?.prepare(path, &bytes)
            }
            _ => Ok(()),
        }
    }

    /// Removes prepared files; one that stays is overwritten by a later transaction.
    fn abandon(&self, steps: &[Step]) {
        for step in steps {
            if let (Some(path), Some(open)) = (&step.prepared, self.open(step.durable)) {
                let _ = open.remove(path);
            }
        }
    }

    /// Writes the note, moves the files, takes the note back. One change needs no note: a file
    /// is replaced or removed in one step.
    fn happen(&mut self, steps: &[Step], revision: Revision) -> Result<()> {
        if let Err(error) = self.announce(steps, revision) {
            // Where the note cannot be taken back it may be complete, and then needs the files.
            self.calm().map_err(unfinished)?;
            self.abandon(steps);
            return Err(error);
        }
        self.apply(steps).map_err(unfinished)?;
        if steps.len() > 1 { self.calm().map_err(unfinished) } else { Ok(()) }
    }

    fn announce(&mut self, steps: &[Step], revision: Revision) -> Result<()> {
        let journal = match steps.len() {
            1 => Vec::new(),
            _ => header::encode_steps(self.boot_id, steps),
        };
        if journal.len() > header::LONGEST {
            return Err(Error::invalid(format!("a transaction of {} changes", steps.len())));
        }
        let durable = steps.iter().any(|step| step.durable);
        let boot = steps.iter().any(|step| !step.durable);
        let note = Header::with_journal(revision, &journal);
        if boot {
            let elsewhere = Header { sequence: revision.0, state: State::Elsewhere };
            let bytes = if durable { &elsewhere.encode()[..] } else { &note[..] };
            self.made(false)?.announce(bytes, false)?;
        }
        if durable {
            self.made(true)?.announce(&note, true)?;
        }
        for half in [&mut self.boot, &mut self.durable].into_iter().flatten() {
            half.header.sequence = half.header.sequence.max(revision.0);
        }
        Ok(())
    }

    /// Takes the notes back, the durable half's first: that of this boot may speak of it. That has
    /// to reach the disk before the names of the prepared files are used again.
    fn calm(&self) -> Result<()> {
        for half in [&self.durable, &self.boot].into_iter().flatten() {
            let calm = Header { sequence: half.header.sequence, state: State::Calm };
            half.open.announce(&calm.encode(), true)?;
        }
        Ok(())
    }

    fn apply(&self, steps: &[Step]) -> Result<()> {
        for step in steps {
            let Some(open) = self.open(step.durable) else { continue };
            match &step.prepared {
                Some(prepared) => open.place(prepared, &step.path)?,
                None => open.remove(&step.path)?,
            }
        }
        self.sync(steps)
    }

    fn sync(&self, steps: &[Step]) -> Result<()> {
        let Some(open) = self.open(true) else { return Ok(()) };
        let mut directories: Vec<&str> = Vec::new();
        for step in steps.iter().filter(|step| step.durable) {
            let directory = path::parent(&step.path);
            if !directories.contains(&directory) {
                open.sync(directory)?;
                directories.push(directory);
            }
        }
        Ok(())
    }

    /// Finishes the transaction whose note a dead process left, if there is one.
    fn settle(&mut self) -> Result<()> {
        let notes: Vec<(State, &Open)> = [&self.boot, &self.durable]
            .into_iter()
            .flatten()
            .filter(|half| half.header.state != State::Calm)
            .map(|half| (half.header.state, &*half.open))
            .collect();
        if notes.is_empty() {
            return Ok(());
        }
        for (state, open) in notes {
            if let State::Journal { length, checksum } = state {
                self.replay(open.journal(length, checksum)?)?;
            }
        }
        self.calm()?;
        for half in [&mut self.boot, &mut self.durable].into_iter().flatten() {
            half.header.state = State::Calm;
        }
        Ok(())
    }

    /// What concerns an earlier boot is void.
    fn replay(&self, journal: Option<Vec<u8>>) -> Result<()> {
        let Some(journal) = journal else { return Ok(()) };
        let Some((boot_id, mut steps)) = header::decode_steps(&journal) else {
            return Err(Error::bug("the journal of the store has a checksum but no sense"));
        };
        let same_boot = boot_id == self.boot_id;
        steps.retain(|step| step.durable || same_boot);
        self.apply(&steps)
    }
}

impl Kind {
    fn is_durable(self) -> bool {
        match self {
            Kind::Network | Kind::Reservation | Kind::Sticky => true,
            Kind::Configured | Kind::Attachment | Kind::Lease | Kind::Cursor | Kind::Port => false,
        }
    }
}

fn read_all(open: &Open, scan: &Scan) -> Result<Files> {
    let mut directories = vec![scan.directory.clone()];
    if scan.nested {
        let names = open.names(&scan.directory)?;
        directories = names.iter().map(|name| format!("{}/{name}", scan.directory)).collect();
    }
    let mut files = Vec::new();
    for directory in directories {
        for name in open.names(&directory)? {
            let path = format!("{directory}/{name}");
            if let Some(bytes) = open.read(&path)? {
                files.push((path, bytes));
            }
        }
    }
    Ok(files)
}

/// A listing fails as a whole where one file is damaged: an address must not look free because
/// nobody can read who holds it.
fn damaged(path: &std::path::Path, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!(
        "record {0} is damaged ({why}); if what its name says is gone, mend it with: rm '{0}'",
        path.display()
    ))
}

fn unfinished(error: Error) -> Error {
    error.context("the change is noted, and the next command will finish it")
}
