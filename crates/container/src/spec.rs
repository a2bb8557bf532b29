//! The specification of a container: root, mounts, namespaces, privileges, limits.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use model::{Error, Result};

use crate::capability::Capabilities;

/// The name of a container: at most 64 of `[a-zA-Z0-9_.-]`, the first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName(String);

impl ContainerName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContainerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let all = text.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one));
        if begins && all && text.len() <= 64 {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!(
            "{text:?} cannot be the name of a container: at most 64 letters, digits, '_', '.' and \
             '-', and a letter or digit first"
        )))
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A container. Its net, ipc, uts, user and cgroup namespace are the caller's; mounts and processes
/// are its own.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name, in messages and for OCI runtimes.
    pub name: ContainerName,
    /// Its file system.
    pub root: Root,
    /// Whether what is not a mount of its own cannot be written.
    pub read_only: bool,
    /// The other mounts, made in this order.
    pub mounts: Vec<Mount>,
    /// Its main process, with whose end the container ends. `None`: it runs until it is stopped,
    /// for [`crate::Running::exec`] alone.
    pub process: Option<Process>,
    /// The capabilities of its processes. With [`Capabilities::All`] `/sys` and all of `/proc` can
    /// be written, and no system call is refused.
    pub capabilities: Capabilities,
    /// Whether no program in it can give more rights than its caller has (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// Its `/dev`.
    pub devices: Devices,
    /// A directory of a cgroup file system that its processes are put into; the caller's if none.
    pub cgroup: Option<PathBuf>,
    /// Its limits, where the host has cgroups that the caller may change.
    pub limits: Option<Resources>,
}

/// The limits of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Processes and threads.
    pub processes: u32,
    /// Memory, in bytes, with what it keeps in file systems in memory.
    pub memory: u64,
}

impl Resources {
    /// Of a network plugin: far more than any known one takes.
    pub const OF_NETWORK_PLUGIN: Self = Self { processes: 512, memory: 512 << 20 };
}

/// Where a container's file system comes from.
#[derive(Clone, Debug)]
pub enum Root {
    /// Directories over each other, none of which is changed. Whiteouts and opaque directories are
    /// those of overlayfs.
    Layers {
        /// The lowest first; at least one.
        lowers: Vec<PathBuf>,
        /// A directory that is the engine's alone, and keeps what the container writes, also from
        /// one start to the next. Made if missing. Where overlayfs is impossible, the layers are
        /// copied into it.
        upper: PathBuf,
        /// How many bytes the container can write. They are in memory then, and gone when it ends;
        /// of `upper` only the place is used. `None`: as much as there is room for, and kept.
        room: Option<u64>,
    },
}

/// A mount in a container. The target is resolved inside of its root, where no symbolic link leads
/// out, and made if missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A file or directory of the host, with all that is mounted below.
    Bind {
        /// On the host.
        source: PathBuf,
        /// In the container.
        target: PathBuf,
        /// Whether the container cannot write it.
        read_only: bool,
        /// Whether later mounts below the source appear.
        propagation: Propagation,
    },
    /// An empty directory in memory.
    Tmpfs {
        /// In the container.
        target: PathBuf,
        /// How much it holds, in bytes.
        size: u64,
    },
}

/// Whether what is mounted on the host later appears in a container (mount_namespaces(7)). Nothing
/// ever comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// No.
    Private,
    /// Yes, if the source is on a shared mount.
    Slave,
}

/// The contents of a container's `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// null, zero, full, random, urandom, tty, net/tun if there is one, and terminals of its own.
    Minimal,
    /// The host's.
    Host,
}

/// A process in a container.
#[derive(Clone, Debug)]
pub struct Process {
    /// The program and its arguments. A program without a slash is searched in `PATH` of `env`.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts, absolute.
    pub cwd: PathBuf,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
}

impl Process {
    /// `args` by root, in `/`, with an empty environment.
    pub fn new<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Self {
        Self {
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: Path::new("/").to_owned(),
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        }
    }
}

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long, from the beginning of [`crate::Running::exec`].
    pub limit: Duration,
    /// How much of its standard output is kept, in bytes.
    pub stdout: usize,
    /// How much of its standard error is kept, in bytes.
    pub stderr: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for good in ["net", "a.b", "3-x_y"] {
            assert_eq!(good.parse::<ContainerName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(65)] {
            assert!(bad.parse::<ContainerName>().is_err(), "{bad}");
        }
    }
}
