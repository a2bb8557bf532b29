//! Starts a container without an OCI runtime.
//!
//! A kill at any point leaves no unknown state. Before the record is written, the new init ends
//! when its starter does. After that, the next caller finds it by the record, and waits until it
//! runs or has ended, because the init holds the lock until then.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Error, Result};
use netlink::process;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, setsid, waitpid,
};

use crate::capability::Capabilities;
use crate::cgroup::Cgroups;
use crate::copy;
use crate::directory::{Directory, Record, boot};
use crate::fault::{Class, Fault};
use crate::init::{Init, held};
use crate::line::{Line, Message};
use crate::privileges::Privileges;
use crate::program::Program;
use crate::rootfs::Plan;
use crate::runtime;
use crate::spec::{Root, Spec};
use crate::sys::{self, ForkSide};
use crate::traces::Traces;

/// How long a file system may take to be put together, and a program to be executed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts what `spec` says in `directory`, whose lock is `lock`.
pub(crate) fn start(
    directory: &Directory,
    lock: &OwnedFd,
    spec: &Spec,
    stdin: &[u8],
) -> Result<(Record, OwnedFd)> {
    let privileges = privileges(spec);
    let main = spec.process.as_ref().map(|main| Program::new(main, privileges)).transpose()?;
    let input = input(stdin)?;
    let mut plan = plan(directory, spec)?;
    loop {
        let started =
            Start { directory, lock, spec, main: main.as_ref(), input: &input, runtime: None };
        match started.once(Some(&plan), privileges) {
            Err(Failure::Fault(fault)) if fault.class == Class::Overlay && plan.upper.is_some() => {
                let Root::Layers { lowers, upper, .. } = &spec.root;
                plan.lowers = vec![copy::copied(lowers, upper)?];
                plan.upper = None;
            }
            Err(Failure::Fault(fault)) => {
                directory.clear()?;
                return Err(Error::from(fault).context(format_args!("starting {}", spec.name)));
            }
            Err(Failure::Error(error)) => return Err(error),
            Ok(started) => return Ok(started),
        }
    }
}

/// Starts what `spec` says by the OCI runtime `program`.
pub(crate) fn by_runtime(
    directory: &Directory,
    lock: &OwnedFd,
    spec: &Spec,
    (stdin, program): (&[u8], &Path),
) -> Result<(Record, OwnedFd)> {
    let name = runtime::name(directory, spec);
    runtime::delete(directory, program, &name)?;
    let command = runtime::command(directory, spec, (program, &name))?;
    let all = Privileges { capabilities: None, no_new_privileges: false };
    let (main, input) = (Program::new(&command, all)?, input(stdin)?);
    let runtime = Some((program.to_owned(), name));
    let started = Start { directory, lock, spec, main: Some(&main), input: &input, runtime };
    match started.once(None, privileges(spec)) {
        Err(Failure::Fault(fault)) => {
            directory.clear()?;
            Err(Error::from(fault).context(format_args!("starting {}", spec.name)))
        }
        Err(Failure::Error(error)) => Err(error),
        Ok(started) => Ok(started),
    }
}

/// The privileges of all processes of a container.
pub(crate) fn privileges(spec: &Spec) -> Privileges {
    let capabilities = spec.capabilities.mask();
    Privileges { capabilities, no_new_privileges: spec.no_new_privileges }
}

/// Where everything comes, with the directories that it takes made.
pub(crate) fn plan(directory: &Directory, spec: &Spec) -> Result<Plan> {
    let Root::Layers { lowers, upper, room } = &spec.root;
    if lowers.is_empty() {
        let what = format!("container {} has no layer to be made of", spec.name);
        return Err(Error::invalid(what));
    }
    let (changes, work, at) = (upper.join("diff"), upper.join("work"), directory.path("rootfs"));
    for path in [&changes, &work, &at] {
        let made = fs::create_dir_all(path);
        made.map_err(|error| Error::os(format!("making {}", path.display()), error))?;
    }
    Ok(Plan {
        lowers: lowers.clone(),
        upper: Some((changes, work)),
        room: room.map(|room| (upper.clone(), room)),
        at,
        mounts: spec.mounts.clone(),
        devices: spec.devices,
        system: spec.capabilities == Capabilities::All,
        read_only: spec.read_only,
    })
}

/// A file in memory that holds `bytes`: a reader comes to its end, and it needs no writer.
pub(crate) fn input(bytes: &[u8]) -> Result<OwnedFd> {
    const NAME: &CStr = c"stdin";
    let made = memfd_create(NAME, MemfdFlags::CLOEXEC).and_then(|file| {
        let mut remaining = bytes;
        while !remaining.is_empty() {
            let written = write(&file, remaining)?;
            remaining = remaining.get(written..).unwrap_or_default();
        }
        seek(&file, SeekFrom::Start(0))?;
        Ok(file)
    });
    made.map_err(|errno| Error::os("holding a process's input", errno.into()))
}

enum Failure {
    /// From the new process.
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

struct Start<'s> {
    directory: &'s Directory,
    lock: &'s OwnedFd,
    spec: &'s Spec,
    main: Option<&'s Program>,
    input: &'s OwnedFd,
    runtime: Option<(PathBuf, String)>,
}

impl Start<'_> {
    fn once(
        &self,
        plan: Option<&Plan>,
        privileges: Privileges,
    ) -> Result<(Record, OwnedFd), Failure> {
        let (line, other) = Line::pair().map_err(|errno| self.failed("making a line", errno))?;
        let at =
            held(&self.directory.path("")).map_err(|errno| self.failed("opening it", errno))?;
        let ended = self.directory.new_ended()?;
        let cgroups = self.cgroups()?;
        let init = Init {
            line: &other,
            lock: self.lock.as_fd(),
            directory: at.as_fd(),
            ended: ended.as_fd(),
            input: self.input.as_fd(),
            plan,
            main: self.main,
            cgroups: &cgroups,
        };
        let traces = Traces::find()?;
        let name = format!("spoke-plugin: {}", self.spec.name);
        let (pid, pidfd) = detach(&init, || traces.clear(&name))
            .map_err(|errno| self.failed("making a process", errno))?;
        drop(other);
        self.expect(&line, &Message::Ready, &pidfd)?;
        let init = u32::try_from(pid.as_raw_nonzero().get()).ok().and_then(process::with_id);
        let init = init.ok_or_else(|| self.failed("finding its init", Errno::SRCH))?;
        let record = Record { init, boot: boot()?, privileges, runtime: self.runtime.clone() };
        self.directory.write_record(&record)?;
        // The answer below is missing if the init has ended.
        let _ = line.say(&Message::Go);
        self.expect(&line, &Message::Started, &pidfd)?;
        Ok((record, pidfd))
    }

    /// Waits for `message`; whatever else comes, nothing runs afterwards.
    fn expect(&self, line: &Line, message: &Message, pidfd: &OwnedFd) -> Result<(), Failure> {
        match line.hear_until(Instant::now() + TIMEOUT) {
            Some(heard) if heard == *message => return Ok(()),
            Some(Message::Failed(fault)) => return Err(Failure::Fault(fault)),
            _ => {}
        }
        // It may have ended already.
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
        let what = format!("container {} ended, or hung, while it was started", self.spec.name);
        Err(Failure::Error(Error::try_again(what)))
    }

    /// Its cgroups. An OCI runtime makes those of the container itself, as its bundle says.
    fn cgroups(&self) -> Result<Cgroups> {
        let given = self.spec.cgroup.as_deref().map(Cgroups::given).transpose()?;
        let limits = self.spec.limits.as_ref();
        let (made, lacking) = match (&self.runtime, &given) {
            (Some(_), _) => Cgroups::of_keepers()?,
            (None, Some(_)) if limits.is_none() => (Cgroups::none(), Vec::new()),
            (None, _) => Cgroups::make(self.directory, self.spec.name.as_str(), limits)?,
        };
        self.directory.log(&lacking)?;
        Ok(made.with(given))
    }

    fn failed(&self, doing: &str, errno: Errno) -> Error {
        let what = format!("starting container {}: {doing}", self.spec.name);
        Error::os(what, errno.into())
    }
}

/// Starts `init` in a process that is not the caller's child, in a process namespace of its own,
/// after `clear`.
fn detach(init: &Init<'_>, clear: impl FnOnce()) -> Result<(Pid, OwnedFd), Errno> {
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match sys::fork()? {
        ForkSide::Child => {
            let _end = sys::EndHere;
            clear();
            between(init, &far)
        }
        ForkSide::Parent(child) => {
            drop(far);
            let reported = reported(&near);
            drop(near);
            // It only reaps the child.
            let _ = waitpid(Some(child), WaitOptions::empty());
            reported
        }
    }
}

/// Makes the init, sends its number, and ends when the starter holds it: until then the number is
/// its, because no other process can have waited for it.
fn between(init: &Init<'_>, far: &OwnedFd) -> ! {
    // Files of other starters, in other threads, are theirs: this would keep them from being closed.
    let mut kept = init.files();
    kept.push(far.as_raw_fd());
    sys::close_all_but(&mut kept);
    // It fails only for the leader of a session, which is one already.
    let _ = setsid();
    let made = init.separate().and_then(|()| sys::fork());
    let number = match made {
        Ok(ForkSide::Child) => init.live(),
        Ok(ForkSide::Parent(pid)) => pid.as_raw_nonzero().get(),
        Err(errno) => -errno.raw_os_error(),
    };
    // If the starter is gone, the init ends too.
    let _ = write(far, &number.to_ne_bytes());
    // The end of the starter ends the wait as well.
    let _ = read(far, &mut [0; 1]);
    sys::exit(0)
}

fn reported(near: &OwnedFd) -> Result<(Pid, OwnedFd), Errno> {
    let mut number = [0; 4];
    let length = loop {
        match read(near, &mut number) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let number = i32::from_ne_bytes(number);
    match Pid::from_raw(number.max(0)).filter(|_| length == 4) {
        Some(pid) => Ok((pid, pidfd_open(pid, PidfdFlags::empty())?)),
        None if number < 0 => Err(Errno::from_raw_os_error(-number)),
        None => Err(Errno::CHILD),
    }
}
