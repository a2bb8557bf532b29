//! The first process of a container: it starts the main one, keeps its log, reaps what is left to it,
//! and ends with it. When it ends, the kernel ends whatever else is in the container.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fstat, open, openat, renameat};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, setsid, wait};
use rustix::thread::UnshareFlags;

use crate::cgroup::Cgroups;
use crate::ending::Ending;
use crate::fault::{Doing, Fault};
use crate::line::{Line, Message};
use crate::program::{Files, Program};
use crate::rootfs::Plan;
use crate::sys;

/// When a log is this long, in bytes, it becomes `log.1`, and a new one begins.
const LONGEST_LOG: i64 = 1 << 20;
/// How much of its last output is reported with the end of the main process, in bytes.
const LAST_WORDS: usize = 1 << 10;

/// How often the output is read before everything else has its turn.
const READS: usize = 64;

/// The parameters of the init. All its files are the starter's, and open in both.
pub(crate) struct Init<'s> {
    pub(crate) line: &'s Line,
    /// Others may start in this directory when both have closed it.
    pub(crate) lock: BorrowedFd<'s>,
    /// The container's directory.
    pub(crate) directory: BorrowedFd<'s>,
    pub(crate) ended: BorrowedFd<'s>,
    pub(crate) input: BorrowedFd<'s>,
    /// Its file system; `None` where an OCI runtime makes it.
    pub(crate) plan: Option<&'s Plan>,
    pub(crate) main: Option<&'s Program>,
    pub(crate) cgroups: &'s Cgroups,
}

impl Init<'_> {
    /// Its files, as numbers.
    pub(crate) fn files(&self) -> Vec<RawFd> {
        [self.line.as_fd(), self.lock, self.directory, self.ended, self.input]
            .iter()
            .map(AsRawFd::as_raw_fd)
            .chain(self.cgroups.files().iter().map(AsRawFd::as_raw_fd))
            .collect()
    }

    /// Lets the next child of the calling process be the first of a process namespace.
    pub(crate) fn separate(&self) -> Result<(), Errno> {
        match self.plan {
            Some(_) => sys::unshare(UnshareFlags::NEWPID),
            None => Ok(()),
        }
    }

    /// The work of the first process.
    pub(crate) fn live(&self) -> ! {
        let mut kept = self.files();
        sys::close_all_but(&mut kept);
        sys::reset_signals();
        // It fails only for the leader of a session, which is one already.
        let _ = setsid();
        match self.begin() {
            Ok(Some(life)) => {
                let mut kept = [self.directory, self.ended, life.signals.as_fd()]
                    .map(|fd| fd.as_raw_fd())
                    .to_vec();
                kept.extend(life.output.as_ref().map(AsRawFd::as_raw_fd));
                kept.extend(life.log.as_ref().map(AsRawFd::as_raw_fd));
                // If the starter is gone, the container still runs, and the next caller finds its
                // record.
                let _ = self.line.say(&Message::Started);
                sys::close_all_but(&mut kept);
                life.go_on(self)
            }
            Ok(None) => sys::exit(1),
            Err(fault) => {
                // If the starter is gone, there is no receiver.
                let _ = self.line.say(&Message::Failed(fault));
                sys::exit(1)
            }
        }
    }

    /// `None` if the starter is gone.
    fn begin(&self) -> Result<Option<Life>, Fault> {
        self.cgroups.enter()?;
        if let Some(plan) = self.plan {
            plan.enter()?;
        }
        // If the starter is gone, the answer below is missing.
        let _ = self.line.say(&Message::Ready);
        if self.line.hear() != Some(Message::Go) {
            return Ok(None);
        }
        let signals = sys::signals().doing("listening to signals")?;
        let log = self.log();
        let Some(main) = self.main else {
            return Ok(Some(Life { main: None, signals, output: None, log, written: Vec::new() }));
        };
        let flags = PipeFlags::CLOEXEC;
        let (reader, writer) = pipe_with(flags).doing("making a pipe")?;
        let (output, errors) = (writer.as_fd(), writer.as_fd());
        let pid = main.spawn(Files { input: self.input, output, errors })?;
        // A pipe always accepts it.
        let _ = rustix::io::ioctl_fionbio(&reader, true);
        let (main, output) = (Some(pid), Some(reader));
        Ok(Some(Life { main, signals, output, log, written: Vec::new() }))
    }

    /// An OCI runtime says by its own code that a signal ended what it ran.
    fn ending(&self, status: WaitStatus) -> Ending {
        match ending(status) {
            Ending::Exited(code @ 129..=192) if self.plan.is_none() => Ending::Signaled(code - 128),
            how => how,
        }
    }

    fn log(&self) -> Option<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(self.directory, "log", flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o600)).ok()
    }
}

struct Life {
    main: Option<Pid>,
    signals: OwnedFd,
    /// Where the main process's output comes; `None` at its end.
    output: Option<OwnedFd>,
    log: Option<OwnedFd>,
    /// The end of the output.
    written: Vec<u8>,
}

impl Life {
    fn go_on(mut self, init: &Init<'_>) -> ! {
        loop {
            self.wait();
            self.keep_log(init);
            while let Some(signal) = sys::next_signal(&self.signals) {
                self.take(signal, init);
            }
            // Signals of the same kind come as one.
            self.reap(init);
        }
    }

    fn wait(&self) {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        // After an interruption the loop checks everything.
        let _ = poll(&mut fds, None);
    }

    fn take(&self, signal: i32, init: &Init<'_>) {
        let named = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::CHILD);
        match (self.main, named) {
            (Some(main), Some(signal)) => {
                // It may have ended already.
                let _ = kill_process(main, signal);
            }
            (None, Some(Signal::TERM | Signal::INT)) => end(init, Ending::Exited(0), &[]),
            _ => {}
        }
    }

    fn reap(&mut self, init: &Init<'_>) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == self.main {
                self.keep_log(init);
                end(init, init.ending(status), last(&self.written));
            }
        }
    }

    /// Keeps what was written, at most so many full pipes: a process that writes without end does
    /// not keep signals and ended processes waiting.
    fn keep_log(&mut self, init: &Init<'_>) {
        let mut bytes = [0; 16 * 1024];
        for _ in 0..READS {
            let Some(output) = &self.output else { return };
            match read(output, &mut bytes) {
                Ok(0) => self.output = None,
                Ok(length) => self.append(init, bytes.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.output = None,
            }
        }
    }

    fn append(&mut self, init: &Init<'_>, bytes: &[u8]) {
        let much = (self.written.len() + bytes.len()).saturating_sub(2 * LAST_WORDS);
        self.written.drain(..much.min(self.written.len()));
        self.written
            .extend(bytes.get(bytes.len().saturating_sub(2 * LAST_WORDS)..).unwrap_or_default());
        let length = self.log.as_ref().and_then(|log| fstat(log).ok()).map(|stat| stat.st_size);
        if length.is_some_and(|length| length >= LONGEST_LOG) {
            // Then the log continues in the same file.
            let _ = renameat(init.directory, "log", init.directory, "log.1");
            self.log = init.log();
        }
        if let Some(log) = &self.log {
            // A full disk must not stop the container.
            let _ = write(log, bytes);
        }
    }
}

fn end(init: &Init<'_>, how: Ending, written: &[u8]) -> ! {
    // Without it the end counts as unknown.
    let _ = write(init.ended, &[how.to_text().as_bytes(), written].concat());
    sys::exit(0)
}

/// Whole lines at the end of the output, as many as fit; of a longer one its end.
fn last(written: &[u8]) -> &[u8] {
    let Some(from) = written.len().checked_sub(LAST_WORDS) else { return written };
    let reported = written.get(from..).unwrap_or_default();
    let line = reported.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    let whole = line.and_then(|at| reported.get(at..)).filter(|rest| !rest.is_empty());
    whole.unwrap_or(reported)
}

/// How a process that was waited for ended.
pub(crate) fn ending(status: WaitStatus) -> Ending {
    let signaled = status.terminating_signal().map(Ending::Signaled);
    signaled.or(status.exit_status().map(Ending::Exited)).unwrap_or(Ending::Unseen)
}

/// A directory, to be kept open.
pub(crate) fn held(path: &std::path::Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_reported() {
        assert_eq!(last(b"a\nb\n"), b"a\nb\n");
        let long = [b"x".repeat(LAST_WORDS), b"\nb\nc\n".to_vec()].concat();
        assert_eq!(last(&long), b"b\nc\n");
        let one = b"x".repeat(2 * LAST_WORDS);
        assert_eq!(last(&one), &one[LAST_WORDS..]);
        let ended = [b"x".repeat(LAST_WORDS), b"\n".to_vec()].concat();
        assert_eq!(last(&ended).len(), LAST_WORDS);
    }

    /// A process that always has more to say keeps neither signals nor ended processes waiting.
    #[test]
    fn output_without_end_has_an_end() {
        let lab = tempfile::tempdir().unwrap();
        let directory = held(lab.path()).unwrap();
        let (line, _other) = Line::pair().unwrap();
        let at = directory.as_fd();
        let cgroups = Cgroups::none();
        let init = Init {
            line: &line,
            lock: at,
            directory: at,
            ended: at,
            input: at,
            plan: None,
            main: None,
            cgroups: &cgroups,
        };
        let endless = open("/dev/zero", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let signals = directory.try_clone().unwrap();
        let mut life = Life {
            main: None,
            signals,
            output: Some(endless),
            log: init.log(),
            written: Vec::new(),
        };
        life.keep_log(&init);
        assert!(life.output.is_some() && !life.written.is_empty());
    }
}
