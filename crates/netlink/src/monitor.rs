//! Notifications of changes, for a long-lived process.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Kind, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};
use rustix::net::netlink::NETFILTER;

use crate::nft;
use crate::outcome::refused;
use crate::socket::{ROUTE, Socket};
use crate::wire::Message;

/// `RTMGRP_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`.
const NETWORK: u32 = 0x10 | 0x40 | 0x100 | 0x400;
/// The same with `RTMGRP_LINK`, `_IPV4_RULE` and the bit of `RTNLGRP_IPV6_RULE`.
const ROUTING: u32 = NETWORK | 0x1 | 0x80 | 1 << 18;
/// The bit of `NFNLGRP_NFTABLES`.
const RULESET: u32 = 1 << 6;
/// More different changes than this at once are reported as [`Wake::Lost`].
const MOST: usize = 4096;
/// `PROC_PID_INIT_INO`: the inode of the initial process namespace.
const INITIAL_PROCESSES: u64 = 0xeffffffc;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// An address of a link came or went.
    Address,
    /// A route came or went.
    Route,
    /// A link came, went or changed.
    Link,
    /// A routing rule came or went.
    Rule,
    /// Another process changed the nftables ruleset.
    Ruleset(nft::News),
}

/// Why a wait is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// [`Stop::stop`] was called.
    Stopped,
    /// The time is over and nothing has changed.
    Quiet,
    /// These changed, each reported once.
    News(BTreeSet<Event>),
    /// More changed than could be kept: assume that everything did.
    Lost,
}

/// Ends the waiting of every [`Monitor`] that waits with it, from any thread and permanently.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// Not yet.
    ///
    /// # Errors
    /// Where the process may not open more files.
    pub fn new() -> Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|errno| refused("making an eventfd", errno))
    }

    /// Now.
    pub fn stop(&self) {
        // It fails only where its counter is full: then it is readable too.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Collects the changes in one network namespace from its creation on, whether a thread waits or
/// not.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    heard: BTreeSet<Event>,
    /// Changes of a transaction whose author is not known yet.
    pending: BTreeSet<Event>,
    lost: bool,
    /// Whether the kernel's thread numbers are those of `/proc`.
    knows_threads: bool,
}

impl AsFd for Monitor {
    /// Readable where something may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Monitor {
    /// Reports changes of addresses and routes in the calling thread's namespace.
    ///
    /// # Errors
    /// Where the process may not open more files.
    pub fn network() -> Result<Self> {
        Ok(Self::of(Socket::notified(ROUTE, NETWORK)?))
    }

    /// Reports changes of everything that routing depends on in the calling thread's namespace: links,
    /// addresses, routes and rules.
    ///
    /// # Errors
    /// As [`Monitor::network`].
    pub fn routing() -> Result<Self> {
        Ok(Self::of(Socket::notified(ROUTE, ROUTING)?))
    }

    /// Reports other processes' changes of the nftables ruleset of the calling thread's namespace.
    ///
    /// # Errors
    /// Where the kernel lacks nftables, or the process may not listen (CAP_NET_ADMIN).
    pub fn ruleset() -> Result<Self> {
        Ok(Self::of(Socket::notified(Some(NETFILTER), RULESET)?))
    }

    fn of(socket: Socket) -> Self {
        let (heard, pending) = (BTreeSet::new(), BTreeSet::new());
        Self { socket, heard, pending, lost: false, knows_threads: knows_threads() }
    }

    /// Waits until something has changed, for at most `limit`. Related changes mostly arrive
    /// together; a caller that wants a pause after them waits again.
    ///
    /// # Errors
    /// [`model::Kind::Kernel`] where the kernel sends no notifications any more.
    pub fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<Wake> {
        let deadline = Instant::now() + limit;
        loop {
            self.drain()?;
            if std::mem::take(&mut self.lost) {
                self.heard.clear();
                self.pending.clear();
                return Ok(Wake::Lost);
            }
            if !self.heard.is_empty() {
                return Ok(Wake::News(std::mem::take(&mut self.heard)));
            }
            match readable(&self.socket, stop, deadline)? {
                Readable::Stop => return Ok(Wake::Stopped),
                Readable::Nothing => return Ok(Wake::Quiet),
                Readable::Socket => {}
            }
        }
    }

    fn drain(&mut self) -> Result<()> {
        loop {
            let Self { socket, heard, pending, lost, knows_threads } = self;
            match socket.notifications() {
                Ok(Some(messages)) => messages.for_each(|message| {
                    hear(&message, heard, pending, *knows_threads);
                }),
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == Kind::TryAgain => *lost = true,
                Err(error) => return Err(error),
            }
            if heard.len() > MOST || pending.len() > MOST {
                heard.clear();
                pending.clear();
                *lost = true;
            }
        }
    }
}

fn hear(
    message: &Message<'_>,
    heard: &mut BTreeSet<Event>,
    pending: &mut BTreeSet<Event>,
    knows_threads: bool,
) {
    match nft::author(message) {
        Some(thread) if knows_threads && is_ours(thread) => pending.clear(),
        Some(_) => heard.append(pending),
        None => match nft::read_news(message) {
            Some(news) => drop(pending.insert(Event::Ruleset(news))),
            None => heard.extend(read(message)),
        },
    }
}

/// The change in a notification of rtnetlink, if it is a reported one.
pub(crate) fn read(message: &Message<'_>) -> Option<Event> {
    match message.kind {
        16 | 17 => Some(Event::Link),
        20 | 21 => Some(Event::Address),
        24 | 25 => Some(Event::Route),
        32 | 33 => Some(Event::Rule),
        _ => None,
    }
}

/// In a process namespace of its own, this process cannot identify its threads by the kernel's
/// numbers; then its own changes are reported too.
fn knows_threads() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL_PROCESSES)
}

fn is_ours(thread: u32) -> bool {
    Path::new(&format!("/proc/self/task/{thread}")).exists()
}

pub(crate) enum Readable {
    Socket,
    Stop,
    Nothing,
}

pub(crate) fn readable(socket: &Socket, stop: &Stop, deadline: Instant) -> Result<Readable> {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(remaining).ok();
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Readable::Nothing),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(Readable::Stop),
            Ok(_) => return Ok(Readable::Socket),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(refused("waiting for the kernel's notifications", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_notification_is_survived(
            kind in prop_oneof![16u16..30, 0x0a00u16..0x0a20],
            payload in proptest::collection::vec(any::<u8>(), 0..256),
        ) {
            let message = Message { kind, flags: 0, sequence: 0, payload: &payload };
            hear(&message, &mut BTreeSet::new(), &mut BTreeSet::new(), true);
        }
    }
}
