//! Which process is which, and whether it still lives.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use model::{Error, Process, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The calling process.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn me() -> Result<Process> {
    let stat = fs::read_to_string("/proc/self/stat")
        .map_err(|error| Error::os("reading /proc/self/stat", error))?;
    let (_, start) = state_and_start(&stat)
        .ok_or_else(|| Error::bug(format!("/proc/self/stat holds no start time: {stat:?}")))?;
    Ok(Process { pid: std::process::id(), start })
}

/// Whether `process` still runs. A zombie does not; a process that we may not look at does.
pub fn is_running(process: &Process) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", process.pid)) {
        Ok(stat) => state_and_start(&stat)
            .is_some_and(|(state, start)| start == process.start && !matches!(state, 'Z' | 'X')),
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
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(fd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return !is_running(process);
    };
    // Only now is the number known to stand for the process that we look at.
    while is_running(process) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = Timespec::try_from(left).ok();
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
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_cannot_confuse_it() {
        let stat = "7 (a) Z (b) S 1 7 7 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 12345 99 1";
        assert_eq!(state_and_start(stat), Some(('S', 12345)));
        assert_eq!(state_and_start("7 (a"), None);
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
