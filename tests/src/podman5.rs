//! Podman 5 and its netavark, each in a Debian of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Base, Cgroup, Output, Plugins, Snapshot, World, skipped};

/// A Podman of Debian's; scripts/peers unpacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodmanRelease {
    /// 5.4, of Debian trixie.
    V5_4,
    /// 5.8, of Debian sid.
    V5_8,
}

impl PodmanRelease {
    fn version(self) -> &'static str {
        match self {
            Self::V5_4 => "5.4",
            Self::V5_8 => "5.8",
        }
    }

    /// Whether it can be had; says so aloud where Debian has moved on to another version.
    fn is_there(self) -> bool {
        let moved = fs::read_to_string(peers().join(format!("podman-{}.moved", self.version())));
        if let Ok(moved) = &moved {
            skipped(&format!("Podman {}", self.version()), moved);
        }
        moved.is_err()
    }

    /// Its root, where it can be had.
    pub(crate) fn there(self) -> Option<PathBuf> {
        self.is_there().then(|| self.root())
    }

    fn root(self) -> PathBuf {
        let folder = peers().join(format!("podman-{}", self.version()));
        folder
            .canonicalize()
            .unwrap_or_else(|error| panic!("{}: {error} (make test)", folder.display()))
    }
}

/// A Podman with Spoke as its plugin and an image [`Podman5::IMAGE`], in a world of its own.
#[derive(Debug)]
pub struct Podman5 {
    /// The host that it believes to be on.
    pub world: World,
    cgroup: Cgroup,
    before: Snapshot,
}

impl Podman5 {
    /// The image that containers run: busybox, and a page to serve.
    pub const IMAGE: &str = "localhost/spoke-test";

    /// One of this release; `None` where Debian has moved on.
    #[track_caller]
    pub fn new(release: PodmanRelease) -> Option<Self> {
        if !release.is_there() {
            return None;
        }
        let base = Base { root: Some(release.root()), programs: None };
        let world = World::on(&Plugins::subject(), &base);
        Self::set_up(&world);
        let said = world.sh("/run/stage/podman --version");
        assert!(said.contains(&format!("version {}.", release.version())), "{said}");
        let before = Snapshot::of(&world);
        Some(Self { world, cgroup: Cgroup::new(), before })
    }

    /// Sets up Podman as `/run/stage/podman`, and [`Podman5::IMAGE`], in a world that has its root.
    #[track_caller]
    pub fn set_up(world: &World) {
        world.sh(include_str!("podman5.sh"));
    }

    /// What `podman ARGUMENTS` prints.
    #[track_caller]
    pub fn podman(&self, arguments: &str) -> String {
        self.world.sh(&format!("/run/stage/podman {arguments}"))
    }

    /// What `podman ARGUMENTS` says when it fails.
    #[track_caller]
    pub fn refused(&self, arguments: &str) -> String {
        let Output { status, stdout, stderr } =
            self.world.try_sh(&format!("/run/stage/podman {arguments}"));
        assert_ne!(status, 0, "podman {arguments}: {stdout}");
        stderr
    }

    /// Starts a container that sleeps, or does what `command` says.
    #[track_caller]
    pub fn run(&self, name: &str, options: &str, command: &str) {
        let (cgroup, image) = (self.cgroup.name(), Self::IMAGE);
        self.podman(&format!(
            "run -d --name {name} --cgroup-parent /{cgroup} {options} {image} {command}"
        ));
    }

    /// Starts a container that serves a page on port 80, and waits until it does.
    #[track_caller]
    pub fn serve(&self, name: &str, options: &str) {
        self.run(name, options, "/bin/httpd -f -h /www");
        let said = self.podman(&format!("inspect --format {{{{.State.Pid}}}} {name}"));
        self.world.until_listens(said.trim(), 80);
    }

    /// What starting a container says when it fails. The container is removed.
    #[track_caller]
    pub fn run_refused(&self, options: &str) -> String {
        let (cgroup, image) = (self.cgroup.name(), Self::IMAGE);
        self.refused(&format!("run --rm --cgroup-parent /{cgroup} {options} {image} /bin/sleep 0"))
    }

    /// How a container ends that does what `command` says, and is removed then.
    pub fn try_run(&self, options: &str, command: &str) -> Output {
        let (cgroup, image) = (self.cgroup.name(), Self::IMAGE);
        self.world.try_sh(&format!(
            "/run/stage/podman run --rm --cgroup-parent /{cgroup} {options} {image} {command}"
        ))
    }

    /// What Podman says of a container's end on a network.
    #[track_caller]
    pub fn endpoint(&self, container: &str, network: &str) -> Value {
        let said = self.podman(&format!("inspect {container}"));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        said[0]["NetworkSettings"]["Networks"][network].clone()
    }

    /// What `spoke ARGUMENTS` prints.
    #[track_caller]
    pub fn spoke(&self, arguments: &str) -> String {
        self.world.sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// That nothing is left of the networks, once Podman has removed them and Spoke has looked.
    #[track_caller]
    pub fn is_empty(&self) {
        self.spoke("gc");
        let mut changes = Snapshot::of(&self.world).changes(&self.before);
        changes.retain(|line| !may_stay(line));
        assert!(changes.is_empty(), "left behind:\n{}", changes.join("\n"));
    }
}

/// Of Podman itself; and what the kernel keeps of whatever was a bridge: that the host forwards.
fn may_stay(line: &str) -> bool {
    const THEIRS: [&str; 11] = [
        "file /run/stage/",
        "file /run/containers/",
        "file /run/libpod/",
        "file /run/runc/",
        "file /run/lock/",
        "file /run/spoke/",
        "file /var/lib/spoke/lock",
        "file /var/lib/containers/",
        "file /var/tmp/",
        " sysctl ipv4/ip_forward",
        "/forwarding =",
    ];
    THEIRS.iter().any(|part| line.contains(part))
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers")
}
