//! One synchronous netlink socket.
//!
//! The kernel works a batch off inside the `send` call, so its answers are in the queue when that
//! returns: they are fetched without waiting, and only an empty queue is waited for, never longer
//! than [`TIMEOUT`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recvfrom, send, socket_with, sockopt};

use crate::outcome::{Outcome, refused};
use crate::sys::{SocketOption, enable};
use crate::wire::{Batch, Message, Messages};

mod talk;

use talk::{ExchangeEnd, Talk, Until};

/// The longest wait for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel's size for the datagrams of a dump (`netlink_dump`); everything else fits. Each
/// further page is a page fault in a process that takes three milliseconds.
const BUFFER: usize = 8 * 1024;
/// Nothing longer is received.
const LARGEST: usize = 1 << 20;
/// Batches from this length on need a larger send buffer than `net.core.wmem_default`.
const SENDABLE: usize = 128 * 1024;
/// The size of the buffer for notifications, in bytes: those of a thousand links that change at
/// once.
const NOTIFICATIONS: usize = 1 << 20;
/// `NETLINK_ROUTE`, whose number is zero.
pub(crate) const ROUTE: Option<Protocol> = None;
/// How often a dump that was interrupted by a change is repeated.
const ATTEMPTS: usize = 8;

/// A socket of one netlink protocol, in the namespace where it was made.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    protocol: Option<Protocol>,
    sequence: u32,
    strict: bool,
    buffer: Vec<u8>,
}

impl Socket {
    /// For links, addresses, routes and neighbours (rtnetlink(7)).
    ///
    /// # Errors
    /// Where the process may not open more files.
    pub fn route() -> Result<Self> {
        Self::open(ROUTE, &[SocketOption::ExtAck]).map_err(|errno| refused(OPENING, errno))
    }

    /// For nftables and connection tracking. Closing it after something was deleted in nftables
    /// blocks for an RCU grace period.
    ///
    /// # Errors
    /// Where the kernel lacks nfnetlink, or the process may not open more files.
    pub fn netfilter() -> Result<Self> {
        Self::try_netfilter().map_err(|errno| refused(OPENING, errno))
    }

    /// As [`Socket::netfilter`], with the kernel's own reason.
    pub(crate) fn try_netfilter() -> Result<Self, Errno> {
        Self::open(Some(NETFILTER), &[SocketOption::ExtAck, SocketOption::CapAck])
    }

    /// Of another protocol of netlink.
    pub(crate) fn of_protocol(protocol: Protocol) -> Result<Self> {
        Self::open(Some(protocol), &[]).map_err(|errno| refused(OPENING, errno))
    }

    /// Receives the notifications of `groups`, a mask.
    pub(crate) fn notified(protocol: Option<Protocol>, groups: u32) -> Result<Self> {
        let socket = Self::open(protocol, &[]).map_err(|errno| refused(OPENING, errno))?;
        // Without the right to exceed net.core.rmem_max, notifications may be lost, which is noticed.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket.fd, NOTIFICATIONS);
        bind(&socket.fd, &SocketAddrNetlink::new(0, groups))
            .map_err(|errno| refused("subscribing to the kernel's notifications", errno))?;
        Ok(socket)
    }

    fn open(protocol: Option<Protocol>, options: &[SocketOption]) -> Result<Self, Errno> {
        let kind = SocketType::RAW;
        let fd = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol)?;
        for option in options {
            enable(&fd, *option)?;
        }
        Ok(Self { fd, protocol, sequence: 0, strict: false, buffer: Vec::new() })
    }

    /// Sends all messages in one system call; the last one is acknowledged, unless the batch asks
    /// for the acknowledgement of an earlier one. Without messages nothing happens.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if no answer comes or answers were lost; refused messages are not
    /// errors but in the [`Outcome`].
    pub fn send(&mut self, batch: &mut Batch) -> Result<Outcome> {
        self.exchange(batch, |_| {})
    }

    /// As [`Socket::send`], and shows `each` what the kernel answers besides results.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn exchange(
        &mut self,
        batch: &mut Batch,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<Outcome> {
        let Some(last) = batch.acknowledged() else { return Ok(Outcome::default()) };
        match self.converse(batch, Until::Acknowledged(last), &mut each)? {
            ExchangeEnd::Complete(outcome) => Ok(outcome),
            ExchangeEnd::Again => Err(lost(batch)),
        }
    }

    /// Asks for one object, in a batch of one message; `None` if the kernel answers one of
    /// `absent`.
    ///
    /// # Errors
    /// As [`Socket::send`]; a refusal; an answer that `read` cannot read.
    pub fn get<T>(
        &mut self,
        batch: &mut Batch,
        absent: &[Errno],
        mut read: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        for _ in 0..ATTEMPTS {
            let mut found = None;
            let mut each = |message: &Message<'_>| found = read(message);
            let ExchangeEnd::Complete(outcome) =
                self.converse(batch, Until::Answered, &mut each)?
            else {
                continue;
            };
            if outcome.failures().iter().any(|failure| absent.contains(&failure.errno)) {
                return Ok(None);
            }
            outcome.into_result()?;
            return found.map(Some).ok_or_else(|| unreadable(batch));
        }
        Err(lost(batch))
    }

    /// Asks for everything of a kind, in a batch of one message with [`crate::wire::DUMP`], and
    /// keeps what `read` makes something of; nothing if the kernel answers one of `absent`. A
    /// dump that changed while it was taken is taken again.
    ///
    /// # Errors
    /// As [`Socket::send`]; a refusal; [`model::Kind::TryAgain`] if it keeps changing.
    pub fn dump<T>(
        &mut self,
        batch: &mut Batch,
        absent: &[Errno],
        read: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>> {
        self.dump_or(batch, read, |errno| absent.contains(&errno))
    }

    /// As [`Socket::dump`]; nothing if `is_absent` says so of what the kernel answers.
    pub(crate) fn dump_or<T>(
        &mut self,
        batch: &mut Batch,
        mut read: impl FnMut(&Message<'_>) -> Option<T>,
        is_absent: impl FnMut(Errno) -> bool,
    ) -> Result<Vec<T>> {
        let each = |found: &mut Vec<T>, message: &Message<'_>| found.extend(read(message));
        self.fold_dump(batch, Vec::new, each, is_absent)
    }

    /// As [`Socket::dump_or`], for messages that are looked at one after the other: `each` is called with what `begin` made,
    /// and with each of them. A dump that is taken again begins anew.
    pub(crate) fn fold_dump<S>(
        &mut self,
        batch: &mut Batch,
        begin: impl Fn() -> S,
        mut each: impl FnMut(&mut S, &Message<'_>),
        mut is_absent: impl FnMut(Errno) -> bool,
    ) -> Result<S> {
        self.check_strictly()?;
        for _ in 0..ATTEMPTS {
            let mut state = begin();
            let mut hear = |message: &Message<'_>| each(&mut state, message);
            let ExchangeEnd::Complete(outcome) = self.converse(batch, Until::Done, &mut hear)?
            else {
                continue;
            };
            if outcome.failures().iter().any(|failure| is_absent(failure.errno)) {
                return Ok(begin());
            }
            outcome.into_result()?;
            return Ok(state);
        }
        Err(lost(batch))
    }

    /// The notifications of the next datagram; `None` if there is none yet.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if notifications were lost.
    pub(crate) fn notifications(&mut self) -> Result<Option<Messages<'_>>> {
        let about = "reading the kernel's notifications";
        loop {
            match self.receive() {
                Ok(Received::Datagram(length)) => {
                    return Ok(Some(Messages::new(self.buffer.get(..length).unwrap_or_default())));
                }
                Ok(Received::Foreign) => {}
                Ok(Received::Truncated) => return Err(refused(about, Errno::NOBUFS)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(refused(about, errno)),
            }
        }
    }

    /// Only dumps are filtered by what this switches on, so only they pay the call.
    fn check_strictly(&mut self) -> Result<()> {
        if self.protocol == ROUTE && !self.strict {
            enable(&self.fd, SocketOption::StrictCheck)
                .map_err(|errno| refused("asking the kernel to filter dumps", errno))?;
            self.strict = true;
        }
        Ok(())
    }

    fn converse(
        &mut self,
        batch: &mut Batch,
        until: Until,
        each: &mut dyn FnMut(&Message<'_>),
    ) -> Result<ExchangeEnd> {
        let first = self.transmit(batch)?;
        let deadline = Instant::now() + TIMEOUT;
        let mut talk = Talk::new(first, until);
        loop {
            match self.receive() {
                Ok(Received::Datagram(length)) => {
                    let datagram = self.buffer.get(..length).unwrap_or_default();
                    if Messages::new(datagram).any(|message| talk.hear(&message, batch, each)) {
                        return Ok(talk.end());
                    }
                }
                Ok(Received::Foreign) => {}
                Ok(Received::Truncated) | Err(Errno::NOBUFS) => talk.lose(),
                Err(Errno::AGAIN) if talk.is_stalled() => return Ok(talk.end()),
                Err(Errno::AGAIN) => {
                    if !self.readable(deadline)? {
                        return Err(silent(batch));
                    }
                }
                Err(errno) => return Err(refused(batch.about(0).to_owned(), errno)),
            }
        }
    }

    /// Sends `batch`; returns its first sequence number.
    fn transmit(&mut self, batch: &mut Batch) -> Result<u32> {
        if batch.is_too_long() {
            let what = format!("{}: an attribute is longer than 65535 bytes", batch.about(0));
            return Err(Error::bug(what));
        }
        let first = self.sequence.wrapping_add(1);
        let count = u32::try_from(batch.count()).unwrap_or(u32::MAX);
        self.sequence = self.sequence.wrapping_add(count);
        let bytes = batch.seal(first);
        if bytes.len() > SENDABLE {
            // Without the right to exceed net.core.wmem_max, the send below says what is wrong.
            let _ = sockopt::set_socket_send_buffer_size_force(&self.fd, 2 * bytes.len());
        }
        loop {
            match send(&self.fd, bytes, SendFlags::empty()) {
                Ok(_) => return Ok(first),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(batch.about(0).to_owned(), errno)),
            }
        }
    }

    /// Takes one datagram, without waiting.
    fn receive(&mut self) -> Result<Received, Errno> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER];
        }
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (_, length, from) = recvfrom(&self.fd, self.buffer.as_mut_slice(), flags)?;
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        if from.is_none_or(|from| from.pid() != 0) {
            return Ok(Received::Foreign);
        }
        if length > self.buffer.len() {
            self.buffer.resize(length.min(LARGEST), 0);
            return Ok(Received::Truncated);
        }
        Ok(Received::Datagram(length))
    }

    /// Waits until there is something to receive; `false` after `deadline`.
    fn readable(&self, deadline: Instant) -> Result<bool> {
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(remaining).ok();
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused("waiting for the kernel", errno)),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const OPENING: &str = "opening a netlink socket";

/// One receive.
enum Received {
    /// This many bytes of the buffer.
    Datagram(usize),
    /// Not from the kernel.
    Foreign,
    /// It did not fit; the next one of its size will.
    Truncated,
}

fn lost(batch: &Batch) -> Error {
    Error::try_again(format!("{}: the kernel's answers were lost or kept changing", batch.about(0)))
}

fn silent(batch: &Batch) -> Error {
    let seconds = TIMEOUT.as_secs();
    Error::try_again(format!("{}: the kernel did not answer for {seconds} s", batch.about(0)))
}

fn unreadable(batch: &Batch) -> Error {
    Error::new(model::Kind::Kernel, format!("{}: the answer cannot be read", batch.about(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::At;
    use crate::wire::DUMP;

    #[test]
    fn what_does_not_fit_is_asked_for_again() {
        let mut socket = Socket::route().unwrap();
        socket.buffer = vec![0; 40];
        let link = socket.link(At::Index(1)).unwrap().unwrap();
        assert!(link.flags.is_loopback());
        let mut batch = Batch::new();
        batch.request(18, DUMP, "listing links").bytes(&[0; 16]);
        socket.buffer = vec![0; 40];
        assert!(!socket.dump(&mut batch, &[], |_| Some(())).unwrap().is_empty());
    }

    #[test]
    fn a_thousand_links_may_change_before_anybody_listens() {
        let socket = Socket::notified(ROUTE, 1).unwrap();
        assert!(sockopt::socket_recv_buffer_size(&socket.fd).unwrap() >= NOTIFICATIONS);
    }

    #[test]
    fn an_empty_batch_asks_nothing() {
        let mut socket = Socket::route().unwrap();
        socket.send(&mut Batch::new()).unwrap().into_result().unwrap();
        assert_eq!(socket.sequence, 0);
    }

    #[test]
    fn what_is_too_long_is_not_sent() {
        let mut batch = Batch::new();
        batch.request(16, 0, "asking").attribute(1, &[0; 70_000]);
        let error = Socket::route().unwrap().send(&mut batch).unwrap_err();
        assert_eq!(error.kind(), model::Kind::Bug);
    }
}
