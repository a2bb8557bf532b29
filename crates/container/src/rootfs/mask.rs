//! The parts of the kernel that an unprivileged container cannot see or change: those that runc
//! masks, those that count or show the kernel's memory and messages, and those of `/sys` that the host has
//! mounted. The settings of networks stay as they are.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::{Bind, attach, attributes, bind, fresh, set};
use crate::fault::{Doing, Fault};
use crate::inside::Inside;
use crate::spec::Propagation;
use crate::sys;

/// Not seen.
pub(crate) const MASKED: [&str; 19] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/config",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
];

/// Seen only.
pub(crate) const READ_ONLY: [&str; 7] = [
    "/proc/bus",
    "/proc/dynamic_debug",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Below the settings of the kernel, what a network plugin changes.
const NETWORKS: &str = "/proc/sys/net";

/// Makes all that is in `/proc` to be changed but settings of networks, and those processes have,
/// read-only.
pub(super) fn settings(root: &Inside) -> Result<(), Fault> {
    let networks = clone(root, NETWORKS)?;
    for path in READ_ONLY {
        let Some(tree) = clone(root, path)? else { continue };
        set(&tree, true, sys::READ_ONLY, 0).doing(path)?;
        cover(root, path, &tree)?;
    }
    match networks {
        Some(tree) => cover(root, NETWORKS, &tree),
        None => Ok(()),
    }
}

/// Hides what is not to be seen.
pub(super) fn hide(root: &Inside) -> Result<(), Fault> {
    for path in MASKED {
        let there = match root.find(Path::new(path)) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            there => there.doing(path)?,
        };
        let stat = fstat(&there).doing(path)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let how = attributes() | MountAttrFlags::MOUNT_ATTR_RDONLY;
            let empty = fresh("tmpfs", &[("mode", "555"), ("size", "4096")], how).doing(path)?;
            attach(&empty, there).doing(path)?;
        } else {
            let how = Bind { read_only: true, propagation: Propagation::Private };
            bind(root, Path::new("/dev/null"), Path::new(path), &how)?;
        }
    }
    Ok(())
}

/// What is at `path` as a mount of its own, if it exists.
fn clone(root: &Inside, path: &str) -> Result<Option<OwnedFd>, Fault> {
    let there = match root.find(Path::new(path)) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        there => there.doing(path)?,
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(there.as_fd(), "", flags).doing(path).map(Some)
}

fn cover(root: &Inside, path: &str, tree: &OwnedFd) -> Result<(), Fault> {
    let target = root.find(Path::new(path)).doing(path)?;
    attach(tree, target).doing(path)
}
