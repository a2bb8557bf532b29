//! The line between a starter and its child. Each end notices the end of the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use crate::ending::Ending;
use crate::fault::Fault;

/// Longer sentences are cut.
const LONGEST: usize = 4096;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The file system is there, nothing runs yet.
    Ready,
    /// It may begin.
    Go,
    /// The program runs.
    Started,
    /// Nothing runs, nor will it.
    Failed(Fault),
    /// The program ended.
    Ended(Ending),
}

/// One end.
#[derive(Debug)]
pub(crate) struct Line(OwnedFd);

impl Line {
    /// Both ends.
    pub(crate) fn pair() -> Result<(Self, Self), Errno> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    pub(crate) fn say(&self, message: &Message) -> Result<(), Errno> {
        let mut bytes = match message {
            Message::Ready => vec![b'r'],
            Message::Go => vec![b'g'],
            Message::Started => vec![b's'],
            Message::Failed(fault) => [vec![b'f'], fault.to_bytes()].concat(),
            Message::Ended(ending) => [b"e", ending.to_text().as_bytes()].concat(),
        };
        bytes.truncate(LONGEST);
        send(&self.0, &bytes, SendFlags::NOSIGNAL).map(drop)
    }

    /// The next message; `None` when the other end is gone.
    pub(crate) fn hear(&self) -> Option<Message> {
        let mut bytes = [0; LONGEST];
        let length = loop {
            match recv(&self.0, &mut bytes, RecvFlags::empty()) {
                Ok((length, _)) => break length,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        let (first, rest) = bytes.get(..length)?.split_first()?;
        match first {
            b'r' => Some(Message::Ready),
            b'g' => Some(Message::Go),
            b's' => Some(Message::Started),
            b'f' => Fault::of_bytes(rest).map(Message::Failed),
            b'e' => Some(Message::Ended(Ending::of_text(&String::from_utf8_lossy(rest)))),
            _ => None,
        }
    }

    /// As [`Line::hear`], and `None` after `deadline`, too.
    pub(crate) fn hear_until(&self, deadline: Instant) -> Option<Message> {
        if ready(&self.0, deadline) { self.hear() } else { None }
    }

    /// Closes this end for reading; the other end notices.
    pub(crate) fn hang_up(&self) {
        // The other end may be gone.
        let _ = shutdown(&self.0, Shutdown::Write);
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until `fd` is readable or at its end; `false` after `deadline`.
pub(crate) fn ready(fd: impl AsFd, deadline: Instant) -> bool {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(remaining).ok();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fault::Class;

    #[test]
    fn what_is_said_is_heard() {
        let (one, other) = Line::pair().unwrap();
        for message in [
            Message::Ready,
            Message::Go,
            Message::Started,
            Message::Failed(Fault::new(Class::Overlay, "no", Errno::NODEV)),
            Message::Ended(Ending::Signaled(15)),
        ] {
            one.say(&message).unwrap();
            assert_eq!(other.hear(), Some(message));
        }
        assert_eq!(other.hear_until(Instant::now() + Duration::from_millis(1)), None);
        drop(one);
        assert_eq!(other.hear(), None);
    }
}
