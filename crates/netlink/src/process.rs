//! Identity of processes, and whether they are alive.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use model::{Error, Process, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The namespace in which this host began to count its processes (the kernel's
/// `PROC_PID_INIT_INO`).
const FIRST: u64 = 0xEFFF_FFFC;

/// A number of a process is smaller (pid_namespaces(7), `/proc/sys/kernel/pid_max`).
const NUMBERS: u32 = 1 << 22;

/// The kernel's description of a process is shorter, in bytes, and so is read in one call.
const USUAL: usize = 1 << 10;

/// In the number of a process that another namespace counts. The bits below it, down to
/// [`NUMBERS`], are that namespace's last ones: plugin containers share the store, and each call in
/// one counts from the beginning.
const ELSEWHERE: u32 = 1 << 31;

/// The names of first processes that reap every orphan: of service managers, and of those that are
/// made for nothing else.
const REAPERS: [&str; 9] = [
    "systemd",
    "init",
    "openrc-init",
    "runit",
    "s6-svscan",
    "tini",
    "docker-init",
    "dumb-init",
    "catatonit",
];

/// Whether a child that outlives the calling process is reaped, and its end has no effect: this is
/// the host's first namespace of processes, and its first process is known. That of a pod may reap
/// no orphans, or take the first death for the signal to end.
pub fn orphans_are_reaped() -> bool {
    let space = fs::metadata("/proc/self/ns/pid").map(|space| space.ino());
    let first = || fs::read_to_string("/proc/1/comm").unwrap_or_default();
    matches!(space, Ok(FIRST)) && REAPERS.contains(&first().trim_end())
}

/// The calling process. Where this is not the host's first namespace of processes, its number says
/// so too.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn me() -> Result<Process> {
    let mut stat = String::with_capacity(USUAL);
    fs::File::open("/proc/self/stat")
        .and_then(|mut file| file.read_to_string(&mut stat))
        .map_err(|error| Error::os("reading /proc/self/stat", error))?;
    let (_, start) = state_and_start(&stat)
        .ok_or_else(|| Error::bug(format!("/proc/self/stat holds no start time: {stat:?}")))?;
    Ok(Process { pid: std::process::id() | counted_by("self"), start })
}

/// The namespace part of a process's number.
fn counted_by(process: &str) -> u32 {
    match fs::metadata(format!("/proc/{process}/ns/pid")).map(|space| space.ino()) {
        Ok(FIRST) | Err(_) => 0,
        Ok(space) => {
            let last = u32::try_from(space % u64::from(ELSEWHERE / NUMBERS)).unwrap_or_default();
            ELSEWHERE | (last * NUMBERS)
        }
    }
}

/// The process that has the id `pid` now; `None` if none has, or it has ended.
pub fn with_id(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (state, start) = state_and_start(&stat)?;
    (!matches!(state, 'Z' | 'X')).then_some(Process { pid, start })
}

/// Whether `process` is alive. A zombie is not; a process that may not be inspected is.
pub fn is_running(process: &Process) -> bool {
    number(process).is_some()
}

/// The number that a process that runs has here.
fn number(process: &Process) -> Option<u32> {
    let own = process.pid % NUMBERS;
    match is_running_as(own, process.start) {
        true => Some(own),
        false if process.pid & ELSEWHERE == 0 => None,
        false => number_of_another(process),
    }
}

/// Of all that began at that time, the one that its own namespace has numbered so.
fn number_of_another(process: &Process) -> Option<u32> {
    let own = (process.pid % NUMBERS).to_string();
    let is_it = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()) == Some(&own)
            && counted_by(&number.to_string()) == process.pid - process.pid % NUMBERS
    };
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|number| is_running_as(*number, process.start)).find(is_it)
}

fn is_running_as(number: u32, start: u64) -> bool {
    match fs::read_to_string(format!("/proc/{number}/stat")) {
        Ok(stat) => state_and_start(&stat)
            .is_some_and(|(state, began)| start == began && !matches!(state, 'Z' | 'X')),
        // ESRCH: it ended between opening and reading.
        Err(error) => {
            let gone = error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
            !gone && error.kind() != io::ErrorKind::NotFound
        }
    }
}

/// Waits until `process` has ended; `false` if it still runs after `limit`.
pub fn wait_for_end(process: &Process, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let pid = number(process).and_then(|number| Pid::from_raw(i32::try_from(number).ok()?));
    let Some(fd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return !is_running(process);
    };
    // Only now is the number known to stand for that process.
    while is_running(process) {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return false;
        }
        let timeout = Timespec::try_from(remaining).ok();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return !is_running(process),
        }
    }
    true
}

/// Fields 3 and 22 of proc_pid_stat(5). The second field may hold anything, also `)`.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_cannot_confuse_it() {
        let stat = "7 (a) Z (b) S 1 7 7 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 12345 99 1";
        assert_eq!(state_and_start(stat), Some(('S', 12345)));
        assert_eq!(state_and_start("7 (a"), None);
    }

    /// A shell that prints its number, in a namespace of processes of its own, is found from here.
    #[test]
    fn a_process_that_others_count_is_found() {
        let mut shell = Command::new("unshare");
        shell.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
        let script = "read -r stat </proc/self/stat; echo \"$stat\"; stat -Lc %i /proc/self/ns/pid; read end";
        let shell = shell.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut given = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let stat = given.next().unwrap().unwrap();
        let space: u64 = given.next().unwrap().unwrap().parse().unwrap();
        let (_, start) = state_and_start(&stat).unwrap();
        let pid = ELSEWHERE | ((space % 512) as u32 * NUMBERS) | 1;
        let process = Process { pid, start };
        assert!(is_running(&process), "{stat} {space}");
        assert!(!is_running(&Process { pid: 1, start }));
        assert!(!is_running(&Process { pid: pid ^ NUMBERS, start }), "of another namespace");
        assert!(!wait_for_end(&process, Duration::from_millis(1)));
        drop(child.stdin.take());
        assert!(wait_for_end(&process, Duration::from_secs(10)));
        child.wait().unwrap();
        assert!(!is_running(&process));
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mine = me().unwrap();
        assert!(is_running(&mine));
        assert!(!is_running(&Process { start: mine.start + 1, ..mine }));
        assert!(!wait_for_end(&mine, Duration::from_millis(1)));

        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let (_, start) = state_and_start(&stat).unwrap();
        let process = Process { pid: child.id(), start };
        assert!(is_running(&process));
        drop(child.stdin.take());
        assert!(wait_for_end(&process, Duration::from_secs(10)));
        child.wait().unwrap();
        assert!(!is_running(&process));
        assert!(wait_for_end(&process, Duration::ZERO));
    }
}
