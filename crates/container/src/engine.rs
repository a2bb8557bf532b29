//! The verbs of the container engine: start, exec, stop, list.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup::{self, Cgroups};
use crate::directory::{Directory, Record};
use crate::ending::{Ended, Ending, LastEnd};
use crate::line::ready;
use crate::program::Program;
use crate::spec::{Bounds, Process, Spec};
use crate::{exec, runtime, start};

/// How long the kernel may take to end what was killed.
const BURIAL: Duration = Duration::from_secs(10);

/// The program that runs containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// This program itself.
    Native,
    /// An OCI runtime: runc, crun or one with the same arguments. A name is searched in `PATH`.
    Runtime(PathBuf),
}

/// A container that was running when this was made.
#[derive(Debug)]
pub struct Running {
    directory: Directory,
    record: Record,
    pidfd: OwnedFd,
    /// Its first process, where an OCI runtime has made it.
    inside: Option<OwnedFd>,
}

impl Engine {
    /// Starts a container whose records are in `directory` (made if missing, and used by the engine
    /// only), with `stdin` as its main process's standard input. A container that runs there
    /// already is returned. It does not end with the caller.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] if `spec` is not possible; [`model::Kind::NotFound`] if there is no
    /// such program in it; [`model::Kind::Denied`] without the rights; [`model::Kind::TryAgain`] if
    /// another process starts one here for long; the kernel's refusal.
    pub fn start(&self, directory: &Path, spec: &Spec, stdin: &[u8]) -> Result<Running> {
        let directory = Directory::new(directory);
        directory.make()?;
        let lock = directory.lock()?;
        let lock = lock.ok_or_else(|| Error::try_again("the container's directory is gone"))?;
        if let Some(running) = Running::find(&directory)? {
            return Ok(running);
        }
        directory.clear()?;
        let (record, pidfd) = match self {
            Self::Native => start::start(&directory, &lock, spec, stdin)?,
            Self::Runtime(program) => start::by_runtime(&directory, &lock, spec, (stdin, program))?,
        };
        let here = directory.clone();
        Running::of(directory, record, pidfd).or_else(|error| {
            here.clear()?;
            Err(error.context(format_args!("starting {}", spec.name)))
        })
    }

    /// The container that runs in `directory`, if one does, whatever it was started with. One that
    /// is being started is waited for.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn adopt(&self, directory: &Path) -> Result<Option<Running>> {
        let directory = Directory::new(directory);
        let Some(_lock) = directory.lock()? else { return Ok(None) };
        Running::find(&directory)
    }

    /// How the last container in `directory` ended; `None` if none was started, or it runs.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn last_end(&self, directory: &Path) -> Result<Option<LastEnd>> {
        let directory = Directory::new(directory);
        let Some(record) = directory.record()?.filter(|record| !record.is_running()) else {
            return Ok(None);
        };
        let (ending, words) = directory.ended()?;
        let was_short_of_memory = directory.is_short()? || cgroup::was_short(&directory)?;
        Ok(Some(LastEnd { process: record.init, ending, words, was_short_of_memory }))
    }
}

impl Running {
    fn find(directory: &Directory) -> Result<Option<Self>> {
        let Some(record) = directory.record()? else {
            // One that never began may have left them.
            return cgroup::remove(directory).map(|()| None);
        };
        if !record.is_running() {
            return Self::bury(directory, &record).map(|()| None);
        }
        let pid = i32::try_from(record.init.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::bug("a container's record names no process"))?;
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            opened => opened.map_err(|errno| Error::os("watching a container", errno.into()))?,
        };
        // Only now is the number known to stand for that process.
        match record.is_running() {
            true => Self::of(directory.clone(), record, pidfd).map(Some),
            false => Ok(None),
        }
    }

    fn of(directory: Directory, record: Record, pidfd: OwnedFd) -> Result<Self> {
        let inside = match record.runtime {
            Some(_) => runtime::inside(&directory, &record, &pidfd)?,
            None => None,
        };
        Ok(Self { directory, record, pidfd, inside })
    }

    /// Removes what a container that has ended left outside of its directory.
    fn bury(directory: &Directory, record: &Record) -> Result<()> {
        Self::end_kept(directory, record)?;
        cgroup::remove(directory)
    }

    /// Ends what a runtime ran whose keeper was killed.
    fn end_kept(directory: &Directory, record: &Record) -> Result<()> {
        match &record.runtime {
            Some((program, name)) => runtime::delete(directory, program, name),
            None => Ok(()),
        }
    }

    /// The first process of the container. It ends when the container does.
    pub fn process(&self) -> model::Process {
        self.record.init
    }

    /// Readable when the container has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Runs `process` in the container with `input` as its standard input, and waits for its end,
    /// not for that of what it left in the background. When the limit is over, or the caller is
    /// killed, it and all its descendants are ended. Where its container ends meanwhile, so does it, as
    /// [`Ending::Unseen`].
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if the container has ended before it began; [`model::Kind::NotFound`] if there is
    /// no such program in it.
    pub fn exec(&self, process: &Process, input: &[u8], bounds: &Bounds) -> Result<Ended> {
        self.exec_holding(process, input, bounds, None)
    }

    /// As [`Running::exec`], with a file that stays open until every process of the call has ended,
    /// also where the caller dies before: a lock on it (flock(2)) lasts as long. A runtime that
    /// makes the call does not hold it.
    ///
    /// # Errors
    /// As [`Running::exec`].
    pub fn exec_holding(
        &self,
        process: &Process,
        input: &[u8],
        bounds: &Bounds,
        held: Option<BorrowedFd<'_>>,
    ) -> Result<Ended> {
        if self.has_ended() {
            let what = "the container has ended; try again when it has been started";
            return Err(Error::try_again(what));
        }
        let program = Program::new(process, self.record.privileges)?;
        let init = self.inside.as_ref().unwrap_or(&self.pidfd);
        let cgroups = Cgroups::of(&self.directory, self.record.privileges)?;
        let container = exec::Container { init: init.as_fd(), cgroups, held };
        exec::exec(&container, &program, input, bounds)
    }

    /// Ends the container: SIGTERM to its main process, and SIGKILL to all after `grace`. Done if
    /// it has ended.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if the kernel has not ended it some seconds later.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        for (signal, limit) in [(Signal::TERM, grace), (Signal::KILL, BURIAL)] {
            if signal == Signal::KILL && !self.has_ended() {
                // The keeper sees the end of what it kept.
                Self::end_kept(&self.directory, &self.record)?;
                if self.inside.is_some() && ready(&self.pidfd, Instant::now() + BURIAL) {
                    return Ok(());
                }
            }
            match pidfd_send_signal(&self.pidfd, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(Error::os("ending a container", errno.into())),
            }
            if ready(&self.pidfd, Instant::now() + limit) {
                return Self::bury(&self.directory, &self.record);
            }
        }
        let what = format!("the kernel does not end process {}", self.record.init.pid);
        Err(Error::try_again(what))
    }

    /// How the container ended; `None` while it runs.
    pub fn ended(&self) -> Option<Ending> {
        self.has_ended()
            .then(|| self.directory.ended().map_or(Ending::Unseen, |(ending, _)| ending))
    }

    fn has_ended(&self) -> bool {
        ready(&self.pidfd, Instant::now())
    }
}
