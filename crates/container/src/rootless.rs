//! Starts containers for a caller that is not root, in a user namespace.

use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use netlink::process;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, read, write};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getegid, geteuid, pidfd_open,
    pidfd_send_signal, set_dumpable_behavior, setsid, waitpid,
};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::directory::{Directory, Record, boot};
use crate::fault::{Doing, Fault};
use crate::line::{Line, Message, ready};
use crate::privileges::Privileges;
use crate::sys::{self, ForkSide};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Moves the calling process into a user, mount and network namespace of its user's own, in which
/// it is root. The namespaces are made if missing and kept by a process whose record is in
/// `runtime`, so that every caller with the same directory gets the same ones.
///
/// # Errors
/// [`model::Kind::Invalid`] if the process has more than one thread: the kernel moves only
/// processes with one; [`model::Kind::Denied`] where users may not have namespaces.
pub fn enter(runtime: &Path) -> Result<Stay> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|error| Error::os("counting the own threads", error))?
        .count();
    if threads != 1 {
        return Err(Error::invalid(format!(
            "the kernel moves only processes with one thread into a user namespace, and this has \
             {threads}"
        )));
    }
    let directory = Directory::new(&runtime.join("rootless"));
    directory.make()?;
    let lock = directory.lock()?;
    let keeper = match keeper(&directory)? {
        Some(keeper) => keeper,
        None => begin(&directory, lock.as_ref())?,
    };
    let inside = inside(&directory)?;
    flock(&inside, FlockOperation::NonBlockingLockShared)
        .map_err(|errno| Error::os("entering the user's own namespaces", errno.into()))?;
    let all = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::NETWORK;
    move_into_thread_name_spaces(keeper.as_fd(), all)
        .map_err(|errno| Error::os("entering the user's own namespaces", errno.into()))?;
    Ok(Stay { directory, inside })
}

/// The calling process is in its user's own namespaces. While this is held, their keeper is not
/// ended.
#[derive(Debug)]
pub struct Stay {
    directory: Directory,
    /// Locked, shared with all processes inside.
    inside: OwnedFd,
}

impl Stay {
    /// Ends the keeper of the namespaces, if no other process is inside: the namespaces end with
    /// the calling process. Call it where nothing in them has to stay. Returns whether they end.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn leave(self) -> Result<bool> {
        // No process enters meanwhile.
        let Some(_lock) = self.directory.lock()? else { return Ok(false) };
        if flock(&self.inside, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        if let Some(keeper) = keeper(&self.directory)? {
            let killed = pidfd_send_signal(&keeper, Signal::KILL);
            killed.map_err(|errno| Error::os("leaving the user's own namespaces", errno.into()))?;
            ready(&keeper, Instant::now() + TIMEOUT);
        }
        self.directory.clear().map(|()| true)
    }
}

/// The file that processes inside lock.
fn inside(directory: &Directory) -> Result<OwnedFd> {
    let path = directory.path("inside");
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let opened = opened.map_err(|error| Error::os(format!("opening {}", path.display()), error));
    opened.map(OwnedFd::from)
}

/// The keeper of the namespaces, if there is one.
fn keeper(directory: &Directory) -> Result<Option<OwnedFd>> {
    let Some(record) = directory.record()?.filter(Record::is_running) else { return Ok(None) };
    let pid = i32::try_from(record.init.pid).ok().and_then(Pid::from_raw);
    let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    Ok(opened.filter(|_| record.is_running()))
}

fn begin(directory: &Directory, lock: Option<&OwnedFd>) -> Result<OwnedFd> {
    let failed = |errno: Errno| Error::os("making namespaces of the user's own", errno.into());
    let (line, far) = Line::pair().map_err(failed)?;
    let ids = (geteuid().as_raw(), getegid().as_raw());
    let child = match sys::fork().map_err(failed)? {
        ForkSide::Child => {
            let _end = sys::EndHere;
            drop(line);
            keep(&far, lock, ids)
        }
        ForkSide::Parent(child) => child,
    };
    drop(far);
    let heard = line.hear_until(Instant::now() + TIMEOUT);
    let keeper = pidfd_open(child, PidfdFlags::empty()).map_err(failed)?;
    let number = child.as_raw_nonzero().get();
    let known = u32::try_from(number).ok().and_then(process::with_id);
    let (Some(Message::Ready), Some(init)) = (&heard, known) else {
        // It may have ended already.
        let _ = pidfd_send_signal(&keeper, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
        return Err(refusal(heard));
    };
    let privileges = Privileges { capabilities: None, no_new_privileges: false };
    directory.write_record(&Record { init, boot: boot()?, privileges, runtime: None })?;
    line.say(&Message::Go).map_err(failed)?;
    Ok(keeper)
}

fn refusal(heard: Option<Message>) -> Error {
    let hint = "whether users may have namespaces is set by user.max_user_namespaces and, on some \
                distributions, kernel.unprivileged_userns_clone or AppArmor";
    match heard {
        Some(Message::Failed(fault)) => {
            let error = Error::from(fault);
            Error::new(Kind::Denied, format!("no namespaces of the user's own; {hint}"))
                .because(error)
        }
        _ => Error::try_again("who was to keep the user's own namespaces ended at once"),
    }
}

/// Keeps the namespaces until it is killed.
fn keep(line: &Line, lock: Option<&OwnedFd>, ids: (u32, u32)) -> ! {
    use std::os::fd::AsRawFd;
    let mut kept = vec![line.as_fd().as_raw_fd()];
    kept.extend(lock.map(AsRawFd::as_raw_fd));
    sys::close_all_but(&mut kept);
    sys::reset_signals();
    // It fails only for the leader of a session, which is one already.
    let _ = setsid();
    if let Err(fault) = separate(ids) {
        // If the starter is gone, there is no receiver.
        let _ = line.say(&Message::Failed(fault));
        sys::exit(1);
    }
    // If the starter is gone, the next caller finds the record.
    let _ = line.say(&Message::Ready);
    if line.hear() != Some(Message::Go) {
        sys::exit(1);
    }
    sys::close_all_but(&mut []);
    let Ok(signals) = sys::signals() else { sys::exit(1) };
    // The descriptor always accepts it.
    let _ = rustix::io::ioctl_fionbio(&signals, false);
    // All signals are blocked and none is meant for it, but the one that cannot be.
    while read(&signals, &mut [0; 128]).is_ok() {}
    sys::exit(1)
}

fn separate((uid, gid): (u32, u32)) -> Result<(), Fault> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET;
    // A process that changed its user may not write what is below.
    set_dumpable_behavior(DumpableBehavior::Dumpable).doing("owning its own files")?;
    sys::unshare(flags).doing("making a user namespace")?;
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        use rustix::fs::{Mode, OFlags, open};
        let opened = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        opened
            .and_then(|file| write(file, text.as_bytes()))
            .doing(format_args!("writing {path}"))?;
    }
    let slave = rustix::mount::MountPropagationFlags::DOWNSTREAM
        | rustix::mount::MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave).doing("keeping mounts from the host")
}
