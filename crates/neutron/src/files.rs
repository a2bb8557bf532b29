//! Files that any process may write, and the treatment of those that no process of Spoke's wrote.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{Error, ResourceId, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest file of Spoke's, in bytes.
const LONGEST: u64 = 64 << 10;

/// A directory of Spoke's has no more files: a process that saw only some of them would take the
/// others for gone.
const MOST: usize = 1 << 17;

pub(crate) fn file_of(directory: &Path, id: &ResourceId) -> PathBuf {
    directory.join(format!("{id}.json"))
}

pub(crate) fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// The names of the directory's files, without their common suffix.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = entries(directory)?.into_iter();
    Ok(entries.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect())
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed("listing", directory, cause)),
    };
    let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
    let names: io::Result<Vec<_>> = entries.take(MOST + 1).map(name).collect();
    let names = names.map_err(|cause| failed("listing", directory, cause))?;
    if names.len() > MOST {
        return Err(Error::exhausted(format!(
            "{} has more than {MOST} files",
            directory.display()
        )));
    }
    Ok(names.iter().filter_map(|name| OsStr::to_str(name)).map(str::to_owned).collect())
}

/// The contents of a file; `None` where it is missing, or not Spoke's.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match OpenOptions::new().read(true).custom_flags(nofollow()).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("reading", path, cause)),
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).map_err(|cause| failed("reading", path, cause))?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Whether it was there.
pub(crate) fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(failed("removing", path, cause)),
    }
}

/// Writes a whole file, or none. Drafts are in the directory of that name.
pub(crate) fn write(drafts: &Path, path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value)
        .map_err(|cause| Error::bug(format!("writing {}", path.display())).because(cause))?;
    make_directory(drafts)?;
    make_directory(path.parent().unwrap_or(path))?;
    let draft = drafts.join(format!("{:016x}", RandomState::new().hash_one(0)));
    file::replace(path, &draft, &text).map_err(|cause| failed("writing", path, cause))
}

/// Removes the drafts that writers left who were killed.
pub(crate) fn sweep(drafts: &Path, before: SystemTime) -> Result<()> {
    for name in entries(drafts)? {
        let path = drafts.join(name);
        let modified = fs::metadata(&path).and_then(|data| data.modified());
        if modified.is_ok_and(|modified| modified < before) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Moves a file; `false` where it is not there (any more).
pub(crate) fn moved(from: &Path, to: &Path) -> Result<bool> {
    match fs::rename(from, to) {
        Ok(()) => return Ok(true),
        // Either of both may be missing.
        Err(_) if from.exists() => {}
        Err(_) => return Ok(false),
    }
    make_directory(to.parent().unwrap_or(to))?;
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(failed("moving", from, cause)),
    }
}

/// The ids after which the directory's files are named.
pub(crate) fn ids(directory: &Path) -> Result<Vec<ResourceId>> {
    Ok(names(directory)?.into_iter().filter_map(|name| name.parse().ok()).collect())
}

/// The lock of this path; `None` where another process holds it.
pub(crate) fn only(path: &Path) -> Result<Option<fs::File>> {
    make_directory(path.parent().unwrap_or(path))?;
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o600);
    let opened = how.custom_flags(nofollow()).open(path);
    let file = opened.map_err(|cause| failed("opening", path, cause))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(cause) => Err(failed("locking", path, cause.into())),
    }
}

/// Whether a process holds the lock of this path.
pub(crate) fn is_held(path: &Path) -> bool {
    let locked =
        fs::File::open(path).map(|file| flock(&file, FlockOperation::NonBlockingLockShared));
    matches!(locked, Ok(Err(rustix::io::Errno::WOULDBLOCK)))
}

pub(crate) fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| failed("making", path, cause))
}

pub(crate) fn failed(doing: &str, path: &Path, cause: io::Error) -> Error {
    Error::os(format!("{doing} {}", path.display()), cause)
}
