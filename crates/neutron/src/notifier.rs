//! Notifications between processes that there is work (inotify(7)).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Rings when there is something to do about ports.
#[derive(Debug)]
pub struct Notifier {
    heard: OwnedFd,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There may be work.
    Rung,
    /// The timeout without a notification.
    Late,
    /// It is to stop.
    Stopped,
}

impl Notifier {
    /// Rings when something appears in one of these directories, or is touched there.
    pub(crate) fn at(directories: &[PathBuf]) -> Result<Self> {
        let doing = |cause: Errno| Error::os("watching the ports of this host", cause.into());
        let heard = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(doing)?;
        let signs = WatchFlags::MOVED_TO | WatchFlags::ATTRIB | WatchFlags::ONLYDIR;
        for directory in directories {
            inotify::add_watch(&heard, directory, signs).map_err(doing)?;
        }
        Ok(Self { heard })
    }

    /// Waits for it, for so long or until `stop` can be read.
    pub fn wait(&self, stop: BorrowedFd<'_>, limit: Duration) -> Result<Woken> {
        let doing = |cause: Errno| Error::os("waiting for ports to look after", cause.into());
        let limit = Timespec::try_from(limit)
            .map_err(|_| Error::bug(format!("{limit:?} is too long to wait")))?;
        let mut sources = [
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::new(&self.heard, PollFlags::IN),
        ];
        match poll(&mut sources, Some(&limit)) {
            Ok(0) => return Ok(Woken::Late),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Woken::Rung),
            Err(cause) => return Err(doing(cause)),
        }
        if !sources[0].revents().is_empty() {
            return Ok(Woken::Stopped);
        }
        self.hush().map_err(doing)?;
        Ok(Woken::Rung)
    }

    /// Reads all events: after any of them everything is checked.
    fn hush(&self) -> Result<(), Errno> {
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::io::read(&self.heard, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(cause) => return Err(cause),
            }
        }
    }
}
