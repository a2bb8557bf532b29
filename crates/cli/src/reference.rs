//! The directories in which the reference plugin `host-local` keeps one file per address, and
//! whether the containers in the files still exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use cni::reference::{Boot, HeldFile, NETWORKS, RESULTS};
use model::{Ipam, Network};

use crate::context::CommandContext;

/// Whether the container that a file names still exists.
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
pub(super) fn files(context: &CommandContext, networks: &[Network]) -> Vec<HeldFile> {
    let mut directories = BTreeSet::new();
    if let Ok(entries) = fs::read_dir(below(&context.root, Path::new(NETWORKS))) {
        directories.extend(entries.flatten().map(|entry| entry.path()));
    }
    for network in networks {
        if let Ipam::HostLocal { directory, .. } = &network.ipam {
            directories.insert(below(&context.root, directory));
        }
    }
    let mut files: Vec<HeldFile> =
        directories.iter().flat_map(|path| HeldFile::all_in(path)).collect();
    files.sort();
    files
}

/// Whether the container that `file` names still exists: libcni's stored result decides, and then
/// the boot in which the file was written.
pub(super) fn life(file: &HeldFile, context: &CommandContext) -> Life {
    if file.container.is_empty() {
        return Life::Gone("a crash left it without an owner");
    }
    let sandboxes = file.sandboxes(&below(&context.root, Path::new(RESULTS)));
    let exists = |path: &PathBuf| below(&context.root, path).exists();
    if sandboxes.iter().any(exists) {
        return Life::Alive;
    }
    if Boot::read(&context.root.join("proc/stat"), &context.root.join("dev"))
        .outdates(file.modified)
    {
        return Life::Gone("it was written before this boot");
    }
    match sandboxes.is_empty() {
        true => Life::Doubtful,
        false => Life::Gone("its network namespace is gone"),
    }
}

/// `path` in the file system whose root is `root`.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(root.to_owned(), |below, part| below.join(part))
}
