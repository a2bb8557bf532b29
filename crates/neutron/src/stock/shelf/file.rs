//! Files that any process may write, and what is made of those that none of ours wrote.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{Error, ResourceId, Result};
use rustix::fs::OFlags;
use serde::de::DeserializeOwned;

/// How long a file of ours can be, in bytes.
const LONGEST: u64 = 64 << 10;

/// A directory of ours has no more files: who saw only some of them would take the others for gone.
const MOST: usize = 1 << 17;

pub(super) fn file_of(directory: &Path, id: &ResourceId) -> PathBuf {
    directory.join(format!("{id}.json"))
}

pub(super) fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// The names of the directory's files, without what all of ours end with.
pub(super) fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = entries(directory)?.into_iter();
    Ok(entries.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect())
}

pub(super) fn entries(directory: &Path) -> Result<Vec<String>> {
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

/// What a file says; none where it is not there, or is nothing that we wrote.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
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
pub(super) fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(failed("removing", path, cause)),
    }
}

pub(super) fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| failed("making", path, cause))
}

pub(super) fn failed(doing: &str, path: &Path, cause: io::Error) -> Error {
    Error::os(format!("{doing} {}", path.display()), cause)
}
