//! A process and its descendants.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use rustix::process::{Pid, Signal, WaitOptions, fchdir, getpid, kill_process, wait};

use crate::rootfs::processes;

/// The number of passes over new processes: a tree that grows faster than it is stopped is
/// abandoned.
const PASSES: usize = 200;

/// Ends all descendants of the calling process, which is the reaper of those whose parents are gone
/// (`PR_SET_CHILD_SUBREAPER`): no session, group or second fork escapes. They are stopped first, so
/// that no new ones come while others are being ended.
pub(crate) fn end_descendants() {
    // Whatever the container did to its own `/proc`.
    let own = processes().and_then(|processes| fchdir(&processes));
    let proc = Path::new(if own.is_ok() { "." } else { "/proc" });
    let me = getpid().as_raw_nonzero().get();
    let mut stopped = Vec::new();
    for _ in 0..PASSES {
        let found = descendants(proc, me);
        if found.iter().all(|pid| stopped.contains(pid)) {
            break;
        }
        found.iter().for_each(|pid| send(*pid, Signal::STOP));
        stopped = found;
    }
    for _ in 0..PASSES {
        let found = descendants(proc, me);
        found.iter().for_each(|pid| send(*pid, Signal::KILL));
        // Those that others waited for come to us in turn.
        while !matches!(wait(WaitOptions::NOHANG), Ok(None) | Err(_)) {}
        if found.is_empty() {
            return;
        }
        // It only reaps a child.
        let _ = wait(WaitOptions::empty());
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended already.
        let _ = kill_process(pid, signal);
    }
}

/// All below `root`. One that has ended may have threads that have not.
fn descendants(proc: &Path, root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

/// Field 4 of proc_pid_stat(5).
pub(crate) fn parent(stat: &str) -> Option<i32> {
    field(stat, 4)
}

/// Whether a process has executed a program since it was forked, by field 9 of proc_pid_stat(5).
pub(crate) fn has_executed(stat: &str) -> bool {
    /// The kernel's `linux/sched.h`: forked, and did not execute anything yet.
    const PF_FORKNOEXEC: u32 = 0x40;
    field::<u32>(stat, 9).is_some_and(|flags| flags & PF_FORKNOEXEC == 0)
}

/// A field behind the second one, which may hold anything.
fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_any_depth() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, state, parent) in
            [(2, 'S', 1), (3, 'S', 2), (4, 'T', 3), (5, 'Z', 3), (6, 'S', 1), (7, 'R', 4)]
        {
            let at = proc.path().join(pid.to_string());
            fs::create_dir(&at).unwrap();
            fs::write(at.join("stat"), format!("{pid} (a) b) {state} {parent} 0")).unwrap();
        }
        fs::create_dir(proc.path().join("sys")).unwrap();
        let mut found = descendants(proc.path(), 2);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5, 7]);
    }

    #[test]
    fn who_only_forked_has_executed_nothing() {
        assert!(has_executed("7 (a) b) S 1 7 7 0 -1 4194560 0"));
        assert!(!has_executed("7 (a) b) S 1 7 7 0 -1 4194368 0"));
        assert!(!has_executed("7 (a) b) S 1 7 7 0 -1"));
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(has_executed(&own));
    }
}
