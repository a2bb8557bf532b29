//! Runs programs in a container that runs already.
//!
//! A *shim* in the container's namespaces starts the call's program and reports its end. It is the
//! reaper of all descendants of the program, so that it finds and ends all of them when the caller
//! closes the line or dies. It ends with the call; background processes of the call belong to the
//! container's init from then on.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_child_subreaper,
    setsid, waitpid,
};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::cgroup::Cgroups;
use crate::ending::{Ended, Ending};
use crate::fault::{Doing, Fault};
use crate::init::ending;
use crate::line::{Line, Message, ready};
use crate::program::{Files, Program};
use crate::spec::Bounds;
use crate::start;
use crate::sys::{self, ForkSide};
use crate::traces::Traces;
use crate::tree;

/// How long the kernel may take to end a container in which nothing can be done any more.
const DYING: Duration = Duration::from_millis(500);
/// How long a shim may take to end what it started.
const GRACE: Duration = Duration::from_millis(700);

/// The container of a call.
pub(crate) struct Container<'c> {
    /// Its first process.
    pub(crate) init: BorrowedFd<'c>,
    /// Where its processes are.
    pub(crate) cgroups: Cgroups,
    /// Stays open as long as a process of the call runs.
    pub(crate) held: Option<BorrowedFd<'c>>,
}

/// Runs `program` in `container`.
pub(crate) fn exec(
    container: &Container<'_>,
    program: &Program,
    input: &[u8],
    bounds: &Bounds,
) -> Result<Ended> {
    let init = container.init;
    let deadline = Instant::now() + bounds.limit;
    let input = start::input(input)?;
    let failed = |errno: Errno| Error::os("calling into a container", errno.into());
    let (stdout, output) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (stderr, errors) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (line, far) = Line::pair().map_err(failed)?;
    let files = Files { input: input.as_fd(), output: output.as_fd(), errors: errors.as_fd() };
    let shim = fork_inside(container, || shim(container, program, files, &far))?;
    drop((output, errors, far));
    let mut call = Call {
        line,
        stdout: Output::new(stdout, bounds.stdout).map_err(failed)?,
        stderr: Output::new(stderr, bounds.stderr).map_err(failed)?,
        shim,
        has_started: false,
    };
    let status = call.wait(deadline);
    // A container does not end before all that was in it has been waited for.
    call.end();
    let status = status.map_err(|fault| match fault {
        Some(fault) => refused(init, fault.errno(), |_| fault.into()),
        None => gone(),
    })?;
    Ok(Ended {
        status,
        truncated: call.stdout.truncated || call.stderr.truncated,
        stdout: call.stdout.kept,
        stderr: call.stderr.kept,
    })
}

/// Forks a child that is in the process namespace of `init`. The caller's other children are where
/// they always are: who enters the namespace is a process between, which ends.
fn fork_inside(container: &Container<'_>, child: impl FnOnce()) -> Result<Pid> {
    let init = container.init;
    let failed = |errno: Errno| Error::os("entering the processes of a container", errno.into());
    let traces = Traces::find()?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let between = match sys::fork().map_err(failed)? {
        ForkSide::Child => {
            let _end = sys::EndHere;
            traces.clear("spoke-plugin: call");
            let number = match enter_and_fork(init) {
                Ok(ForkSide::Child) => {
                    child();
                    sys::exit(0)
                }
                Ok(ForkSide::Parent(pid)) => pid.as_raw_nonzero().get(),
                Err(errno) => -errno.raw_os_error(),
            };
            // The starter notices the end of a child that could not send its number.
            let _ = write(&writer, &number.to_ne_bytes());
            sys::exit(0)
        }
        ForkSide::Parent(between) => between,
    };
    // It only reaps the child.
    let _ = waitpid(Some(between), WaitOptions::empty());
    let mut number = [0; 4];
    rustix::io::ioctl_fionbio(&reader, true).map_err(failed)?;
    let length = read(&reader, &mut number).unwrap_or_default();
    let number = i32::from_ne_bytes(number);
    match Pid::from_raw(number.max(0)) {
        Some(pid) => Ok(pid),
        None if length == 4 => Err(refused(init, Errno::from_raw_os_error(-number), failed)),
        None => Err(failed(Errno::CHILD)),
    }
}

fn enter_and_fork(init: BorrowedFd<'_>) -> Result<ForkSide, Errno> {
    move_into_thread_name_spaces(init, ThreadNameSpaceType::PROCESS_ID)?;
    sys::fork_sibling()
}

/// The meaning of the kernel's refusal: while a container ends, every call in it fails, and the end
/// of its first process is visible only a moment later.
fn refused(init: BorrowedFd<'_>, errno: Errno, error: impl FnOnce(Errno) -> Error) -> Error {
    let is_likely = matches!(errno, Errno::SRCH | Errno::INVAL | Errno::NOMEM | Errno::PERM);
    if is_likely && ready(init, Instant::now() + DYING) { gone() } else { error(errno) }
}

fn gone() -> Error {
    Error::try_again("the container has ended; try again when it has been started")
}

/// The work of the shim.
fn shim(container: &Container<'_>, program: &Program, files: Files<'_>, line: &Line) {
    let mut kept: Vec<_> = [container.init, files.input, files.output, files.errors, line.as_fd()]
        .map(|fd| fd.as_raw_fd())
        .into_iter()
        .chain(container.cgroups.files().iter().map(AsRawFd::as_raw_fd))
        .chain(container.held.map(|held| held.as_raw_fd()))
        .collect();
    sys::close_all_but(&mut kept);
    sys::reset_signals();
    // It fails only for the leader of a session, which is one already.
    let _ = setsid();
    let (pid, end) = match enter_and_spawn(container, program, files, line) {
        Ok(started) => started,
        Err(fault) => {
            // If the starter is gone, there is no receiver.
            let _ = line.say(&Message::Failed(fault));
            return;
        }
    };
    // The caller is to see the end of the program's output.
    let held = container.held.map_or(line.as_fd().as_raw_fd(), |held| held.as_raw_fd());
    sys::close_all_but(&mut [line.as_fd().as_raw_fd(), end.as_raw_fd(), held]);
    if attend(line, &end) {
        let status = waitpid(Some(pid), WaitOptions::empty());
        let how = status.ok().flatten().map_or(Ending::Unseen, |(_, status)| ending(status));
        // If the starter is gone, there is no receiver.
        let _ = line.say(&Message::Ended(how));
    } else {
        tree::end_descendants();
    }
}

fn enter_and_spawn(
    container: &Container<'_>,
    program: &Program,
    files: Files<'_>,
    line: &Line,
) -> Result<(Pid, OwnedFd), Fault> {
    container.cgroups.enter()?;
    let entered = move_into_thread_name_spaces(container.init, ThreadNameSpaceType::MOUNT);
    entered.doing("entering the mounts of a container")?;
    set_child_subreaper(Some(Pid::INIT)).doing("becoming a reaper")?;
    // Sent before: a call that is killed in between must not be repeated as if it had not begun.
    let _ = line.say(&Message::Started);
    let pid = program.spawn(files)?;
    let end = pidfd_open(pid, PidfdFlags::empty()).doing("watching a process")?;
    Ok((pid, end))
}

/// Whether the process behind `end` ended before the caller hung up.
fn attend(line: &Line, end: &OwnedFd) -> bool {
    loop {
        let mut fds = [PollFd::new(end, PollFlags::IN), PollFd::new(line, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) if !fds[0].revents().is_empty() => return true,
            Ok(_) | Err(Errno::INTR) if fds[1].revents().is_empty() => {}
            _ => return false,
        }
    }
}

/// The caller's side.
struct Call {
    line: Line,
    stdout: Output,
    stderr: Output,
    shim: Pid,
    /// The program runs, or ran, or is about to.
    has_started: bool,
}

impl Call {
    /// The shim's result; without one it ended with the container. A program that has begun then
    /// ended with an unknown result.
    fn wait(&mut self, deadline: Instant) -> Result<Ending, Option<Fault>> {
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                self.line.hang_up();
                return Ok(Ending::TimedOut);
            }
            if self.read_once(remaining) {
                match self.line.hear() {
                    Some(Message::Started) => self.has_started = true,
                    Some(Message::Ended(how)) => return Ok(how),
                    Some(Message::Failed(fault)) => return Err(Some(fault)),
                    _ if self.has_started => return Ok(Ending::Unseen),
                    _ => return Err(None),
                }
            }
        }
    }

    /// Reads what is available, and waits for it up to `limit`; returns whether the shim sent a
    /// message.
    fn read_once(&mut self, limit: Duration) -> bool {
        let timeout = Timespec::try_from(limit).ok();
        let mut fds = vec![PollFd::new(&self.line, PollFlags::IN)];
        for output in [&self.stdout, &self.stderr] {
            fds.extend(output.file.as_ref().map(|file| PollFd::new(file, PollFlags::IN)));
        }
        let ready = poll(&mut fds, timeout.as_ref());
        let written = ready.is_ok() && !fds.first().is_none_or(|line| line.revents().is_empty());
        drop(fds);
        self.stdout.take();
        self.stderr.take();
        written
    }

    /// Returns when the shim, and with it what it was to end, is gone.
    fn end(&mut self) {
        if let Ok(shim) = pidfd_open(self.shim, PidfdFlags::empty())
            && !ready(&shim, Instant::now() + GRACE)
        {
            // It may have ended already.
            let _ = pidfd_send_signal(&shim, Signal::KILL);
        }
        let _ = waitpid(Some(self.shim), WaitOptions::empty());
        self.stdout.take();
        self.stderr.take();
    }
}

/// The output of a process, up to a bound. The rest is read and dropped, so that the process can
/// continue.
pub(crate) struct Output {
    pub(crate) file: Option<OwnedFd>,
    pub(crate) kept: Vec<u8>,
    pub(crate) truncated: bool,
    bound: usize,
}

impl Output {
    pub(crate) fn new(file: OwnedFd, bound: usize) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Self { file: Some(file), kept: Vec::new(), truncated: false, bound })
    }

    /// Reads what is available, at most a full pipe: a process that writes without end does not
    /// keep the reader.
    pub(crate) fn take(&mut self) {
        let mut bytes = [0; 16 * 1024];
        for _ in 0..64 {
            let Some(file) = &self.file else { return };
            match read(file, &mut bytes) {
                Ok(0) => self.file = None,
                Ok(length) => self.keep(bytes.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.file = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.bound.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend(bytes.get(..room).unwrap_or_default());
        self.truncated |= room < bytes.len();
    }
}
