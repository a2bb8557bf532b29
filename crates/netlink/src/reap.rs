//! Deletes links without waiting for the kernel's cleanup.
//!
//! The kernel acknowledges `RTM_DELLINK` only after an RCU barrier of some 15 ms, long after the
//! link is gone, and closing an nfnetlink socket after a deletion blocks as long. A forked child
//! waits for both; the caller continues when the kernel reports that the links are gone. In a
//! long-lived process a thread waits instead ([`Reaper`]).
//!
//! The kernel reports that a link is gone only after the driver's part, which for a bridge is a
//! barrier too. But it first reports that it closed the link, and no other process can change or
//! look up links from then on until the link is gone: so that report is enough ([`is_end_of`]).
//! Links are deleted by their indexes: the name may be that of another link before the request is
//! processed.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use model::{Error, IfName, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;

use crate::link::{At, DELETE, NEW};
use crate::outcome::refused;
use crate::socket::{ROUTE, Socket, TIMEOUT};
use crate::sys::{self, ForkSide};
use crate::wire::{Batch, Message, array};

mod threads;

pub use threads::Reaper;

/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
/// See [`linger`]: many times what a work queue takes to begin.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// `IFF_UP`, and with `IFF_RUNNING`.
const UP: u32 = 0x1;
const UP_AND_RUNNING: u32 = 0x41;
/// Length of a [`Report`] on the pipe.
const REPORT: usize = 8;

/// Deletes `links` from the calling thread's namespace and returns when they are gone; a missing
/// link is gone. The child keeps `hold` open for as long as closing it blocks.
///
/// Only for short-lived processes with one thread: it forks once, and the child, in a session of
/// its own without open files, ends some milliseconds later. A long-lived process has a [`Reaper`].
///
/// # Errors
/// [`model::Kind::TryAgain`] if a link still exists after [`TIMEOUT`]; the kernel's refusal to
/// delete one.
pub fn reap(links: &[IfName], hold: Option<Socket>) -> Result<()> {
    if links.is_empty() {
        return match hold {
            Some(hold) => leave(&hold),
            None => Ok(()),
        };
    }
    let mut route = Socket::route()?;
    let doomed = find(links, &mut route)?;
    if doomed.is_empty() {
        return reap(&[], hold);
    }
    let monitor = Socket::notified(ROUTE, LINKS)?;
    let (reader, writer) = pipe()?;
    match sys::fork() {
        Ok(ForkSide::Child) => bury(&doomed, route, &writer, hold.as_ref()),
        Ok(ForkSide::Parent) => {
            drop((route, writer, hold));
            ReapWait::new(&doomed, monitor, reader).keep()
        }
        // Too many processes: slower, but as well.
        Err(_) => doomed.iter().try_for_each(delete),
    }
}

/// As [`reap`] without a child: it waits until the kernel has done all.
///
/// # Errors
/// The kernel's refusal to delete a link.
pub fn delete_links(links: &[IfName]) -> Result<()> {
    if links.is_empty() {
        return Ok(());
    }
    let mut route = Socket::route()?;
    find(links, &mut route)?.iter().try_for_each(delete)
}

/// A link that is to go.
#[derive(Clone, Debug)]
struct Doomed {
    index: u32,
    /// For telling.
    name: IfName,
}

/// Those that exist.
fn find(links: &[IfName], route: &mut Socket) -> Result<Vec<Doomed>> {
    let mut found = Vec::with_capacity(links.len());
    for name in links {
        let link = route.link(At::Name(name))?;
        found.extend(link.map(|link| Doomed { index: link.index, name: name.clone() }));
    }
    Ok(found)
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| refused("making a pipe to the reaper", errno))
}

/// Has the kernel close the socket once this process, which is to end soon, has ended: no process waits for that. Where
/// the kernel holds no files of processes that have ended, this one closes it, and waits.
///
/// Other changes of the ruleset wait as long as where the process closes it. A child of [`reap`] spares them that.
pub fn close_at_end(socket: Socket) {
    // Some hosts allow no rings.
    let _ = sys::ring::hold_past_end(&socket);
}

/// Lets a child close `hold`.
fn leave(hold: &Socket) -> Result<()> {
    match sys::fork() {
        Ok(ForkSide::Child) => {
            let _end = ExitGuard;
            // It fails only for the leader of a session, which is one already.
            let _ = setsid();
            sys::close_all_but(&mut [hold.as_fd().as_raw_fd()]);
            linger();
            sys::exit()
        }
        // Without a child the caller's own close blocks, and that is all.
        Ok(ForkSide::Parent) | Err(_) => Ok(()),
    }
}

fn delete(link: &Doomed) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete_link(At::Index(link.index));
    let deleted = Socket::route()?.send(&mut batch)?.except(Errno::NODEV).into_result();
    deleted.map_err(|error| error.context(format!("deleting {}", link.name)))
}

/// Gives the kernel the time to begin with the deletions in nftables. A process that closes the
/// socket before that waits for the whole grace period, and holds the lock that every other change
/// of the ruleset needs; afterwards no process waits.
fn linger() {
    // A shorter pause only costs time.
    let _ = poll(&mut [], Some(&LINGER));
}

/// The child's end: also a panic must not run the caller's code a second time.
pub(crate) struct ExitGuard;

impl Drop for ExitGuard {
    fn drop(&mut self) {
        sys::exit()
    }
}

/// The child's whole life.
fn bury(links: &[Doomed], route: Socket, writer: &OwnedFd, hold: Option<&Socket>) -> ! {
    let _end = ExitGuard;
    // It fails only for the leader of a group, which a child is not.
    let _ = setsid();
    let mut kept: Vec<RawFd> = vec![route.as_fd().as_raw_fd(), writer.as_raw_fd()];
    kept.extend(hold.map(|hold| hold.as_fd().as_raw_fd()));
    sys::close_all_but(&mut kept);
    delete_each(links, route, writer);
    if hold.is_some() {
        linger();
    }
    sys::exit()
}

/// Deletes the links one after the other and reports each, long after it is gone.
fn delete_each(links: &[Doomed], mut route: Socket, writer: &OwnedFd) {
    for (index, link) in (0u32..).zip(links) {
        let mut batch = Batch::new();
        batch.delete_link(At::Index(link.index));
        let code = match route.send(&mut batch) {
            Ok(outcome) => outcome.failures().first().map_or(0, |f| f.errno.raw_os_error()),
            Err(_) => Errno::IO.raw_os_error(),
        };
        // The caller may be gone; then the report is not needed.
        let _ = write(writer, &Report { index, code }.to_bytes());
    }
}

/// The child's report about one link. Eight bytes in a pipe arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    index: u32,
    /// Zero or the error's number.
    code: i32,
}

impl Report {
    fn to_bytes(self) -> [u8; REPORT] {
        let mut bytes = [0; REPORT];
        bytes[..4].copy_from_slice(&self.index.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.code.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; REPORT]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { index: u32::from_ne_bytes([a, b, c, d]), code: i32::from_ne_bytes([e, f, g, h]) }
    }
}

/// The caller's wait for the end of its links.
struct ReapWait<'a> {
    /// By their place in the child's list.
    waiting: BTreeMap<u32, &'a Doomed>,
    monitor: Socket,
    reader: OwnedFd,
    /// Notifications were lost: only the child's reports count.
    deaf: bool,
}

impl<'a> ReapWait<'a> {
    fn new(links: &'a [Doomed], monitor: Socket, reader: OwnedFd) -> Self {
        Self { waiting: (0..).zip(links).collect(), monitor, reader, deaf: false }
    }

    fn keep(mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.waiting.is_empty() {
            let Some((notified, reported)) = self.wait(deadline)? else { return self.ask() };
            if notified {
                self.hear();
            }
            if reported && !self.read()? {
                return self.ask();
            }
        }
        Ok(())
    }

    /// Which of monitor and pipe have something; `None` after `deadline`.
    fn wait(&self, deadline: Instant) -> Result<Option<(bool, bool)>> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(remaining).ok();
        let both = [&self.reader as &dyn AsFd, &self.monitor];
        let heard = if self.deaf { &both[..1] } else { &both[..] };
        let mut fds: Vec<_> =
            heard.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => Ok(None),
            Ok(_) => {
                let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                Ok(Some((ready(1), ready(0))))
            }
            Err(Errno::INTR) => Ok(Some((false, false))),
            Err(errno) => Err(refused("waiting for links to go", errno)),
        }
    }

    fn hear(&mut self) {
        let Self { waiting, monitor, deaf, .. } = self;
        while !waiting.is_empty() {
            match monitor.notifications() {
                Ok(Some(mut messages)) => messages.by_ref().for_each(|message| {
                    waiting.retain(|_, link| !is_end_of(&message, link.index));
                }),
                Ok(None) => return,
                Err(_) => {
                    *deaf = true;
                    return;
                }
            }
        }
    }

    /// Takes one report in; `false` if the child has ended.
    fn read(&mut self) -> Result<bool> {
        let mut bytes = [0; REPORT];
        match read(&self.reader, &mut bytes) {
            Ok(REPORT) => {}
            Err(Errno::INTR) => return Ok(true),
            Ok(_) | Err(_) => return Ok(false),
        }
        let report = Report::from_bytes(bytes);
        let Some(link) = self.waiting.remove(&report.index) else { return Ok(true) };
        match Errno::from_raw_os_error(report.code.clamp(1, 4095)) {
            _ if report.code == 0 => Ok(true),
            Errno::NODEV => Ok(true),
            errno => Err(refused(format!("deleting {}", link.name), errno)),
        }
    }

    /// Whether the links are gone, without a notification.
    fn ask(&self) -> Result<()> {
        let mut socket = Socket::route()?;
        for link in self.waiting.values() {
            if socket.link(At::Index(link.index))?.is_some() {
                let what = format!("deleting {}: it is still there; try again", link.name);
                return Err(Error::try_again(what));
            }
        }
        Ok(())
    }
}

/// Whether `message` says that the link is gone or about to be, rather than that a bridge lost it as
/// a port.
fn is_end_of(message: &Message<'_>, index: u32) -> bool {
    let is_of_link = message.payload.first() == Some(&0)
        && array(message.payload, 4).map(u32::from_ne_bytes) == Some(index);
    let is_end = message.kind == DELETE || message.kind == NEW && is_closed_to_go(message);
    is_of_link && is_end
}

/// Whether the kernel closed the link in order to delete it (`dev_close_many`). A process that only
/// sets a link down changes `IFF_UP` alone, and mostly sent the request with a number.
fn is_closed_to_go(message: &Message<'_>) -> bool {
    let field = |at| array(message.payload, at).map(u32::from_ne_bytes);
    let is_down = field(8).is_some_and(|flags| flags & UP == 0);
    message.sequence == 0 && is_down && field(12) == Some(UP_AND_RUNNING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::info;
    use crate::wire::Messages;

    fn is_end(kind: u16, family: u8, (index, flags, change): (u32, u32, u32)) -> bool {
        let mut header = info(index, flags, change);
        header[0] = family;
        let mut batch = Batch::new();
        batch.request(kind, 0, "test").bytes(&header);
        let bytes = batch.seal(0).to_vec();
        is_end_of(&Messages::new(&bytes).next().unwrap(), 7)
    }

    #[test]
    fn only_its_own_end_counts() {
        assert!(is_end(DELETE, 0, (7, 0, 0)));
        assert!(!is_end(DELETE, 7, (7, 0, 0)), "left its bridge");
        assert!(!is_end(DELETE, 0, (8, 0, 0)));
        assert!(!is_end(NEW, 0, (7, 0, 0)));
    }

    #[test]
    fn a_link_that_is_closed_goes_and_one_that_is_set_down_does_not() {
        assert!(is_end(NEW, 0, (7, 0x1002, UP_AND_RUNNING)));
        assert!(!is_end(NEW, 0, (7, 0x1002, UP)), "set down");
        assert!(!is_end(NEW, 0, (7, 0x1003, UP_AND_RUNNING)), "set up");
        assert!(!is_end(NEW, 7, (7, 0x1002, UP_AND_RUNNING)), "a port");
    }

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let report = Report { index: 3, code: -7 };
        assert_eq!(Report::from_bytes(report.to_bytes()), report);
    }
}
