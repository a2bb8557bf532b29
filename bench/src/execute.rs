//! Executing programs as a runtime does, and what they cost.

use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{Error, Result};
use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::ClockId;
use nix::unistd::Pid;

/// Where programs are looked for.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long what a program left running may take to end.
const ORPHANS: Duration = Duration::from_secs(10);

/// What something took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Until the caller could go on.
    pub(crate) wall: Duration,
    /// User and system time of every process that took part, also of those that outlive the call.
    pub(crate) cpu: Duration,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// From before the fork until it has ended and closed its standard output.
    pub(crate) wall: Duration,
    /// What it said.
    pub(crate) stdout: String,
    /// Whether it succeeded.
    pub(crate) ok: bool,
}

/// A program with nothing of our environment.
pub(crate) fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", PATH).stderr(Stdio::null());
    command
}

/// Runs `command` with `input`.
pub(crate) fn execute(command: &mut Command, input: &str) -> Result<Done> {
    let about = format!("executing {:?}", command.get_program());
    let failed = |error| Error::os(about.clone(), error);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // Not every program reads what it is given.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(failed(error)),
            _ => {}
        }
    }
    let mut stdout = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut stdout).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    Ok(Done { wall: began.elapsed(), stdout, ok: status.success() })
}

/// As [`execute`]; a failure is an error that shows what the program said.
pub(crate) fn succeed(command: &mut Command, input: &str) -> Result<Done> {
    let done = execute(command, input)?;
    if done.ok {
        return Ok(done);
    }
    let said: String = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let program = command.get_program().to_string_lossy().into_owned();
    Err(Error::new(model::Kind::Kernel, format!("{program} failed: {said}")))
}

/// Does `work` and accounts for all processes that it starts. Only one at a time.
pub(crate) fn children<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    let before = spent(UsageWho::RUSAGE_CHILDREN)?;
    let began = Instant::now();
    let done = work();
    let wall = began.elapsed();
    bury()?;
    let cpu = spent(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(before);
    Ok((done?, Cost { wall, cpu }))
}

/// Does `work` and accounts for all threads of this process.
pub(crate) fn ourselves<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    let before = spent(UsageWho::RUSAGE_SELF)?;
    let began = Instant::now();
    let done = work()?;
    let wall = began.elapsed();
    let cpu = spent(UsageWho::RUSAGE_SELF)?.saturating_sub(before);
    Ok((done, Cost { wall, cpu }))
}

/// Waits for what programs left running: it became our child, because we are its subreaper.
pub(crate) fn bury() -> Result<()> {
    let deadline = Instant::now() + ORPHANS;
    while Instant::now() < deadline {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return Ok(()),
            Ok(WaitStatus::StillAlive) => sleep(Duration::from_micros(300)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::os("waiting for what was left running", errno.into())),
        }
    }
    Err(Error::try_again("a program left something running that does not end"))
}

/// The processor time that a process has had, with threads that have ended.
pub(crate) fn processor(pid: Pid) -> Result<Duration> {
    let time = ClockId::pid_cpu_clock_id(pid).and_then(ClockId::now);
    let time = time.map_err(|errno| Error::os(format!("the clock of {pid}"), errno.into()))?;
    Ok(time.into())
}

/// User and system time.
fn spent(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who).map_err(|errno| Error::os("asking what was used", errno.into()))?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
    Duration::from_micros(micros.unsigned_abs())
}
