//! Where a program can be killed so that it leaves something else behind than a moment before.

use std::collections::BTreeMap;
use std::fmt;

/// Calls that change nothing outside of the process, or only what ends with it: descriptors, locks, signals,
/// memory, a namespace entered. A kill before one is a kill before the next.
const PRIVATE: &[&str] = &[
    "access",
    "arch_prctl",
    "brk",
    "clock_gettime",
    "close",
    "dup",
    "epoll_create1",
    "epoll_ctl",
    "eventfd2",
    "execve",
    "faccessat",
    "faccessat2",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fstatfs",
    "fsync",
    "futex",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "getuid",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "newfstatat",
    "poll",
    "ppoll",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "readlinkat",
    "recvfrom",
    "recvmsg",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "setns",
    "sigaltstack",
    "socket",
    "statfs",
    "statx",
    "uname",
];

/// A moment in a program's life: before its `nth` call of `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The system call.
    pub name: String,
    /// Counted from 1 among the calls of this name, as strace(1) counts them.
    pub nth: usize,
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.nth)
    }
}

impl Moment {
    /// The moments of a process whose calls these are, each with what strace(1) shows of its arguments.
    pub(crate) fn of<'a>(calls: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Self> {
        let mut counts = BTreeMap::<&str, usize>::new();
        let mut moments = Vec::new();
        for (name, arguments) in calls {
            let nth = counts.entry(name).or_default();
            *nth += 1;
            if !is_private(name, arguments) {
                moments.push(Self { name: name.to_owned(), nth: *nth });
            }
        }
        moments
    }

    /// The arguments of strace(1), so that it sends a signal then; it counts the calls of each process by itself.
    pub fn inject(&self, signal: &str) -> String {
        format!("inject={}:signal={signal}:when={}", self.name, self.nth)
    }

    /// What stands before a command that is killed then, in words without blanks.
    pub fn kill(&self) -> Vec<String> {
        let (only, inject) = (format!("trace={}", self.name), self.inject("KILL"));
        let words = ["/usr/bin/strace", "-qq", "-o", "/dev/null", "-e", &only, "-e", &inject];
        words.map(str::to_owned).to_vec()
    }
}

fn is_private(name: &str, arguments: &str) -> bool {
    match name {
        // A file that is opened for reading is neither made nor cut.
        "open" | "openat" => arguments.contains("O_RDONLY") && !arguments.contains("O_CREAT"),
        "bind" => arguments.contains("AF_NETLINK"),
        "setsockopt" => arguments.contains("SOL_SOCKET") || arguments.contains("SOL_NETLINK"),
        _ => PRIVATE.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_process_sees_is_no_moment() {
        let calls = [
            ("execve", "\"x\""),
            ("openat", "AT_FDCWD, \"/etc/spoke\", O_RDONLY|O_CLOEXEC) = 3"),
            ("openat", "3, \"new\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4"),
            ("bind", "5, {sa_family=AF_NETLINK, nl_pid=0}, 12) = 0"),
            ("bind", "6, {sa_family=AF_UNIX, sun_path=\"s\"}, 12) = 0"),
            ("read", "4, \"\", 8) = 0"),
            ("write", "1, \"{}\", 2) = 2"),
        ];
        let found: Vec<(String, usize)> =
            Moment::of(calls.into_iter()).into_iter().map(|at| (at.name, at.nth)).collect();
        let expected = [("openat", 2), ("bind", 2), ("write", 1)];
        assert_eq!(found, expected.map(|(name, nth)| (name.to_owned(), nth)));
    }
}
