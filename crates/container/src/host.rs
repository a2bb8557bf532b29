//! The host: what the first process of the caller's process namespace has for network and mounts.
//!
//! A container has its starter's network namespace, and sees what is mounted in its starter's mount
//! namespace. Who starts it may have others than the host, by `ip netns exec` or by systemd's PrivateTmp:
//! every later caller would find a container that sees neither its links nor its namespaces.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use model::{Error, Result};
use rustix::fs::{Mode, OFlags, Stat, open, stat};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::Running;
use crate::sys;

/// The namespaces that a container shares with its starter, by their names in proc(5).
const SHARED: [(&str, LinkNameSpaceType); 2] =
    [("net", LinkNameSpaceType::Network), ("mnt", LinkNameSpaceType::Mount)];

/// Moves the calling thread, and those that it starts from then on, into the host's network and
/// mount namespace, wherever it is in others. A process that may not inspect the host's first
/// process stays where it is: it cannot move there either.
///
/// # Errors
/// [`model::Kind::Denied`] where the kernel does not allow it, with what to do.
pub fn enter() -> Result<()> {
    let mut others = Vec::new();
    for (name, kind) in SHARED {
        let (Some(host), Some(own)) = (namespace("1", name)?, namespace("thread-self", name)?)
        else {
            return Ok(());
        };
        if !is_same(&host, &own) {
            let path = format!("/proc/1/ns/{name}");
            let opened = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            others.push((opened.map_err(|errno| refused(name, errno))?, name, kind));
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let here = std::env::current_dir();
    // The kernel moves no thread that shares its root and working directory with others.
    sys::unshare(UnshareFlags::FS).map_err(|errno| refused("mnt", errno))?;
    for (file, name, kind) in &others {
        let moved = move_into_link_name_space(file.as_fd(), Some(*kind));
        moved.map_err(|errno| refused(name, errno))?;
    }
    // Paths in arguments are relative to that directory; where the host has no such directory, to
    // its root.
    let _ = here.and_then(std::env::set_current_dir);
    Ok(())
}

fn refused(name: &str, errno: Errno) -> Error {
    let what = format!(
        "entering the host's namespace /proc/1/ns/{name}, which plugin containers have to be in; call \
         this as root on the host, neither by `ip netns exec` nor from a unit with a file system of its \
         own"
    );
    Error::os(what, errno.into())
}

impl Running {
    /// Whether the container has another network namespace than the host, or does not see what is mounted
    /// in the host's `volume`, which it has at `inside`. False where the caller is not in the host's
    /// namespaces itself, or may not know.
    pub fn is_elsewhere(&self, volume: &Path, inside: &Path) -> bool {
        self.differs(volume, inside).unwrap_or(None).unwrap_or(false)
    }

    fn differs(&self, volume: &Path, inside: &Path) -> Result<Option<bool>> {
        let first = self.process().pid.to_string();
        for (name, _) in SHARED {
            match (namespace("1", name)?, namespace("thread-self", name)?) {
                (Some(host), Some(own)) if is_same(&host, &own) => {}
                _ => return Ok(None),
            }
        }
        let (host, its) = (namespace("1", "net")?, namespace(&first, "net")?);
        let (Some(host), Some(its)) = (host, its) else { return Ok(None) };
        if !is_same(&host, &its) {
            return Ok(Some(true));
        }
        let read = |process: &str| fs::read_to_string(format!("/proc/{process}/mountinfo")).ok();
        let (Some(own), Some(its)) = (read("thread-self"), read(&first)) else { return Ok(None) };
        let Some(peers) = peers(&own, volume, "shared:") else { return Ok(None) };
        // The keeper of an OCI runtime's container has the starter's own mounts.
        let is_fed = peers_of_any(&its, &[(inside, "master:"), (volume, "shared:")], peers);
        Ok(Some(!is_fed))
    }
}

fn peers_of_any(mounts: &str, places: &[(&Path, &str)], group: &str) -> bool {
    places.iter().any(|(at, kind)| peers(mounts, at, kind) == Some(group))
}

/// The peer group of the last mount at a place (proc(5), `mountinfo`).
fn peers<'m>(mounts: &'m str, at: &Path, kind: &str) -> Option<&'m str> {
    let is_there = |line: &&str| line.split(' ').nth(4).map(Path::new) == Some(at);
    let line = mounts.lines().rfind(is_there)?;
    let mut tags = line.split(' ').skip(6).take_while(|field| *field != "-");
    tags.find_map(|tag| tag.strip_prefix(kind))
}

/// A namespace of a process; none where it is not there to be seen.
fn namespace(process: &str, name: &str) -> Result<Option<Stat>> {
    match stat(format!("/proc/{process}/ns/{name}")) {
        Ok(seen) => Ok(Some(seen)),
        Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(errno) => Err(Error::os(format!("looking at /proc/{process}/ns/{name}"), errno.into())),
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_those_of_the_uppermost_mount() {
        let mounts = "30 20 0:5 / /v rw shared:7 - tmpfs t rw\n\
                      31 30 0:5 / /v rw shared:8 master:3 - tmpfs t rw\n\
                      32 20 0:5 / /w rw - tmpfs shared:9 rw\n";
        assert_eq!(peers(mounts, Path::new("/v"), "shared:"), Some("8"));
        assert_eq!(peers(mounts, Path::new("/v"), "master:"), Some("3"));
        assert_eq!(peers(mounts, Path::new("/w"), "shared:"), None);
        assert_eq!(peers(mounts, Path::new("/x"), "shared:"), None);
    }
}
