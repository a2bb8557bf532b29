//! A program of a world that stays.

use std::fs::{self, File};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::World;
use crate::glance::{GLANCE, glance};

/// More than any of them needs to start: only a hanging test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// When a daemon may be called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// It says so, as systemd wants it said (sd_notify(3)).
    Notifies,
    /// This socket of its world is listened at.
    Listens(&'static str),
    /// Its log contains this: to connect would already start something.
    Says(&'static str),
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command`, the program `name`, in `world`, and waits until it is ready.
    ///
    /// # Panics
    /// When it ends before, or is not ready in time, with what it said.
    #[track_caller]
    pub(crate) fn start(world: &World, name: &str, command: &mut Command, ready: Ready) -> Self {
        let log = log(world, name);
        let said = File::options().create(true).append(true).open(&log).expect("a log");
        let said_too = said.try_clone().expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::from(said)).stderr(Stdio::from(said_too));
        let waiting = Waiting::on(world, name, ready);
        if let Waiting::Notice(_, path) = &waiting {
            command.env("NOTIFY_SOCKET", path);
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let daemon = Self { child, name: name.into(), log };
        let deadline = Instant::now() + TIMEOUT;
        let ended = pidfd_open(Pid::from_child(&daemon.child), PidfdFlags::empty());
        let ended = ended.expect("our child");
        while !waiting.is_over() {
            waiting.sleep(&ended);
            assert!(!is_readable(&ended), "{name} ended:\n{}", daemon.log());
            assert!(Instant::now() < deadline, "{name} is never ready:\n{}", daemon.log());
        }
        daemon
    }

    /// The process itself, below what puts it into its world; `None` if there is none now.
    pub(crate) fn process(&self) -> Option<Pid> {
        let below = descendants(self.child.id());
        let itself = below.into_iter().find(|pid| comm(*pid).as_deref() == Some(&self.name));
        itself.and_then(Pid::from_raw)
    }

    /// Sends `signal` to the process itself and waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self, signal: Signal) {
        let process = self.process().unwrap_or_else(|| panic!("{} has ended", self.name));
        kill_process(process, signal).expect("ours");
        self.child.wait().expect("our child");
    }

    /// Kills the process itself, but not what starts it again, and waits for its end; whether
    /// there was one.
    pub(crate) fn kill(&self) -> bool {
        self.signal(Signal::KILL)
    }

    /// Ends the process by a signal, and waits for that; whether there was one.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(process) = self.process() else { return false };
        let Ok(ended) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        let killed = pidfd_send_signal(&ended, signal).is_ok();
        poll(&mut [PollFd::new(&ended, PollFlags::IN)], None).expect("poll");
        killed
    }

    /// Waits until it has said this.
    #[track_caller]
    pub(crate) fn until_says(&self, words: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.log().contains(words) {
            assert!(Instant::now() < deadline, "never said: {words}\n{}", self.log());
            glance();
        }
    }

    /// All that it has said, in all its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Daemon {
    /// Who starts others comes first, so that it starts no more of them. What put the process into
    /// its world ends with it, and must not end before: who would wait for the process then is
    /// outside of its world, which cannot end until it was waited for.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let below = descendants(self.child.id());
            for pid in below.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            if below.is_empty() {
                let _ = self.child.kill();
            }
            let _ = self.child.wait();
        }
    }
}

/// What a start waits for.
enum Waiting {
    Notice(UnixDatagram, String),
    Socket(OwnedFd, PathBuf),
    Words { watch: OwnedFd, log: PathBuf, from: usize, words: &'static str },
}

impl Waiting {
    fn on(world: &World, name: &str, ready: Ready) -> Self {
        let log = log(world, name);
        match ready {
            Ready::Notifies => {
                let inside = format!("/world/{name}.notify");
                let outside = world.path(&inside);
                let _ = fs::remove_file(&outside);
                let socket = UnixDatagram::bind(&outside).expect("a socket");
                socket.set_nonblocking(true).expect("a socket");
                Self::Notice(socket, inside)
            }
            Ready::Listens(path) => Self::Socket(watch(&world.path(path)), world.path(path)),
            Ready::Says(words) => {
                let from = fs::metadata(&log).expect("a log").len() as usize;
                Self::Words { watch: watch(&log), log, from, words }
            }
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Notice(socket, _) => {
                let mut said = [0; 4096];
                let count = socket.recv(&mut said).unwrap_or(0);
                said[..count].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
            }
            Self::Socket(_, path) => UnixStream::connect(path).is_ok(),
            Self::Words { log, from, words, .. } => {
                let said = fs::read(log).unwrap_or_default();
                String::from_utf8_lossy(&said[*from..]).contains(words)
            }
        }
    }

    /// Until there is something to see. A socket exists before it is listened at: hence a glance.
    fn sleep(&self, ended: &OwnedFd) {
        let (event, most) = match self {
            Self::Notice(socket, _) => (socket.as_fd(), TIMEOUT),
            Self::Socket(watch, _) | Self::Words { watch, .. } => (watch.as_fd(), GLANCE),
        };
        let most = Timespec::try_from(most).expect("a short time");
        let mut fds =
            [PollFd::from_borrowed_fd(event, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        poll(&mut fds, Some(&most)).expect("poll");
        if let Self::Socket(watch, _) | Self::Words { watch, .. } = self {
            // What happened is seen by looking.
            let _ = rustix::io::read(watch, &mut [0_u8; 4096]);
        }
    }
}

fn log(world: &World, name: &str) -> PathBuf {
    world.path(&format!("/world/{name}.log"))
}

/// Tells when something appears or changes beside `path`.
fn watch(path: &Path) -> OwnedFd {
    let folder = path.parent().expect("a folder");
    fs::create_dir_all(folder).expect("a folder");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
    let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MODIFY;
    inotify::add_watch(&watch, folder, events).expect("inotify");
    watch
}

fn is_readable(fd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}

/// All processes below `pid`, parents before children.
fn descendants(pid: u32) -> Vec<i32> {
    let mut found = vec![pid.cast_signed()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        next += 1;
    }
    found.split_off(1)
}

fn comm(pid: i32) -> Option<String> {
    let name = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm")).ok()?;
    Some(name.trim().to_owned())
}
