//! What is owed, on disk. A port's file is in one place at a time, and moving it is what decides:
//!
//! - `owed/PORT.json`: nobody has said anything to Neutron yet;
//! - `begun/PORT.json`: somebody is at it, and holds the file's lock; or he died, or had no answer;
//! - `void/PORT.json`: given up. Whoever holds the lock is waiting for his last answer;
//! - `lost/PORT.json`: there is no such port in Neutron.
//!
//! All of it goes with the boot, as the containers do.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use model::{ResourceId, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::PortUpdate;
use crate::deadline;
use crate::files::{self, failed, file_of, make_directory, moved, nofollow, read, remove};

/// How often it is looked whether somebody is done, where there is a limit: no lock has one.
const GLANCE: Duration = Duration::from_millis(20);

/// Where the files are. It costs nothing to have one.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    directory: PathBuf,
    /// By when whoever waits has to be done.
    until: Option<Instant>,
}

/// What somebody is at. Nobody else is, until this is dropped.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) port_update: PortUpdate,
    /// Whether somebody was at it before, of whom nobody knows what he got done.
    pub(crate) is_again: bool,
    turn: File,
}

/// How far it was when it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgone {
    /// Nothing was said to Neutron.
    Unsaid,
    /// Something was, and nobody knows what comes of it, or when.
    Unsure,
}

impl Book {
    /// Below this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.join("naming"), until: None }
    }

    /// For somebody who has to be done by then.
    #[must_use]
    pub(crate) fn by(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Writes down what is owed, instead of what was before.
    pub(crate) fn enqueue(&self, port_update: &PortUpdate) -> Result<()> {
        let id = &port_update.port.id;
        if self.forgo(id)?.is_some() {
            self.close(id)?;
        }
        files::write(&self.directory.join("draft"), &self.queued(id), port_update)
    }

    /// Begins with what is owed of a port, or goes on where somebody died; none where nothing is, or
    /// somebody is at it.
    pub(crate) fn begin(&self, id: &ResourceId) -> Result<Option<Begun>> {
        let (queued, begun) = (self.queued(id), self.begun(id));
        if let Some(turn) = turn(&queued, FlockOperation::NonBlockingLockExclusive)?
            && moved(&queued, &begun)?
        {
            return self.begun_by(id, turn, false);
        }
        match turn(&begun, FlockOperation::NonBlockingLockExclusive)? {
            Some(turn) => self.begun_by(id, turn, true),
            None => Ok(None),
        }
    }

    fn begun_by(&self, id: &ResourceId, turn: File, is_again: bool) -> Result<Option<Begun>> {
        let path = self.begun(id);
        if !is_of(&turn, &path) {
            return Ok(None);
        }
        match read::<PortUpdate>(&path)? {
            Some(port_update) if port_update.port.id == *id => {
                Ok(Some(Begun { port_update, is_again, turn }))
            }
            // Vanished meanwhile, or not of ours.
            _ => remove(&path).map(|_| None),
        }
    }

    /// Whether the port goes, or is somebody else's.
    pub(crate) fn is_given_up(&self, begun: &Begun) -> bool {
        !is_of(&begun.turn, &self.begun(&begun.port_update.port.id))
    }

    /// Neutron knows.
    pub(crate) fn done(&self, begun: &Begun) -> Result<()> {
        let id = &begun.port_update.port.id;
        // Whoever gave it up waits, and is told so that all answers are there.
        match remove(&self.begun(id))? {
            true => Ok(()),
            false => remove(&self.void(id)).map(drop),
        }
    }

    /// Neutron has no such port. `false` where it was given up meanwhile, so that this is no wonder.
    pub(crate) fn lose(&self, begun: &Begun) -> Result<bool> {
        let id = &begun.port_update.port.id;
        match moved(&self.begun(id), &self.file("lost", id))? {
            true => Ok(true),
            false => remove(&self.void(id)).map(|_| false),
        }
    }

    /// Gives up whatever is owed of the port, and waits for who is at it. None where nothing is owed:
    /// Neutron knows, or was never to. Else to be closed once the port is gone.
    pub(crate) fn forgo(&self, id: &ResourceId) -> Result<Option<Forgone>> {
        let void = self.void(id);
        remove(&self.file("lost", id))?;
        if moved(&self.queued(id), &void)? {
            return Ok(Some(Forgone::Unsaid));
        }
        let _ = moved(&self.begun(id), &void)?;
        let Some(turn) = self.wait_for(&void)? else { return Ok(None) };
        // Who was at it has had all his answers where it is not there any more.
        Ok(is_of(&turn, &void).then_some(Forgone::Unsure))
    }

    /// Waits for who is at it, as long as there is time.
    fn wait_for(&self, void: &Path) -> Result<Option<File>> {
        let Some(until) = self.until else { return turn(void, FlockOperation::LockExclusive) };
        loop {
            let turn = turn(void, FlockOperation::NonBlockingLockExclusive)?;
            if turn.is_some() || !void.exists() {
                return Ok(turn);
            }
            if Instant::now() >= until {
                return Err(deadline::late("waiting for the name of a port"));
            }
            thread::sleep(GLANCE);
        }
    }

    /// The same without waiting, where nobody is at it.
    pub(crate) fn desist(&self, id: &ResourceId) -> Result<()> {
        remove(&self.file("lost", id))?;
        remove(&self.queued(id)).map(drop)
    }

    /// What was given up is over.
    pub(crate) fn close(&self, id: &ResourceId) -> Result<()> {
        remove(&self.void(id)).map(drop)
    }

    /// The ports of which something is owed.
    pub(crate) fn owing(&self) -> Result<Vec<ResourceId>> {
        // In the order in which a file goes, so that none is missed.
        let mut all = files::ids(&self.directory.join("owed"))?;
        for id in files::ids(&self.directory.join("begun"))? {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        Ok(all)
    }

    /// What is owed of a port.
    pub(crate) fn queued_of(&self, id: &ResourceId) -> Result<Option<PortUpdate>> {
        match read(&self.queued(id))? {
            Some(port_update) => Ok(Some(port_update)),
            None => read(&self.begun(id)),
        }
    }

    /// What is owed, and what was given up and is not over.
    pub(crate) fn all(&self) -> Result<Vec<PortUpdate>> {
        let mut all: Vec<PortUpdate> = Vec::new();
        for place in ["owed", "begun", "void", "lost"] {
            for port_update in self.in_place(place)? {
                if !all.iter().any(|known| known.port.id == port_update.port.id) {
                    all.push(port_update);
                }
            }
        }
        Ok(all)
    }

    /// What cannot be carried out any more.
    pub(crate) fn lost(&self) -> Result<Vec<PortUpdate>> {
        self.in_place("lost")
    }

    fn in_place(&self, place: &str) -> Result<Vec<PortUpdate>> {
        let directory = self.directory.join(place);
        let mut found = Vec::new();
        for id in files::ids(&directory)? {
            let port_update: Option<PortUpdate> = read(&file_of(&directory, &id))?;
            found.extend(port_update.filter(|port_update| port_update.port.id == id));
        }
        Ok(found)
    }

    /// The only one who carries it out for others; none where somebody does already.
    pub(crate) fn worker(&self) -> Result<Option<File>> {
        files::only(&self.directory.join("clerk"))
    }

    /// Whether somebody carries out what is written down.
    pub(crate) fn is_kept(&self) -> bool {
        files::is_held(&self.directory.join("clerk"))
    }

    /// Where something appears when there is work.
    pub(crate) fn notifier(&self) -> Result<PathBuf> {
        let notifier = self.directory.join("owed");
        make_directory(&notifier).map(|()| notifier)
    }

    /// Removes what writers left that were killed.
    pub(crate) fn sweep(&self, before: SystemTime) -> Result<()> {
        files::sweep(&self.directory.join("draft"), before)
    }

    fn queued(&self, id: &ResourceId) -> PathBuf {
        self.file("owed", id)
    }

    fn begun(&self, id: &ResourceId) -> PathBuf {
        self.file("begun", id)
    }

    fn void(&self, id: &ResourceId) -> PathBuf {
        self.file("void", id)
    }

    fn file(&self, place: &str, id: &ResourceId) -> PathBuf {
        file_of(&self.directory.join(place), id)
    }
}

/// The lock of a file, wherever that is moved; none where there is no file, or somebody has it and is
/// not to be waited for.
fn turn(path: &Path, how: FlockOperation) -> Result<Option<File>> {
    let file = match OpenOptions::new().read(true).custom_flags(nofollow()).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("opening", path, cause)),
    };
    loop {
        match flock(&file, how) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(cause) => return Err(failed("locking", path, cause.into())),
        }
    }
}

/// Whether this is the file that is there.
fn is_of(file: &File, path: &Path) -> bool {
    let same = |there: fs::Metadata| {
        file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    };
    fs::symlink_metadata(path).is_ok_and(same)
}
