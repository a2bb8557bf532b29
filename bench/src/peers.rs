//! Whose work is measured: ours, the reference plugins and netavark.

use std::fs;
use std::path::{Path, PathBuf};

use model::{Error, Result};

use crate::args::Args;
use crate::world::{self, DIR};

/// The plugins that are measured.
const NAMES: [&str; 9] =
    ["bridge", "host-local", "portmap", "firewall", "tuning", "bandwidth", "macvlan", "sbr", "vrf"];
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Executables, copied so that no build changes them during a run.
pub(crate) struct Peers {
    /// The reference plugins.
    pub(crate) reference: PathBuf,
    /// What they are.
    pub(crate) reference_version: String,
    /// The plugins under test.
    pub(crate) ours: PathBuf,
    /// The size of our binary in bytes.
    pub(crate) size: u64,
    /// Podman's own network program, if there.
    pub(crate) netavark: Option<PathBuf>,
    /// This program.
    pub(crate) bench: PathBuf,
    found: PathBuf,
}

impl Peers {
    /// Finds and copies all.
    pub(crate) fn gather(args: &Args) -> Result<Self> {
        let bench =
            std::env::current_exe().map_err(|error| Error::os("finding this program", error))?;
        let found = Path::new(ROOT).join(".cache/peers");
        let reference = Path::new(DIR).join("reference");
        copy_all(&found.join("cni-1.9"), &reference)
            .map_err(|error| error.context("the reference plugins (scripts/peers fetches them)"))?;
        let ours = Path::new(DIR).join("ours");
        let subject = match &args.ours {
            Some(path) => path.clone(),
            None => bench.with_file_name("spoke"),
        };
        if subject.is_dir() {
            copy_all(&subject, &ours)?;
        } else {
            link_all(&subject, &ours)?;
        }
        let size = fs::metadata(ours.join("bridge")).map_or(0, |meta| meta.len());
        let netavark = Some(found.join("netavark/netavark")).filter(|path| path.exists());
        let package = fs::read_to_string(found.join("cni-1.9/.package")).unwrap_or_default();
        let reference_version = package.trim().trim_end_matches(".deb").to_owned();
        Ok(Self { reference, reference_version, ours, size, netavark, bench, found })
    }
}

impl Peers {
    /// Podman 5.4's server of names.
    pub(crate) fn aardvark(&self) -> Result<PathBuf> {
        let path = self.found.join("podman-5.4/usr/lib/podman/aardvark-dns");
        match path.exists() {
            true => Ok(path),
            false => Err(Error::not_found("aardvark-dns (scripts/peers fetches it)")),
        }
    }
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    world::make(to)?;
    NAMES.iter().try_for_each(|name| copy(&from.join(name), &to.join(name)))
}

/// One binary under all its names.
fn link_all(binary: &Path, to: &Path) -> Result<()> {
    world::make(to)?;
    copy(binary, &to.join("spoke"))
        .map_err(|error| error.context("the release build is missing"))?;
    NAMES.iter().try_for_each(|name| {
        std::os::unix::fs::symlink("spoke", to.join(name))
            .map_err(|error| Error::os(format!("linking {name}"), error))
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|error| Error::os(format!("copying {}", from.display()), error))
}
