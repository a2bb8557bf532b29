//! Directories of plugins.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, process};

/// A directory of CNI plugins.
#[derive(Clone, Debug)]
pub struct Plugins {
    dir: PathBuf,
    ours: bool,
}

impl Plugins {
    /// Where every world has its plugins.
    pub const MOUNT: &str = "/opt/cni/bin";

    /// The names under which runtimes call Spoke.
    pub const NAMES: [&str; 20] = [
        "bandwidth",
        "bridge",
        "dhcp",
        "dummy",
        "firewall",
        "host-device",
        "host-local",
        "ipvlan",
        "loopback",
        "macvlan",
        "portmap",
        "ptp",
        "sbr",
        "spoke",
        "spoke-image",
        "static",
        "tap",
        "tuning",
        "vlan",
        "vrf",
    ];

    /// The reference plugins 1.9.
    pub fn reference() -> Self {
        Self::peer("cni-1.9")
    }

    /// The reference plugins 1.1.1.
    pub fn previous() -> Self {
        Self::peer("cni-1.1")
    }

    /// The plugins under test: Spoke's; or what `SPOKE_TEST_PLUGINS` names: `reference`,
    /// `previous`, or a directory.
    pub fn subject() -> Self {
        match env::var("SPOKE_TEST_PLUGINS").as_deref() {
            Ok("reference") => Self::reference(),
            Ok("previous") => Self::previous(),
            Ok(dir) if !dir.is_empty() => Self { dir: existing(dir.into()), ours: true },
            _ => Self::ours(),
        }
    }

    /// The last release's, whose program `SPOKE_LAST` names (scripts/last-release builds it); none where it is not set.
    pub fn last() -> Option<Self> {
        let program = env::var_os("SPOKE_LAST").filter(|path| !path.is_empty())?;
        Some(Self::of(Path::new(&program)))
    }

    /// Whether these are Spoke's.
    pub fn are_ours(&self) -> bool {
        self.ours
    }

    /// Where they are, outside of any world.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn peer(name: &str) -> Self {
        let dir = root().join(".cache/peers").join(name);
        Self { dir: existing(dir), ours: false }
    }

    fn ours() -> Self {
        Self::of(&program())
    }

    /// A folder with a program and a link for each of its names, made once per build.
    fn of(binary: &Path) -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock();
        let meta = fs::metadata(binary)
            .unwrap_or_else(|error| panic!("{}: {error} (make build)", binary.display()));
        let dir = target().join(format!("plugins/{}-{}", meta.mtime(), meta.len()));
        if !dir.exists() {
            let fresh = target().join(format!("plugins/fresh-{}", process::id()));
            link(binary, &fresh);
            // Several tests may do this at once: who comes second finds it done.
            if fs::rename(&fresh, &dir).is_err() {
                let _ = fs::remove_dir_all(&fresh);
            }
        }
        Self { dir: existing(dir), ours: true }
    }
}

fn link(binary: &Path, dir: &Path) {
    fs::create_dir_all(dir).expect("a temporary folder");
    fs::copy(binary, dir.join("spoke")).expect("the binary is copied");
    for name in Plugins::NAMES.iter().filter(|name| **name != "spoke") {
        std::os::unix::fs::symlink("spoke", dir.join(name)).expect("a link");
    }
}

/// The program: what `SPOKE_BIN` names, or else the release build.
pub fn program() -> PathBuf {
    match env::var_os("SPOKE_BIN") {
        Some(path) => PathBuf::from(path),
        None => target().join("release/spoke"),
    }
}

/// `target/<triple>`, above `<profile>/deps/<test>`.
fn target() -> PathBuf {
    let me = env::current_exe().expect("a test has a path");
    me.ancestors().nth(3).expect("cargo's folders").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn existing(dir: PathBuf) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|error| panic!("{}: {error} (make test)", dir.display()))
}
