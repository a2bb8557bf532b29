//! Removes a forked process's remains of its parent: its name and its arguments.
//!
//! Its environment and its arguments may hold secrets, and the kernel shows both to any process
//! that sees this one and may measure performance (`CAP_PERFMON` or `CAP_SYS_ADMIN`), without other
//! rights.

use std::fs;
use std::ops::Range;

use model::{Error, Result};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, capabilities};

use crate::sys;

/// Where the calling program's arguments and environment are, and how its forks are kept from
/// others.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    arguments: Range<usize>,
    environment: Range<usize>,
    is_hidden: bool,
}

impl Traces {
    /// Those of the calling process.
    pub(crate) fn find() -> Result<Self> {
        let path = "/proc/self/stat";
        let stat = fs::read_to_string(path);
        let stat = stat.map_err(|error| Error::os(format!("reading {path}"), error))?;
        let (arguments, environment) =
            areas(&stat).ok_or_else(|| Error::bug(format!("{path} lacks fields: {stat:?}")))?;
        Ok(Self { arguments, environment, is_hidden: sees_hidden() })
    }

    /// Clears them in the calling process, which was forked, and calls it `name`.
    pub(crate) fn clear(&self, name: &str) {
        // Processes in the container can neither inspect it nor reach its program through it.
        let dumpable = match self.is_hidden {
            true => DumpableBehavior::NotDumpable,
            false => DumpableBehavior::Dumpable,
        };
        // The kernel refuses only values that it does not know.
        let _ = set_dumpable_behavior(dumpable);
        sys::overwrite(&self.environment, b"");
        sys::overwrite(&self.arguments, name.as_bytes());
    }
}

/// Whether the calling process, and others of its kind, could enter a process that cannot be
/// dumped: that takes a capability in the user namespace in which the program was executed, which
/// is not the current one for who entered another since (ptrace(2)).
fn sees_hidden() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_first = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    let may =
        |sets: rustix::thread::CapabilitySets| sets.effective.contains(CapabilitySet::SYS_PTRACE);
    is_first && capabilities(None).is_ok_and(may)
}

/// Fields 48 to 51 of proc_pid_stat(5).
fn areas(stat: &str) -> Option<(Range<usize>, Range<usize>)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    let (arguments, environment) = (field(48)?..field(49)?, field(50)?..field(51)?);
    let is_known = arguments.start > 0 && environment.start > 0;
    (is_known && arguments.start <= arguments.end && environment.start <= environment.end)
        .then_some((arguments, environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_areas_are_read() {
        let fields: Vec<_> = (3..=52).map(|field| (field * 10).to_string()).collect();
        let stat = format!("1 (a) b) {}", fields.join(" "));
        assert_eq!(areas(&stat), Some((480..490, 500..510)));
        for damaged in ["", "1 (a) S 1 2", &stat.replace("490", "470"), &stat.replace("500", "0")] {
            assert_eq!(areas(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_own_ones_are_found() {
        let Traces { arguments, environment, .. } = Traces::find().unwrap();
        assert_eq!(fs::read("/proc/self/cmdline").unwrap().len(), arguments.len());
        assert_eq!(fs::read("/proc/self/environ").unwrap().len(), environment.len());
    }
}
