//! A real etcd in a world.

use std::fs;

use rustix::process::Signal;

use crate::World;
use crate::daemon::{Daemon, Ready};

/// One server of etcd, Debian's; killed when dropped. What it holds is the world's.
#[derive(Debug)]
pub struct Etcd(Daemon);

impl Etcd {
    /// Puts the program where a host of the world starts a server of its own (`spoke host init`).
    ///
    /// # Panics
    /// When there is none, or it cannot be copied.
    #[track_caller]
    pub fn install(world: &World) {
        let etcd = world.path("/usr/local/bin/etcd");
        fs::create_dir_all(etcd.parent().expect("a folder")).expect("a folder");
        fs::copy("/usr/bin/etcd", etcd).expect("etcd (scripts/setup test)");
    }

    /// Starts it at an address of the world, and waits until it serves.
    ///
    /// # Panics
    /// When it ends, or does not serve in time, with what it said.
    #[track_caller]
    pub fn start(world: &World, address: &str) -> Self {
        Self::start_as(world, ("http", address), &[])
    }

    /// The same with TLS for its clients.
    ///
    /// # Panics
    /// As [`Etcd::start`].
    #[track_caller]
    pub fn start_as(world: &World, (scheme, address): (&str, &str), arguments: &[&str]) -> Self {
        let client = format!("{scheme}://{address}:2379");
        let peer = format!("http://{address}:2380");
        let mut command = world.command("/usr/bin/etcd");
        command
            .args(["--name", "one", "--data-dir", "/world/etcd"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}")])
            .args(arguments);
        Self(Daemon::start(world, "etcd", &mut command, Ready::Notifies))
    }

    /// Ends it as a crash does.
    #[track_caller]
    pub fn kill(self) {
        self.0.end(Signal::KILL);
    }
}
