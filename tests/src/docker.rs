//! A real Docker Engine in a world of its own.

mod client;
mod image;
mod release;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

pub use client::Events;
pub use release::Release;

use crate::daemon::{Daemon, Ready};
use crate::host::Traces;
use crate::{Base, Cgroup, Output, Plugins, Podman5, PodmanRelease, World};

const SOCKET: &str = "/run/docker.sock";
/// What an engine is, in `usr`.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("bin", &["docker", "containerd", "containerd-shim-runc-v2", "docker-init"]),
    ("sbin", &["dockerd", "docker-proxy"]),
];
/// Only what an engine asks of it: without the part for Kubernetes.
const CONTAINERD: &str = r#"version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
"#;

/// An engine with its own containerd, files, network, cgroup and `/run`, and an image `busybox`.
/// Dropping it ends all of it, in whatever state it is.
///
/// Its files outlive the daemon: [`Engine::kill`] and [`Engine::start`] are a crash and what
/// follows.
#[derive(Debug)]
pub struct Engine {
    release: Release,
    dockerd: Option<Daemon>,
    containerd: Option<Daemon>,
    world: World,
    cgroup: Cgroup,
}

impl Engine {
    /// A running engine with `arguments` of `dockerd`, and the image.
    #[track_caller]
    pub fn new(release: Release, plugins: &Plugins, arguments: &[&str]) -> Self {
        let mut engine = Self::prepared(release, plugins);
        engine.start(arguments);
        engine.import();
        engine
    }

    /// The engine's world with nothing running in it yet; it is started with [`Engine::start`].
    #[track_caller]
    pub fn prepared(release: Release, plugins: &Plugins) -> Self {
        Self::on(release, World::on(plugins, &release.base()))
    }

    /// The same in the root of Podman 5.4, with Podman set up in it ([`Podman5::set_up`]); `None` where Debian
    /// has moved on. It is 26.1: both are trixie's, so that its programs find their libraries there.
    #[track_caller]
    pub fn beside_podman5(plugins: &Plugins) -> Option<Self> {
        let release = Release::V26_1;
        let root = PodmanRelease::V5_4.there().filter(|_| release.is_there())?;
        let programs = tempfile::tempdir().expect("a folder");
        for (folder, names) in PROGRAMS {
            let to = programs.path().join("usr").join(folder);
            fs::create_dir_all(&to).expect("a folder");
            for name in names {
                let from = release.root().join("usr").join(folder).join(name);
                symlink(from, to.join(name)).expect("a link");
            }
        }
        let base = Base { root: Some(root), programs: Some(programs.path().to_owned()) };
        let world = World::on(plugins, &base);
        Podman5::set_up(&world);
        Some(Self::on(release, world))
    }

    fn on(release: Release, world: World) -> Self {
        world.sh(&format!("cat >/world/containerd.toml <<'CONF'\n{CONTAINERD}\nCONF"));
        Self { release, dockerd: None, containerd: None, world, cgroup: Cgroup::new() }
    }

    /// Starts containerd, unless it runs, and `dockerd` with `arguments` besides the fixture's.
    /// Returns when its API answers.
    ///
    /// # Panics
    /// When it does not come up, with its log.
    #[track_caller]
    pub fn start(&mut self, arguments: &[&str]) {
        assert!(self.dockerd.is_none(), "it runs");
        if self.containerd.is_none() {
            let mut command = self.world.command("containerd");
            command.args(["--config", "/world/containerd.toml"]);
            self.containerd =
                Some(Daemon::start(&self.world, "containerd", &mut command, Ready::Notifies));
        }
        let mut command = self.world.command("dockerd");
        command
            .args(["--host", &format!("unix://{SOCKET}")])
            .args(["--containerd", "/run/containerd/containerd.sock"])
            .args(["--storage-driver", "overlay2", "--exec-opt", "native.cgroupdriver=cgroupfs"])
            .args(["--cgroup-parent", &format!("/{}", self.cgroup.name())])
            .args(arguments);
        self.dockerd = Some(Daemon::start(&self.world, "dockerd", &mut command, Ready::Notifies));
    }

    /// Kills the daemon as a crash does (`kill -9`); containers go on.
    #[track_caller]
    pub fn kill(&mut self) {
        self.dockerd.take().expect("it runs").end(Signal::KILL);
    }

    /// Ends the daemon as its service does.
    #[track_caller]
    pub fn stop(&mut self) {
        self.dockerd.take().expect("it runs").end(Signal::TERM);
    }

    /// What kind of engine this is.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The host that the engine believes to be on.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Where containers of other runtimes in this world go, so that they are removed as well.
    pub fn cgroup(&self) -> &str {
        self.cgroup.name()
    }

    /// The daemon's process.
    pub fn pid(&self) -> Option<Pid> {
        self.dockerd.as_ref().and_then(Daemon::process)
    }

    /// What the daemon has said, also before it was killed.
    pub fn log(&self) -> String {
        self.dockerd.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// What would tell afterwards that something of this engine is still there.
    pub fn traces(&self) -> Traces {
        Traces::of(&self.world, &self.cgroup)
    }

    /// What `docker ARGUMENTS` prints: for tests of the command line itself.
    ///
    /// # Panics
    /// When it fails, with all that it said.
    #[track_caller]
    pub fn docker(&self, arguments: &str) -> String {
        self.world.sh(&format!("docker {arguments}"))
    }

    /// How `docker ARGUMENTS` ends.
    pub fn try_docker(&self, arguments: &str) -> Output {
        self.world.try_sh(&format!("docker {arguments}"))
    }

    /// Kills and removes containers, one after another.
    ///
    /// `docker rm` removes all that it is given at once. An engine before 28 keeps a number of each
    /// network's endpoints, and when several of these go at the same time it may lose one: it then
    /// refuses to remove the network, which "has active endpoints" although it has none
    /// (moby/moby#42119), until it counts them again, which it does when it starts.
    ///
    /// # Panics
    /// At the first that is not removed, with all that was said.
    #[track_caller]
    pub fn remove_each(&self, names: &str) {
        self.world.sh(&format!("for name in {names}; do docker rm -f $name; done"));
    }

    fn socket(&self) -> PathBuf {
        self.world.path(SOCKET)
    }
}
