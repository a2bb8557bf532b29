//! Images of which some paths only are wanted (`pathWhitelist`).

use std::collections::BTreeSet;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use model::{Error, Result};

use crate::unpack::clean;

/// Puts the paths in `whitelist` out of `layers` (the highest first) into the empty directory
/// `into`. Files become second names of the ones in the layers, which are never written.
pub(crate) fn flatten(whitelist: &[String], layers: &[PathBuf], into: &Path) -> Result<()> {
    let mut wanted = BTreeSet::new();
    for path in whitelist {
        let relative = path.trim_start_matches('/').as_bytes();
        let at = |error: Error| error.context("its manifest: pathWhitelist");
        wanted.extend(clean(relative).map_err(at)?);
    }
    for path in &wanted {
        let failed = |error| Error::os(format!("assembling {}", path.display()), error);
        // Parents come first, with their attributes in the image.
        let mut parents: Vec<_> = path.ancestors().skip(1).collect();
        parents.reverse();
        for part in parents.into_iter().filter(|part| !part.as_os_str().is_empty()) {
            place(part, layers, into).map_err(failed)?;
        }
        place(path, layers, into).map_err(failed)?;
    }
    Ok(())
}

/// Makes what the image has at `path`, without what is in it. It may be there, or may not exist at all.
fn place(path: &Path, layers: &[PathBuf], into: &Path) -> io::Result<()> {
    let to = into.join(path);
    let Some((from, kind)) = find(path, layers) else { return Ok(()) };
    // A link has nothing below it: its target's paths are wanted under their own names.
    let linked = to.ancestors().skip(1).take_while(|parent| *parent != into);
    if linked.into_iter().any(|parent| parent.is_symlink()) {
        return Ok(());
    }
    let made = match () {
        () if kind.is_dir() => directory(&from, &to),
        () if kind.is_symlink() => symlink(fs::read_link(&from)?, &to),
        () => fs::hard_link(&from, &to),
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let metadata = fs::metadata(from)?;
    if rustix::process::geteuid().is_root() {
        // In a user namespace some owners cannot be set.
        let _ = lchown(to, Some(metadata.uid()), Some(metadata.gid()));
    }
    fs::set_permissions(to, PermissionsExt::from_mode(metadata.mode() & 0o7777))
}

/// The file at `path` in the highest layer that has it; no link is followed on the way.
fn find(path: &Path, layers: &[PathBuf]) -> Option<(PathBuf, FileType)> {
    for layer in layers {
        let mut whole = layer.clone();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            whole.push(part);
            let Ok(metadata) = fs::symlink_metadata(&whole) else { break };
            match parts.peek() {
                None => return Some((whole, metadata.file_type())),
                Some(_) if !metadata.is_dir() => return None,
                Some(_) => {}
            }
        }
    }
    None
}
