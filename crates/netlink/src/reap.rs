//! Deleting links without waiting for the kernel to bury them.
//!
//! The kernel acknowledges `RTM_DELLINK` only after an RCU barrier of some 15 ms, long after the
//! link is gone, and closing an nfnetlink socket after a deletion blocks as long. A forked child
//! waits for both; the caller goes on when the kernel says that the links are gone. In a process
//! that lives long, a thread waits instead ([`Reaper`]).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use model::{Error, IfName, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;

use crate::link::{At, DELETE, INFO, ifla};
use crate::outcome::refused;
use crate::socket::{PATIENCE, ROUTE, Socket};
use crate::sys::{self, Side};
use crate::wire::{Batch, Message};

/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
/// See [`linger`]: many times what a work queue takes to begin.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// So many deletions of one [`Reaper`] wait for the kernel at once.
const THREADS: usize = 16;
/// Of a thread that only waits, in bytes.
const STACK: usize = 64 << 10;
/// Length of a [`Report`] on the pipe.
const REPORT: usize = 8;

/// Deletes `links` from the calling thread's namespace and returns when they are gone; a link
/// that is not there is gone. `hold` is kept open by the child for as long as closing it blocks.
///
/// Only for processes with one thread that live shortly: it forks once, and the child, a process
/// of its own session without any file of ours, ends by itself some milliseconds later. A
/// long-lived process has a [`Reaper`].
///
/// # Errors
/// [`model::Kind::TryAgain`] if a link is still there after [`PATIENCE`]; the kernel's refusal
/// to delete one.
pub fn reap(links: &[IfName], hold: Option<Socket>) -> Result<()> {
    if links.is_empty() {
        return match hold {
            Some(hold) => leave(&hold),
            None => Ok(()),
        };
    }
    let monitor = Socket::notified(ROUTE, LINKS)?;
    let route = Socket::route()?;
    let (reader, writer) = pipe()?;
    match sys::fork() {
        Ok(Side::Child) => bury(links, route, &writer, hold.as_ref()),
        Ok(Side::Parent) => {
            drop((route, writer, hold));
            Vigil::new(links, monitor, reader).keep()
        }
        // Too many processes: slower, but as well.
        Err(_) => links.iter().try_for_each(delete),
    }
}

/// Deletes links for a process that lives long. Threads wait for the kernel, a bounded number of
/// them; beyond that the caller waits itself.
#[derive(Debug, Default)]
pub struct Reaper {
    at_work: Arc<()>,
}

impl Reaper {
    /// Without any thread yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`reap`], without forking.
    ///
    /// # Errors
    /// As [`reap`].
    pub fn reap(&self, links: &[IfName]) -> Result<()> {
        if links.is_empty() {
            return Ok(());
        }
        // This one counts itself.
        if Arc::strong_count(&self.at_work) > THREADS {
            return links.iter().try_for_each(delete);
        }
        let monitor = Socket::notified(ROUTE, LINKS)?;
        let route = Socket::route()?;
        let (reader, writer) = pipe()?;
        let (unwanted, turn) = (links.to_vec(), Arc::clone(&self.at_work));
        let waiting = move || {
            delete_each(&unwanted, route, &writer);
            drop(turn);
        };
        match thread::Builder::new().name("reaper".into()).stack_size(STACK).spawn(waiting) {
            Ok(_) => Vigil::new(links, monitor, reader).keep(),
            // Too many threads: slower, but as well.
            Err(_) => links.iter().try_for_each(delete),
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| refused("making a pipe to the reaper", errno))
}

/// Lets a child close `hold`.
fn leave(hold: &Socket) -> Result<()> {
    match sys::fork() {
        Ok(Side::Child) => {
            let _end = End;
            let _ = setsid();
            sys::close_all_but(&mut [hold.as_fd().as_raw_fd()]);
            linger();
            sys::exit()
        }
        // Without a child the caller's own close blocks, and that is all.
        Ok(Side::Parent) | Err(_) => Ok(()),
    }
}

fn delete(link: &IfName) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete_link(At::Name(link));
    Socket::route()?.send(&mut batch)?.except(Errno::NODEV).into_result()
}

/// Gives the kernel the time to begin with what was deleted in nftables. Whoever closes the socket
/// before that waits for the whole grace period with the lock that every other change of the
/// ruleset needs; afterwards nobody waits.
fn linger() {
    let _ = poll(&mut [], Some(&LINGER));
}

/// The child's end: also a panic must not run the caller's code a second time.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        sys::exit()
    }
}

/// The child's whole life.
fn bury(links: &[IfName], route: Socket, writer: &OwnedFd, hold: Option<&Socket>) -> ! {
    let _end = End;
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
fn delete_each(links: &[IfName], mut route: Socket, writer: &OwnedFd) {
    for (index, link) in (0u32..).zip(links) {
        let mut batch = Batch::new();
        batch.delete_link(At::Name(link));
        let code = match route.send(&mut batch) {
            Ok(outcome) => outcome.failures().first().map_or(0, |f| f.errno.raw_os_error()),
            Err(_) => Errno::IO.raw_os_error(),
        };
        // The caller may long be gone; then nobody needs to know.
        let _ = write(writer, &Report { index, code }.to_bytes());
    }
}

/// What the child says about one link. Eight bytes in a pipe arrive whole.
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
struct Vigil<'a> {
    /// By their place in the child's list.
    waiting: BTreeMap<u32, &'a IfName>,
    monitor: Socket,
    reader: OwnedFd,
    /// Notifications were lost: only the child's reports count.
    deaf: bool,
}

impl<'a> Vigil<'a> {
    fn new(links: &'a [IfName], monitor: Socket, reader: OwnedFd) -> Self {
        Self { waiting: (0..).zip(links).collect(), monitor, reader, deaf: false }
    }

    fn keep(mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
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
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
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
                    waiting.retain(|_, link| !is_end_of(&message, link));
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
            errno => Err(refused(format!("deleting {link}"), errno)),
        }
    }

    /// Whether the links are gone, although nobody said so.
    fn ask(&self) -> Result<()> {
        let mut socket = Socket::route()?;
        for link in self.waiting.values() {
            if socket.link(At::Name(link))?.is_some() {
                let what = format!("deleting {link}: it is still there; try again");
                return Err(Error::try_again(what));
            }
        }
        Ok(())
    }
}

/// Whether `message` says that `link` is gone, rather than that a bridge lost it as a port.
fn is_end_of(message: &Message<'_>, link: &IfName) -> bool {
    let of_link = message.kind == DELETE && message.payload.first() == Some(&0);
    let name = message.attributes(INFO).find_kind(ifla::IFNAME);
    of_link && name.and_then(|name| name.text()) == Some(link.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::info;
    use crate::wire::Messages;

    fn notification(kind: u16, family: u8, name: &str) -> Vec<u8> {
        let mut header = info(7, 0, 0);
        header[0] = family;
        let mut batch = Batch::new();
        batch.request(kind, 0, "test").bytes(&header).text(ifla::IFNAME, name);
        batch.seal(0).to_vec()
    }

    #[test]
    fn only_its_own_end_counts() {
        let link: IfName = "veth1".parse().unwrap();
        let ends = |bytes: Vec<u8>| is_end_of(&Messages::new(&bytes).next().unwrap(), &link);
        assert!(ends(notification(DELETE, 0, "veth1")));
        assert!(!ends(notification(DELETE, 7, "veth1")), "left its bridge");
        assert!(!ends(notification(DELETE, 0, "veth10")));
        assert!(!ends(notification(16, 0, "veth1")));
    }

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let report = Report { index: 3, code: -7 };
        assert_eq!(Report::from_bytes(report.to_bytes()), report);
    }
}
