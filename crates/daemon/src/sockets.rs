//! The sockets of the daemon: systemd's, or its own.
//!
//! A socket that systemd holds outlives the daemon, so that no call is lost while it restarts. The
//! daemon's own is removed at the end, and one that a dead daemon left is replaced; one on which a
//! process listens is never touched.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host::serving::LOCK;
use listenfd::ListenFd;
use model::{Error, Result};
use rustix::fs::{FlockOperation, Mode};
use rustix::net::sockopt::socket_peercred;

use crate::fd_store;

/// How long a daemon that ends may still have the lock.
const ENDING: Duration = Duration::from_secs(1);

/// Sockets by name.
pub(crate) type SocketsByName = BTreeMap<String, OwnedFd>;

/// Listening sockets that the service manager passed (sd_listen_fds(3)).
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) unix: Vec<UnixListener>,
    pub(crate) tcp: Vec<TcpListener>,
    /// Sockets that the previous life of the daemon kept, by name.
    pub(crate) kept: SocketsByName,
}

/// The file of a socket that we made; removed when dropped, unless it is another one by now.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// The proof that no other daemon uses the same store.
#[derive(Debug)]
pub(crate) struct Only {
    _lock: File,
}

impl Inherited {
    /// Takes those that the environment names, once.
    pub(crate) fn take() -> Result<Self> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut inherited = Self::default();
        for at in 0..passed.len() {
            let name = names.next().filter(|name| name.starts_with(fd_store::PREFIX));
            if let Some(name) = name {
                inherited.keep(name, passed.take_udp_socket(at).map(|it| it.map(Into::into)));
                inherited.keep(name, passed.take_tcp_listener(at).map(|it| it.map(Into::into)));
                continue;
            }
            if let Ok(Some(socket)) = passed.take_unix_listener(at) {
                inherited.unix.push(socket);
                continue;
            }
            match passed.take_tcp_listener(at) {
                Ok(Some(socket)) => inherited.tcp.push(socket),
                Ok(None) => {}
                Err(cause) => {
                    return Err(Error::invalid(format!(
                        "socket {at} that was passed to this process can be none of ours: {cause}"
                    )));
                }
            }
        }
        Ok(inherited)
    }

    /// What is neither is of no use, and only the service manager closes it.
    fn keep(&mut self, name: &str, taken: io::Result<Option<OwnedFd>>) {
        if let Ok(Some(socket)) = taken {
            self.kept.insert(name.to_owned(), socket);
        }
    }
}

/// Listens at `path`; only the superuser may connect.
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let doing = || format!("listening at {}", path.display());
    clear(path)?;
    if let Some(parent) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        made.map_err(|cause| Error::os(doing(), cause))?;
    }
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|cause| Error::os(doing(), cause))?;
    let file = fs::symlink_metadata(path).map_err(|cause| Error::os(doing(), cause))?;
    Ok((listener, SocketFile { path: path.to_owned(), identity: (file.dev(), file.ino()) }))
}

/// Listens at a TCP address.
pub(crate) fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => {
            Error::conflict(format!("another process already listens at {address}"))
        }
        _ => Error::os(format!("listening at {address}"), cause),
    })
}

/// Removes what a dead daemon left at `path`; refuses to touch anything else.
fn clear(path: &Path) -> Result<()> {
    let looking = |cause| Error::os(format!("looking at {}", path.display()), cause);
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(looking(cause)),
    };
    if !file.file_type().is_socket() {
        let what = format!("{} is there and is no socket; move it away", path.display());
        return Err(Error::conflict(what));
    }
    match UnixStream::connect(path) {
        Ok(stream) => Err(Error::conflict(format!(
            "{} already listens at {}; stop it first",
            listener_of(&stream),
            path.display()
        ))),
        Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(looking)
        }
        Err(cause) => Err(looking(cause)),
    }
}

/// The process that listens at the other end.
fn listener_of(stream: &UnixStream) -> String {
    match socket_peercred(stream) {
        Ok(peer) => process(peer.pid.as_raw_nonzero().get()),
        Err(_) => "another process".to_owned(),
    }
}

fn process(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({name})"),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            // The next daemon replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Only {
    /// Makes this process the one daemon of the store below `runtime`. Refused, with its name,
    /// while there is another.
    pub(crate) fn daemon(runtime: &Path) -> Result<Self> {
        let path = runtime.join(LOCK);
        let doing = |cause: io::Error| Error::os(format!("locking {}", path.display()), cause);
        DirBuilder::new().recursive(true).mode(0o700).create(runtime).map_err(doing)?;
        let mut lock = OpenOptions::new();
        let lock = lock.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = lock.open(&path).map_err(doing)?;
        let deadline = Instant::now() + ENDING;
        let how = FlockOperation::NonBlockingLockExclusive;
        if !file::lock_until(&lock, how, deadline).map_err(doing)? {
            return Err(other(&mut lock, runtime));
        }
        let written = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(doing)?;
        Ok(Self { _lock: lock })
    }
}

fn other(lock: &mut File, runtime: &Path) -> Error {
    let mut pid = String::new();
    // Without the number the sentence names no process.
    let _ = lock.rewind().and_then(|()| lock.take(16).read_to_string(&mut pid));
    let who = pid.trim().parse().map_or_else(|_| "another process".to_owned(), process);
    Error::conflict(format!(
        "{who} already serves the book in {}; stop it first",
        runtime.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_dead_and_respects_the_living() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugins/spoke.sock");
        let (listener, made) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = bind(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        std::mem::forget(made);
        drop(listener);
        let (_listener, made) = bind(&path).unwrap();
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn leaves_alone_what_is_not_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        fs::write(&path, "precious").unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("no socket"));
        fs::remove_file(&path).unwrap();
        let (_listener, made) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        drop(made);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    }

    #[test]
    fn there_is_one_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let only = Only::daemon(directory.path()).unwrap();
        let refused = Only::daemon(directory.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(only);
        Only::daemon(directory.path()).unwrap();
    }
}
