//! The directories in which the reference plugin `host-local` keeps one file per address, and
//! whether those who wrote the files still live.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use model::{Error, Ipam, Network, Result, Timestamp};
use serde_json::Value;

use super::World;
use super::claims::read_json;

/// Where the plugin keeps its directories unless told otherwise.
const NETWORKS: &str = "var/lib/cni/networks";

/// Where libcni keeps each result until its DEL.
const RESULTS: &str = "var/lib/cni/results";

/// A file holds a container id and an interface name.
const LARGEST: u64 = 4096;

/// An address that a file holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldFile {
    pub(super) address: IpAddr,
    pub(super) path: PathBuf,
    /// The directory's name, which is the network's.
    pub(super) network: String,
    pub(super) container: String,
    pub(super) interface: Option<String>,
    pub(super) modified: Timestamp,
}

/// Whether the container that a file names still lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Its namespace is there.
    Alive,
    /// Proved; the sentence says how.
    Gone(&'static str),
    /// There is no proof.
    Doubtful,
}

/// Every file of every directory that the reference plugins or `networks` use.
pub(super) fn files(world: &World, networks: &[Network]) -> Vec<HeldFile> {
    let mut directories = BTreeSet::new();
    if let Ok(entries) = fs::read_dir(world.root.join(NETWORKS)) {
        directories.extend(entries.flatten().map(|entry| entry.path()));
    }
    for network in networks {
        if let Ipam::HostLocal { directory, .. } = &network.ipam {
            directories.insert(below(&world.root, directory));
        }
    }
    let mut files: Vec<HeldFile> = directories.iter().flat_map(|path| files_in(path)).collect();
    files.sort();
    files
}

fn files_in(directory: &Path) -> Vec<HeldFile> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| read(&entry.path())).collect()
}

fn read(path: &Path) -> Option<HeldFile> {
    let address = path.file_name()?.to_str()?.parse().ok()?;
    let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    File::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    let mut lines = text.lines().map(str::trim);
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(HeldFile {
        address,
        path: path.to_owned(),
        network: path.parent()?.file_name()?.to_str()?.to_owned(),
        container: lines.next().unwrap_or_default().to_owned(),
        interface: lines.next().filter(|line| !line.is_empty()).map(str::to_owned),
        modified: Timestamp(modified.as_secs()),
    })
}

/// Whether the container that `file` names still lives: what libcni remembers of it decides, and
/// then on which boot the file was written.
pub(super) fn life(file: &HeldFile, world: &World) -> Life {
    if file.container.is_empty() {
        return Life::Gone("a crash left it without an owner");
    }
    let sandboxes = remembered_sandboxes(file, world);
    let exists = |path: &PathBuf| below(&world.root, path).exists();
    if sandboxes.iter().any(exists) {
        return Life::Alive;
    }
    if boot_time(world).is_some_and(|boot| file.modified < boot) {
        return Life::Gone("it was written before this boot");
    }
    match sandboxes.is_empty() {
        true => Life::Doubtful,
        false => Life::Gone("its network namespace is gone"),
    }
}

/// The namespaces in the result that libcni keeps for the attachment.
fn remembered_sandboxes(file: &HeldFile, world: &World) -> Vec<PathBuf> {
    let interface = file.interface.as_deref().unwrap_or("eth0");
    let name = format!("{}-{}-{interface}", file.network, file.container);
    if name.contains('/') {
        return Vec::new();
    }
    let Some(kept) = read_json(&world.root.join(RESULTS).join(name)) else { return Vec::new() };
    let interfaces = kept.pointer("/result/interfaces").and_then(Value::as_array);
    let named = interfaces.into_iter().flatten().filter_map(|interface| interface.get("sandbox"));
    let paths = named.chain(kept.get("netns")).filter_map(Value::as_str);
    paths.filter(|path| path.starts_with('/')).map(PathBuf::from).collect()
}

fn boot_time(world: &World) -> Option<Timestamp> {
    let stat = fs::read_to_string(world.root.join("proc/stat")).ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok().map(Timestamp)
}

/// Removes the file, under the directory's lock and only if it is still the one that was read.
pub(super) fn remove(file: &HeldFile) -> Result<bool> {
    let doing = || format!("removing {}", file.path.display());
    let directory = file.path.parent().ok_or_else(|| Error::bug(doing()))?;
    let lock = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"))
        .and_then(|lock| lock.lock().map(|()| lock))
        .map_err(|cause| Error::os(doing(), cause))?;
    if read(&file.path).as_ref() != Some(file) {
        return Ok(false);
    }
    fs::remove_file(&file.path).map_err(|cause| Error::os(doing(), cause))?;
    drop(lock);
    Ok(true)
}

/// `path` in the file system whose root is `root`.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(root.to_owned(), |below, part| below.join(part))
}
