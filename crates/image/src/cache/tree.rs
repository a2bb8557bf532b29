//! The contents of an unpacked layer as a digest: whether they are unchanged.
//!
//! A digest of everything takes reading every file. Beside it there is a digest of the results of
//! stat(2), with the time of each file's last change, which cannot be set without setting the clock
//! or writing to the disk itself. While that is the same, nothing is read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use model::{Error, Result};
use serde::{Deserialize, Serialize};

use super::record;
use crate::Algorithm;
use crate::digest::Hash;

/// Deeper trees are refused when they are unpacked.
const DEEPEST: usize = 256;

/// The contents of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    /// Of names, kinds, owners, modes, and what is in files.
    pub(super) content: String,
    /// The digest of names and stat(2) results.
    pub(super) stamp: String,
}

impl Tree {
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        record::read(path)
    }

    pub(super) fn write(&self, path: &Path, staging: &Path) -> Result<()> {
        record::write(path, staging, self)
    }
}

/// How much is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Content,
    Stamp,
}

/// The digest of all that is below `directory`, with what is in files.
pub(super) fn content(directory: &Path) -> Result<String> {
    digest(directory, Depth::Content)
}

/// The digest of what stat(2) says of all that is below `directory`.
pub(super) fn stamp(directory: &Path) -> Result<String> {
    digest(directory, Depth::Stamp)
}

fn digest(directory: &Path, depth: Depth) -> Result<String> {
    let failed = |error| Error::os(format!("reading {}", directory.display()), error);
    let mut hash = Hash::new(Algorithm::Sha256);
    let metadata = fs::symlink_metadata(directory).map_err(failed)?;
    entry(&mut hash, (directory, b""), &metadata, depth).map_err(failed)?;
    children(&mut hash, directory, (depth, DEEPEST)).map_err(failed)?;
    Ok(hash.finish().hex().to_owned())
}

fn children(
    hash: &mut Hash,
    directory: &Path,
    (depth, remaining): (Depth, usize),
) -> io::Result<()> {
    if remaining == 0 {
        return Err(io::Error::other("it is too deep"));
    }
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    number(hash, entries.len() as u64);
    for found in entries {
        let (path, name, metadata) = (found.path(), found.file_name(), found.metadata()?);
        entry(hash, (&path, name.as_bytes()), &metadata, depth)?;
        if metadata.is_dir() {
            children(hash, &path, (depth, remaining - 1))?;
        }
    }
    Ok(())
}

fn entry(
    hash: &mut Hash,
    (path, name): (&Path, &[u8]),
    metadata: &Metadata,
    depth: Depth,
) -> io::Result<()> {
    bytes(hash, name);
    for value in [u64::from(metadata.mode()), u64::from(metadata.uid()), u64::from(metadata.gid())]
    {
        number(hash, value);
    }
    let kind = metadata.file_type();
    let length = if metadata.is_dir() { 0 } else { metadata.size() };
    number(hash, length);
    if kind.is_block_device() || kind.is_char_device() {
        number(hash, metadata.rdev());
    }
    if kind.is_symlink() {
        bytes(hash, fs::read_link(path)?.as_os_str().as_bytes());
    }
    match depth {
        Depth::Stamp => {
            let changed = [metadata.ctime(), metadata.ctime_nsec()];
            number(hash, metadata.ino());
            changed.into_iter().for_each(|part| number(hash, part.cast_unsigned()));
            Ok(())
        }
        Depth::Content if kind.is_file() => file(hash, path, length),
        Depth::Content => Ok(()),
    }
}

/// Exactly `length` bytes, or it is changed at this moment.
fn file(hash: &mut Hash, path: &Path, length: u64) -> io::Result<()> {
    let mut file = File::open(path)?.take(length);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn number(hash: &mut Hash, value: u64) {
    hash.update(&value.to_le_bytes());
}

fn bytes(hash: &mut Hash, bytes: &[u8]) {
    number(hash, bytes.len() as u64);
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn every_change_is_seen() {
        let lab = tempfile::tempdir().unwrap();
        let root = lab.path().join("layer");
        let build = || {
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("bin")).unwrap();
            fs::write(root.join("bin/add"), "program").unwrap();
            fs::write(root.join("bin/del"), "").unwrap();
            symlink("add", root.join("bin/link")).unwrap();
        };
        build();
        let before = content(&root).unwrap();
        let mode =
            |mode: u32| fs::set_permissions(root.join("bin/add"), PermissionsExt::from_mode(mode));
        let changes: [(&str, &dyn Fn()); 6] = [
            ("same length", &|| fs::write(root.join("bin/add"), "pr0gram").unwrap()),
            ("mode", &|| mode(0o4755).unwrap()),
            ("name", &|| fs::rename(root.join("bin/del"), root.join("bin/dem")).unwrap()),
            ("gone", &|| fs::remove_file(root.join("bin/del")).unwrap()),
            ("more", &|| fs::write(root.join("bin/more"), "").unwrap()),
            ("link", &|| {
                fs::remove_file(root.join("bin/link")).unwrap();
                symlink("del", root.join("bin/link")).unwrap();
            }),
        ];
        for (what, change) in changes {
            build();
            assert_eq!(content(&root).unwrap(), before, "before {what}");
            change();
            assert_ne!(content(&root).unwrap(), before, "{what}");
        }
    }

    #[test]
    fn a_change_with_its_old_times_is_seen_by_its_time_of_change() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("add");
        fs::write(&path, "program").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let times = stamp(lab.path()).unwrap();
        assert_eq!(stamp(lab.path()).unwrap(), times, "looking changes nothing");
        let changed = || fs::metadata(&path).map(|data| (data.ctime(), data.ctime_nsec())).unwrap();
        let before = changed();
        // The kernel's clock for files goes on by some milliseconds at a time.
        while changed() == before {
            fs::write(&path, "pr0gram").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
        assert_ne!(stamp(lab.path()).unwrap(), times);
    }
}
