//! A transaction: what happens while the locks are held.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use engine::port::{Key, Record, Revision};
use model::{Error, Result};

use super::half::Locked;
use super::header::{self, Header, State, Step};
use super::open::Open;
use super::{damaged, file, is_hint, path};

/// Both locks, as far as they are needed, and the turn among the threads of this process.
pub(super) struct Locks<'a> {
    boot_id: &'a str,
    durable: Option<Locked>,
    boot: Option<Locked>,
    _lock: MutexGuard<'a, ()>,
}

impl<'a> Locks<'a> {
    /// With the work of a dead process finished, if there was any.
    pub(super) fn settled(
        boot_id: &'a str,
        lock: MutexGuard<'a, ()>,
        boot: Option<Locked>,
        durable: Option<Locked>,
    ) -> Result<Self> {
        let mut held = Self { boot_id, durable, boot, _lock: lock };
        held.settle()?;
        Ok(held)
    }

    pub(super) fn open(&self, durable: bool) -> Option<&Open> {
        let locked = if durable { &self.durable } else { &self.boot };
        locked.as_ref().map(|locked| &*locked.open)
    }

    /// The half, which a commit has made.
    fn made(&self, durable: bool) -> Result<&Open> {
        self.open(durable).ok_or_else(|| Error::bug("a change in a half that was not locked"))
    }

    /// Of the record that is under `key`.
    pub(super) fn revision(&self, key: &Key) -> Result<Option<Revision>> {
        let at = path::of(key);
        let Some(open) = self.open(key.is_durable()) else { return Ok(None) };
        let found = match open.read(&at) {
            Ok(Some(bytes)) => {
                file::revision(&bytes).map_err(|cause| damaged(&open.path(&at), cause))
            }
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Err(error) if is_hint(key) && error.kind() == model::Kind::Invalid => {
                open.set_aside(&at).map(|()| None)
            }
            found => found.map(Some),
        }
    }

    /// The sequence number in the half's lock file, if there is one.
    pub(super) fn sequence(&self, durable: bool) -> Option<u64> {
        let locked = if durable { &self.durable } else { &self.boot };
        locked.as_ref().map(|half| half.header.sequence)
    }

    /// The sequence number in the lock file of this boot's half; zero where there is none.
    pub(super) fn sequence_of_boot(&self) -> u64 {
        self.boot.as_ref().map_or(0, |half| half.header.sequence)
    }

    pub(super) fn next_revision(&self) -> Revision {
        let halves = [&self.boot, &self.durable];
        let last = halves.into_iter().flatten().map(|half| half.header.sequence).max();
        Revision(last.unwrap_or_default() + 1)
    }

    /// Writes every new file beside its place. After an error none is left.
    pub(super) fn prepare(
        &self,
        changes: &BTreeMap<&Key, Option<&Record>>,
        (revision, is_reported): (Revision, bool),
    ) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(changes.len());
        for (slot, (key, record)) in changes.iter().enumerate() {
            let (durable, path) = (key.is_durable(), path::of(key));
            let prepared = record.map(|_| path::prepared(&path, slot));
            steps.push(Step { durable, prepared, path });
            if let Err(error) =
                self.prepare_one(key, *record, steps.last(), (revision, is_reported))
            {
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
        (revision, is_reported): (Revision, bool),
    ) -> Result<()> {
        match (record, step.and_then(|step| step.prepared.as_deref())) {
            (Some(record), Some(path)) => {
                let bytes = file::encode(key, revision, record)?;
                self.made(key.is_durable())?.prepare(path, &bytes, is_reported)
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

    /// Writes the note, moves the files, takes the note back.
    pub(super) fn happen(&mut self, steps: &[Step], revision: Revision) -> Result<()> {
        if steps.len() == 1 {
            return self.happen_at_once(steps, revision);
        }
        let durable = steps.iter().any(|step| step.durable);
        if let Err(error) = self.announce(steps, revision) {
            // Where the note cannot be taken back it may be complete, and then needs the files.
            self.calm(durable).map_err(unfinished)?;
            self.abandon(steps);
            return Err(error);
        }
        self.apply(steps).map_err(unfinished)?;
        self.calm(durable).map_err(unfinished)
    }

    /// One change needs no note: a file is replaced or removed in one step.
    fn happen_at_once(&mut self, steps: &[Step], revision: Revision) -> Result<()> {
        let noted = self.announce(steps, revision);
        let done = noted.and_then(|()| self.apply(steps).map_err(at_once));
        if done.is_err() {
            self.abandon(steps);
        }
        done
    }

    fn announce(&mut self, steps: &[Step], revision: Revision) -> Result<()> {
        let journal = match steps.len() {
            1 => Vec::new(),
            _ => header::encode_steps(self.boot_id, steps),
        };
        if journal.len() > header::LONGEST {
            return Err(Error::invalid(format!(
                "{} records would change at once, more than the store changes at once; change fewer \
                 containers or addresses at a time, or publish fewer ports in one container",
                steps.len()
            )));
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

    /// Takes the notes back, the durable half's first where it has one: that of this boot may speak
    /// of it. That has to reach the disk before the names of the prepared files are used again.
    fn calm(&self, durable: bool) -> Result<()> {
        let durable = self.durable.as_ref().filter(|_| durable);
        for half in [durable, self.boot.as_ref()].into_iter().flatten() {
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
        self.calm(true)?;
        for half in [&mut self.boot, &mut self.durable].into_iter().flatten() {
            half.header.state = State::Calm;
        }
        Ok(())
    }

    /// Changes of an earlier boot are obsolete.
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

fn unfinished(error: Error) -> Error {
    error.context("the change is noted, and the next command will finish it")
}

fn at_once(error: Error) -> Error {
    error.context("no other command will finish the change; repeat the command")
}
