//! The daemon `spoke serve` in a world.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::daemon::{Daemon, Ready};
use crate::http::{self, Reply};
use crate::{Plugins, World};

const SOCKET: &str = "/run/docker/plugins/spoke.sock";
const CONFIG: &str = "/etc/spoke/config.toml";

/// `spoke serve`, which makes its own socket; killed when dropped.
#[derive(Debug)]
pub struct Serve {
    daemon: Daemon,
    socket: PathBuf,
}

impl Serve {
    /// Starts it and waits until its socket is listened at.
    ///
    /// # Panics
    /// When it ends, or the socket does not come, with what it said.
    #[track_caller]
    pub fn start(world: &World, arguments: &[&str]) -> Self {
        Self::start_by(world, &[], arguments)
    }

    /// The same by a program of the world with its first arguments, which runs the rest of them.
    ///
    /// # Panics
    /// As [`Serve::start`].
    #[track_caller]
    pub fn start_by(world: &World, by: &[&str], arguments: &[&str]) -> Self {
        let spoke = format!("{}/spoke", Plugins::MOUNT);
        let words: Vec<&str> = by.iter().copied().chain([spoke.as_str(), "serve"]).collect();
        let mut command = world.command(words[0]);
        command.args(&words[1..]).args(arguments).env("SPOKE_CONFIG", CONFIG);
        let daemon = Daemon::start(world, "spoke", &mut command, Ready::Listens(SOCKET));
        Self { daemon, socket: world.path(SOCKET) }
    }

    /// Kills it as a crash does (`kill -9`); its socket's file stays.
    #[track_caller]
    pub fn kill(self) {
        self.daemon.end(Signal::KILL);
    }

    /// Ends it as its service does.
    #[track_caller]
    pub fn stop(self) {
        self.daemon.end(Signal::TERM);
    }

    /// One call of the plugin protocol.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn call(&self, method: &str, body: &str) -> io::Result<Reply> {
        http::call(&self.socket, "POST", &format!("/{method}"), body.as_bytes())
    }

    /// Its process.
    pub fn pid(&self) -> Option<Pid> {
        self.daemon.process()
    }

    /// Waits until it has said this.
    ///
    /// # Panics
    /// When it does not, with what it said.
    #[track_caller]
    pub fn until_says(&self, words: &str) {
        self.daemon.until_says(words);
    }

    /// What it has said.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

/// Starts the daemon again whenever it ends, as its unit does; so often that a daemon that cannot
/// work does not do so for ever.
const AGAIN: &str = r#"
for life in $(seq 100); do
    sh -c 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"' sh "$@"
done
"#;

/// `spoke serve` with a socket that is held for it: by systemd's own program, on the first call,
/// and from then on across all its lives.
#[derive(Debug)]
pub struct Held {
    daemon: Daemon,
    socket: PathBuf,
}

impl Held {
    /// Makes the socket; the daemon starts with the first call to it.
    ///
    /// # Panics
    /// When `systemd-socket-activate` does not start.
    #[track_caller]
    pub fn start(world: &World, arguments: &[&str]) -> Self {
        let socket = world.path(SOCKET);
        let enter = world.command("/usr/bin/env");
        let mut command = Command::new("systemd-socket-activate");
        command.arg("--listen").arg(&socket).arg("/usr/bin/nsenter").args(enter.get_args());
        command
            .args(["-i", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"])
            .arg(format!("SPOKE_CONFIG={CONFIG}"))
            .args(["sh", "-c", AGAIN, "sh", &format!("{}/spoke", Plugins::MOUNT), "serve"])
            .args(arguments)
            .stdin(Stdio::null());
        let daemon = Daemon::start(world, "spoke", &mut command, Ready::Says("Listening on"));
        Self { daemon, socket }
    }

    /// Kills the daemon as a crash does; whether there was one. The socket is held on.
    pub fn kill(&self) -> bool {
        self.daemon.kill()
    }

    /// One call of the plugin protocol.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn call(&self, method: &str, body: &str) -> io::Result<Reply> {
        http::call(&self.socket, "POST", &format!("/{method}"), body.as_bytes())
    }

    /// The daemon's process, if it runs now.
    pub fn pid(&self) -> Option<Pid> {
        self.daemon.process()
    }

    /// What all its lives have said.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}
