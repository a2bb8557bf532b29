//! Work in sandboxes, each piece in a thread of its own.
//!
//! Root in a container can delay the kernel there without limit: by a large packet filter, or by changing it without
//! end. That delays the names of this sandbox, and of no other one.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};

use crate::results::Results;
use crate::sandbox::{Closed, Door, Inside, Opened};
use crate::table::Sandbox;

/// More is not done at once.
const MOST: usize = 64;
/// What takes longer is reported.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// What a thread needs, in bytes.
const STACK: usize = 512 << 10;

/// What is done there.
#[derive(Clone)]
enum Work {
    Enter(Sandbox),
    Restore(Sandbox, Arc<dyn Inside>),
    Leave(Closed),
}

/// What has become of it.
pub(super) enum Done {
    Entered(Sandbox, Result<Option<Opened>>),
    Restored(Sandbox, Result<bool>),
    Left(Arc<dyn Inside>),
}

/// All of it: in one sandbox one piece after the other.
pub(super) struct Works {
    door: Arc<dyn Door>,
    waiting: VecDeque<(PathBuf, Work)>,
    /// Since when, and whether it was reported that it takes long.
    busy: BTreeMap<PathBuf, (Instant, bool)>,
    results: Arc<Results<(PathBuf, Done)>>,
}

impl Works {
    pub(super) fn new(door: Arc<dyn Door>) -> Result<Self> {
        let results = Arc::new(Results::new()?);
        Ok(Self { door, waiting: VecDeque::new(), busy: BTreeMap::new(), results })
    }

    /// Enters a sandbox, unless something is done there already.
    pub(super) fn enter(&mut self, sandbox: Sandbox) {
        let path = sandbox.path.clone();
        if !self.is_busy(&path) {
            self.put(path, Work::Enter(sandbox));
        }
    }

    /// Leads the queries of one here again, unless something is done there already.
    pub(super) fn restore(&mut self, sandbox: Sandbox, inside: Arc<dyn Inside>) {
        let path = sandbox.path.clone();
        if !self.is_busy(&path) {
            self.put(path, Work::Restore(sandbox, inside));
        }
    }

    /// Leaves one after what is done there already.
    pub(super) fn leave(&mut self, closed: Closed) {
        self.put(closed.0.clone(), Work::Leave(closed));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty() && self.waiting.is_empty()
    }

    /// What is done by now.
    pub(super) fn take(&mut self) -> Vec<Done> {
        let done = self.results.take().into_iter().map(|(path, done)| {
            self.busy.remove(&path);
            done
        });
        let done = done.collect();
        self.start();
        done
    }

    /// What takes long, each once.
    pub(super) fn late(&mut self, now: Instant) -> Vec<Error> {
        let is_late = |since: Instant| now.saturating_duration_since(since) > LONGEST;
        let late =
            self.busy.iter_mut().filter(|(_, (since, is_known))| !is_known && is_late(*since));
        let error = |(path, (_, is_known)): (&PathBuf, &mut (Instant, bool))| {
            *is_known = true;
            let what = "its container may keep the packet filter there busy";
            let what =
                format!("{} answers no more for {} s: {what}", path.display(), LONGEST.as_secs());
            Error::new(Kind::TryAgain, what)
        };
        late.map(error).collect()
    }

    fn is_busy(&self, path: &Path) -> bool {
        self.busy.contains_key(path) || self.waiting.iter().any(|(other, _)| other == path)
    }

    fn put(&mut self, path: PathBuf, work: Work) {
        self.waiting.push_back((path, work));
        self.start();
    }

    fn start(&mut self) {
        for (path, work) in std::mem::take(&mut self.waiting) {
            if self.busy.len() >= MOST || self.busy.contains_key(&path) {
                self.waiting.push_back((path, work));
                continue;
            }
            self.busy.insert(path.clone(), (Instant::now(), false));
            self.spawn(path, work);
        }
    }

    fn spawn(&self, path: PathBuf, work: Work) {
        let (door, results) = (Arc::clone(&self.door), Arc::clone(&self.results));
        let (there, given) = (path.clone(), work.clone());
        let thread = thread::Builder::new().name("names-inside".into()).stack_size(STACK);
        let started = thread.spawn(move || {
            let done = given.done(&*door);
            results.put((there, done));
        });
        if let Err(cause) = started {
            let error = Error::os("starting the thread names-inside", cause);
            self.results.put((path, work.failed(error)));
        }
    }
}

impl Work {
    fn done(self, door: &dyn Door) -> Done {
        match self {
            Work::Enter(sandbox) => {
                let entered = door.enter(&sandbox);
                Done::Entered(sandbox, entered)
            }
            Work::Restore(sandbox, inside) => Done::Restored(sandbox, inside.restore()),
            Work::Leave((_, inside, leaving)) => {
                inside.leave(leaving);
                Done::Left(inside)
            }
        }
    }

    fn failed(self, error: Error) -> Done {
        match self {
            Work::Enter(sandbox) => Done::Entered(sandbox, Err(error)),
            Work::Restore(sandbox, _) => Done::Restored(sandbox, Err(error)),
            Work::Leave((_, inside, _)) => Done::Left(inside),
        }
    }
}

impl AsFd for Works {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.results.as_fd()
    }
}
