//! The daemon `spoke serve` below a service manager that keeps its sockets.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::World;
use crate::daemon::{Daemon, Ready};

const MANAGER: &str = include_str!("managed.py");

/// `spoke serve` whose sockets outlive it, as its unit says; killed when dropped.
#[derive(Debug)]
pub struct Managed {
    daemon: Daemon,
    again: std::path::PathBuf,
}

impl Managed {
    /// Starts it.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    #[track_caller]
    pub fn start(world: &World) -> Self {
        let folder = world.path("/world");
        let enter = world.command("/usr/bin/env");
        let mut command = Command::new("python3");
        command.args(["-c", MANAGER]).arg(&folder).arg("/usr/bin/nsenter").args(enter.get_args());
        command.args(["-i", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
        command.arg("SPOKE_CONFIG=/etc/spoke/config.toml").stdin(Stdio::null());
        let daemon = Daemon::start(world, "spoke", &mut command, Ready::Says("serving, version"));
        Self { daemon, again: folder.join("again") }
    }

    /// Kills the daemon as a crash does; whether there was one. It is not started before
    /// [`Managed::again`].
    pub fn kill(&self) -> bool {
        self.daemon.kill()
    }

    /// Stops the daemon as a service manager does; otherwise as [`Managed::kill`].
    pub fn stop(&self) -> bool {
        self.daemon.signal(Signal::TERM)
    }

    /// Starts it again.
    ///
    /// # Panics
    /// When nothing waits for that.
    #[track_caller]
    pub fn again(&self) {
        fs::write(&self.again, "now").expect("the manager waits");
    }

    /// What all its lives have said.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}
