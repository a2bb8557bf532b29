//! Requests that are being carried out, kept where they outlive this process.
//!
//! An engine that loses the connection repeats its call, for up to 15 s, with an empty body: its own
//! was read (moby `pkg/plugins/client.go`). The process after a killed one knows the body, and
//! carries the call out. That is only done where nothing can be confused: one request was in flight
//! when the process ended, and one is repeated. Of all others a mark stays, without a body, for as
//! long as they are repeated: if any process loses a call of the same method meanwhile, a repetition
//! could be that of either.
//!
//! Calls name their object and can be repeated, with three exceptions:
//! - RequestPool, RequestAddress: what the dead process allocated without an answer stays allocated
//!   until the reconciler finds that it is unused. Where the same was requested by name the
//!   repetition is refused, as it is taken.
//! - ReleaseAddress: by the time it is repeated the address may have another holder. It is carried
//!   out before the first call is answered; the repetition gets that result. Where third parties have to
//!   be asked it is not: the reconciler frees what is unused.
//! - ReleasePool: a second release would take the subnet from others that share it. It is not
//!   repeated; the reconciler frees what is unused.

mod slot;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::geteuid;

use libnetwork::Method;
use slot::{Slot, SlotContents};

/// How long after its loss a call is repeated: longer than any engine tries.
const REPEATED: Duration = Duration::from_secs(20);
/// Two calls that were lost together are repeated together: by then the second has come.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// More than there can be connections and threads; what is beyond is not kept.
const SLOTS: usize = 512;

/// The requests in flight, in a directory of files.
pub struct InFlight {
    directory: OwnedFd,
    slots: Mutex<Slots>,
    lost: Mutex<Vec<Lost>>,
}

struct Slots {
    free: Vec<Slot>,
    next: usize,
}

/// A request that a dead life had in flight, or the mark of one that can be confused.
struct Lost {
    kept: SlotContents,
    slot: Slot,
    /// How many calls were repeated that may be it.
    repeated: usize,
    is_done: bool,
    until: Instant,
}

impl Lost {
    /// Whether its body is not known any more: it is not carried out, and nothing of its method is.
    fn is_mark(&self) -> bool {
        self.kept.body.is_empty()
    }

    fn forget_body(&mut self) -> io::Result<()> {
        self.kept.body.clear();
        self.is_done = false;
        self.slot.write(self.kept.method, &[], self.kept.lost)
    }
}

/// A request that is kept until this is dropped.
pub(super) struct Flight {
    home: Arc<InFlight>,
    slot: Option<Slot>,
}

/// The meaning of a call without a body.
pub(super) enum Recalled {
    /// A request with this body, which is in flight again.
    Body(Vec<u8>, Flight),
    /// One that was carried out before.
    Done,
}

impl InFlight {
    /// The slots in `directory`, which is made if it is missing and must be Spoke's; `since_boot`
    /// is now. The requests of the previous process may be repeated.
    pub fn open(directory: &Path, since_boot: Duration) -> Result<Self> {
        let doing = || format!("opening {}", directory.display());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| Error::os(doing(), error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(directory, flags, Mode::empty());
        let opened = opened.map_err(|error| Error::os(doing(), error.into()))?;
        let found = fstat(&opened).map_err(|error| Error::os(doing(), error.into()))?;
        let owner = geteuid().as_raw();
        if found.st_uid != owner || found.st_mode & 0o022 != 0 {
            let what = format!("{} can be written by others; remove it", directory.display());
            return Err(Error::new(Kind::Denied, what));
        }
        let now = u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX).max(1);
        let (free, lost) = find(&opened, owner, now).map_err(|error| Error::os(doing(), error))?;
        let slots = Mutex::new(Slots { free, next: 0 });
        Ok(Self { directory: opened, slots, lost: Mutex::new(lost) })
    }

    /// Keeps until it is answered that a request of this method comes; its body is
    /// [`Flight::arrived`]. Where that fails the request is no worse off than it would be without.
    pub(super) fn keep(self: &Arc<Self>, method: Method) -> io::Result<Flight> {
        self.forget(|lost| Instant::now() > lost.until);
        let free = self.slots().free.pop();
        let mut slot = match free {
            Some(slot) => slot,
            None => self.another()?,
        };
        slot.write(method, &[], 0)?;
        Ok(Flight { home: Arc::clone(self), slot: Some(slot) })
    }

    /// Whether a call without a body may be a repetition: [`InFlight::recall`] says after a
    /// [`PAUSE`] which.
    pub(super) fn may_recall(&self, method: Method) -> bool {
        self.forget(|lost| Instant::now() > lost.until);
        let mut all = lock(&self.lost);
        let mut same = all.iter_mut().filter(|lost| lost.kept.method == method);
        let Some(lost) = same.next().filter(|lost| !lost.is_mark()) else { return false };
        lost.repeated += 1;
        lost.repeated == 1
    }

    /// The request that is repeated, once; none where several may be it.
    pub(super) fn recall(self: &Arc<Self>, method: Method) -> Option<Recalled> {
        let lost = {
            let mut all = lock(&self.lost);
            let at = all.iter().position(|lost| lost.kept.method == method)?;
            if let Some(lost) = all.get_mut(at).filter(|lost| lost.repeated != 1) {
                // Where that fails a later life knows one that this one does not.
                let _ = lost.forget_body();
                return None;
            }
            all.swap_remove(at)
        };
        let Lost { kept, mut slot, is_done, .. } = lost;
        if is_done {
            self.give_back(slot);
            return Some(Recalled::Done);
        }
        // A life after this one, which may be killed too, finds it as one of this life.
        let written = slot.write(kept.method, &kept.body, 0);
        let slot = written.is_ok().then_some(slot);
        Some(Recalled::Body(kept.body, Flight { home: Arc::clone(self), slot }))
    }

    /// Carries out what must not wait for its repetition.
    pub(super) fn settle(&self, carry_out: impl Fn(Method, &[u8]) -> bool) {
        for lost in lock(&self.lost).iter_mut() {
            if lost.kept.method != Method::ReleaseAddress || lost.is_done || lost.is_mark() {
                continue;
            }
            // To a life after this one it is a mark: its answer is all that is due.
            let is_done = carry_out(lost.kept.method, &lost.kept.body);
            let is_marked = lost.slot.write(lost.kept.method, &[], lost.kept.lost).is_ok();
            match is_done && is_marked {
                true => lost.is_done = true,
                false => lost.kept.body.clear(),
            }
        }
    }

    fn forget(&self, which: impl Fn(&Lost) -> bool) {
        let gone: Vec<_> = lock(&self.lost).extract_if(.., |lost| which(lost)).collect();
        gone.into_iter().for_each(|lost| self.give_back(lost.slot));
    }

    fn another(&self) -> io::Result<Slot> {
        loop {
            let next = {
                let mut slots = self.slots();
                slots.next += 1;
                slots.next - 1
            };
            if next >= SLOTS {
                return Err(io::Error::other("there are too many requests"));
            }
            if let Some(slot) = Slot::create(&self.directory, &next.to_string())? {
                return Ok(slot);
            }
        }
    }

    fn give_back(&self, mut slot: Slot) {
        if slot.clear().is_ok() {
            self.slots().free.push(slot);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        lock(&self.slots)
    }
}

impl Flight {
    /// Keeps the body of a request that came without one so far. It stays in its slot, so that one
    /// call never looks like two to the next process.
    pub(super) fn arrived(&mut self, method: Method, body: &[u8]) -> io::Result<()> {
        self.slot.as_mut().map_or(Ok(()), |slot| slot.write(method, body, 0))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.home.give_back(slot);
        }
    }
}

/// The slots that are free, and those with requests that may be repeated.
fn find(directory: &OwnedFd, owner: u32, now: u64) -> io::Result<(Vec<Slot>, Vec<Lost>)> {
    let (mut free, mut found) = (Vec::new(), Vec::new());
    for at in 0..SLOTS {
        let slot = match Slot::open(directory, &at.to_string(), owner) {
            Ok(Some(slot)) => slot,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        match slot.read()? {
            Some(kept) => found.push((kept, slot)),
            None => free.push(slot),
        }
    }
    let (lost, mut rest) = lost(found, now)?;
    rest.iter_mut().try_for_each(Slot::clear)?;
    free.append(&mut rest);
    Ok((free, lost))
}

/// The calls that may be repeated, with marks of those that can be confused, and the slots of all
/// others. None may be repeated where the last process had several in flight, and none of a method
/// of which several were lost, in any processes.
fn lost(found: Vec<(SlotContents, Slot)>, now: u64) -> io::Result<(Vec<Lost>, Vec<Slot>)> {
    let longest = u64::try_from(REPEATED.as_millis()).unwrap_or(u64::MAX);
    let is_fresh = |kept: &SlotContents| kept.lost == 0;
    let are_several = found.iter().filter(|(kept, _)| is_fresh(kept)).count() > 1;
    let (mut all, mut rest) = (Vec::new(), Vec::new());
    for (mut kept, slot) in found {
        let is_confused = are_several && is_fresh(&kept);
        if is_fresh(&kept) {
            kept.lost = now;
        }
        let age = now.checked_sub(kept.lost).filter(|age| *age < longest);
        let Some(age) = age.filter(|_| kept.method != Method::ReleasePool) else {
            rest.push(slot);
            continue;
        };
        let until = Instant::now() + REPEATED.saturating_sub(Duration::from_millis(age));
        if is_confused {
            kept.body.clear();
        }
        all.push(Lost { kept, slot, repeated: 0, is_done: false, until });
    }
    let methods: Vec<Method> = all.iter().map(|lost| lost.kept.method).collect();
    for lost in &mut all {
        if methods.iter().filter(|method| **method == lost.kept.method).count() > 1 {
            lost.kept.body.clear();
        }
        lost.slot.write(lost.kept.method, &lost.kept.body, lost.kept.lost)?;
    }
    Ok((all, rest))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
