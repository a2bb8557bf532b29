//! Starts and ends a container by an OCI runtime.
//!
//! A *keeper* of Spoke's, which is the init of [`crate::init`] on the host, runs the runtime in the
//! foreground, keeps the log, and writes how it ended. Calls enter the container's namespaces as
//! without a runtime: `exec` of a runtime returns while processes that the program left behind
//! still run, and cannot end them.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::bundle;
use crate::directory::{Directory, Record};
use crate::line::ready;
use crate::spec::{Process, Spec};
use crate::tree;

/// How long a runtime may take to start a container.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which to check for the end.
const BETWEEN: Duration = Duration::from_millis(2);
/// The file that the runtime writes the number of the container's first process to.
const NUMBER: &str = "runtime.pid";
/// The file that it says to what is wrong.
const WORDS: &str = "runtime.log";
/// The parts of its lines that are no errors.
const ASIDES: [&str; 3] = ["level=warning", "level=info", "level=debug"];

/// The container's name in the runtime: one name may be in several directories.
pub(crate) fn name(directory: &Directory, spec: &Spec) -> String {
    let path = directory.path("");
    let hash =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
        });
    format!("{}-{hash:016x}", spec.name)
}

/// The keeper's command, with the bundle written.
pub(crate) fn command(
    directory: &Directory,
    spec: &Spec,
    (program, name): (&Path, &str),
) -> Result<Process> {
    bundle::write(directory, spec)?;
    for file in [NUMBER, WORDS] {
        // Mostly there is none; the runtime overwrites one that stays.
        let _ = fs::remove_file(directory.path(file));
    }
    let mut args = vec![program.into()];
    args.extend(["--root".into(), bundle::state(directory).into()]);
    args.extend(["--log".into(), directory.path(WORDS).into()]);
    args.extend(["run", "--no-new-keyring", "--pid-file"].map(Into::into));
    args.extend([directory.path(NUMBER).into(), "--bundle".into(), directory.path("").into()]);
    args.push(name.into());
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    let mut process = Process::new::<std::ffi::OsString>(args);
    process.env = vec![("PATH".into(), path)];
    Ok(process)
}

/// The first process of the container that `keeper` keeps; `None` if it has ended. One that is
/// being started is waited for, until it is the program that it is to be: before that it is the
/// runtime, which a signal ends in the runtime's way.
pub(crate) fn inside(
    directory: &Directory,
    record: &Record,
    keeper: &OwnedFd,
) -> Result<Option<OwnedFd>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let text = fs::read_to_string(directory.path(NUMBER)).unwrap_or_default();
        if let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw)
            && let Ok(first) = pidfd_open(pid, PidfdFlags::empty())
            && is_of(pid, record)
        {
            return Ok(Some(first));
        }
        if ready(keeper, Instant::now()) {
            // It has run, and ended.
            if directory.path(NUMBER).exists() {
                return Ok(None);
            }
            return Err(refusal(directory));
        }
        if Instant::now() > deadline {
            return Err(Error::try_again("the OCI runtime does not start the container"));
        }
        sleep(BETWEEN);
    }
}

/// Whether the process is a child of the runtime that the keeper runs, and a program of the
/// container by now.
fn is_of(pid: Pid, record: &Record) -> bool {
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let Some(own) = stat(pid.as_raw_nonzero().get()) else { return false };
    let runtime = tree::parent(&own).and_then(stat);
    let keeper = runtime.and_then(|runtime| tree::parent(&runtime));
    keeper.and_then(|keeper| u32::try_from(keeper).ok()) == Some(record.init.pid)
        && tree::has_executed(&own)
}

/// Why the runtime started nothing, in its own words.
pub(crate) fn refusal(directory: &Directory) -> Error {
    let written = fs::read_to_string(directory.path(WORDS)).unwrap_or_default();
    // runc says how much each line matters, crun says what is wrong and nothing else.
    let is_aside = |line: &&str| ASIDES.iter().any(|level| line.contains(level));
    let Some(last) = written.lines().rev().find(|line| !line.is_empty() && !is_aside(line)) else {
        return Error::try_again("the container has ended; try again when it has been started");
    };
    if last.contains("cgroups in hybrid mode") {
        let hint = "it wants cgroups of one version only: mount them so \
                    (systemd.unified_cgroup_hierarchy=1), or let runc or the native engine run it";
        return Error::new(Kind::Unsupported, format!("the OCI runtime refused: {last}; {hint}"));
    }
    let is_missing = last.contains("no such file") || last.contains("not found in $PATH");
    let kind = if is_missing { Kind::NotFound } else { Kind::Kernel };
    Error::new(kind, format!("the OCI runtime refused: {last}"))
}

/// Ends what is left of a container; nothing, where there is nothing.
pub(crate) fn delete(directory: &Directory, program: &Path, name: &str) -> Result<()> {
    let root = bundle::state(directory);
    if !root.join(name).exists() {
        return Ok(());
    }
    let mut command = Command::new(program);
    command.arg("--root").arg(&root).args(["delete", "--force", name]);
    let ended = command.stdin(Stdio::null()).output();
    let ended =
        ended.map_err(|error| Error::os(format!("running {}", program.display()), error))?;
    if ended.status.success() || !root.join(name).exists() {
        return Ok(());
    }
    let written = String::from_utf8_lossy(&ended.stderr);
    let what = format!("{} does not end container {name}: {}", program.display(), written.trim());
    Err(Error::try_again(what))
}
