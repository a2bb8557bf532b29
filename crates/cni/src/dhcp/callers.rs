//! The connected callers. Beyond the limit, the one that has been silent the longest is
//! disconnected.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// All connected callers, in the order in which they came.
#[derive(Debug)]
pub(super) struct Callers {
    most: usize,
    held: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    callers: BTreeMap<u64, Caller>,
}

#[derive(Debug)]
struct Caller {
    stream: UnixStream,
    has_asked: Arc<AtomicBool>,
}

/// One of them; gone when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    has_asked: Arc<AtomicBool>,
    callers: Arc<Callers>,
}

impl Callers {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Mutex::default() }
    }

    /// A place for the caller on `stream`; `None` where all others have sent a request.
    pub(super) fn welcome(self: &Arc<Self>, stream: &UnixStream) -> io::Result<Option<Slot>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.callers.len() >= self.most && !held.cut_off() {
            return Ok(None);
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let caller = Caller { stream: stream.try_clone()?, has_asked: Arc::clone(&has_asked) };
        let number = held.next;
        held.next = held.next.wrapping_add(1);
        held.callers.insert(number, caller);
        Ok(Some(Slot { number, has_asked, callers: Arc::clone(self) }))
    }
}

impl Connections {
    /// Whether there was a caller without a request.
    fn cut_off(&mut self) -> bool {
        let is_silent = |caller: &Caller| !caller.has_asked.load(Ordering::Acquire);
        let mut silent = self.callers.iter().filter(|(_, caller)| is_silent(caller));
        let Some(number) = silent.next().map(|(number, _)| *number) else { return false };
        drop(silent);
        // Its thread sees the end, and goes.
        self.callers.remove(&number).is_some_and(|it| it.stream.shutdown(Shutdown::Both).is_ok())
    }
}

impl Slot {
    /// It has asked something: it is not cut off any more.
    pub(super) fn asks(&self) {
        self.has_asked.store(true, Ordering::Release);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.callers.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.callers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use engine::Members;
    use model::{Error, NetworkName, Result};

    use super::*;
    use crate::dhcp::{Daemon, DhcpAnswer, Server, Service, Subject};

    struct Nothing;

    impl Service for Nothing {
        fn allocate(&self, _: &Subject) -> Result<DhcpAnswer> {
            Err(Error::unsupported("no"))
        }

        fn release(&self, _: &Subject) -> Result<()> {
            Ok(())
        }

        fn check(&self, _: &Subject) -> Result<DhcpAnswer> {
            Err(Error::unsupported("no"))
        }

        fn collect(&self, _: &NetworkName, _: &Members) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_says_nothing_gives_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let stop = Arc::new(netlink::Stop::new().unwrap());
        let reported = Arc::clone(&stop);
        let running = std::thread::spawn(move || {
            Server::new(Arc::new(Nothing)).run(&listener, &reported).unwrap()
        });
        let mut silent = Vec::new();
        for crowd in [256, 1000] {
            silent.extend((silent.len()..crowd).map(|_| UnixStream::connect(&path).unwrap()));
            let started = Instant::now();
            Daemon::at(&path).status().unwrap();
            // Each of them would be waited for as long.
            assert!(started.elapsed() < super::super::server::IDLE, "{:?}", started.elapsed());
        }
        stop.stop();
        running.join().unwrap();
    }

    #[test]
    fn who_has_asked_keeps_its_place() {
        let callers = Arc::new(Callers::new(2));
        let stream = || UnixStream::pair().unwrap().0;
        let first = callers.welcome(&stream()).unwrap().unwrap();
        let second = callers.welcome(&stream()).unwrap().unwrap();
        first.asks();
        let third = callers.welcome(&stream()).unwrap().unwrap();
        third.asks();
        assert!(callers.welcome(&stream()).unwrap().is_none());
        drop(second);
        assert!(callers.welcome(&stream()).unwrap().is_none(), "its place was gone before");
        drop(first);
        assert!(callers.welcome(&stream()).unwrap().is_some());
    }
}
