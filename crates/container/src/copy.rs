//! Layers put together by copying, where overlayfs is impossible.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

use model::{Error, Result};
use rustix::fs::{CWD, FileType, Mode, getxattr, mknodat, rename};

/// Names of the attribute that says that a directory hides what is below it.
const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// A directory below `upper` that holds `lowers` over each other, as its last user left it; made if
/// these layers have none yet.
pub(crate) fn copied(lowers: &[PathBuf], upper: &Path) -> Result<PathBuf> {
    let (copy, written, new) = (upper.join("copy"), upper.join("copied"), upper.join("copy.new"));
    let layers: Vec<_> = lowers.iter().map(|lower| lower.display().to_string()).collect();
    let layers = layers.join("\n");
    if copy.is_dir() && fs::read_to_string(&written).is_ok_and(|written| written == layers) {
        return Ok(copy);
    }
    let failed =
        |path: &Path, error| Error::os(format!("copying layers to {}", path.display()), error);
    for old in [&written, &copy, &new] {
        remove(old).map_err(|error| failed(old, error))?;
    }
    fs::create_dir_all(&new).map_err(|error| failed(&new, error))?;
    for lower in lowers {
        merge(lower, &new).map_err(|error| failed(lower, error))?;
    }
    rename(&new, &copy).map_err(|errno| failed(&copy, errno.into()))?;
    fs::write(&written, &layers).map_err(|error| failed(&written, error))?;
    Ok(copy)
}

fn remove(path: &Path) -> std::io::Result<()> {
    netlink::remove_tree(path)
}

/// Copies `from` over `to`. Neither changes meanwhile, and `to` is not shared.
fn merge(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let there = fs::symlink_metadata(&source)?;
        let merged = there.is_dir() && !is_opaque(&source);
        if !(merged && fs::symlink_metadata(&target).is_ok_and(|target| target.is_dir())) {
            remove(&target)?;
        }
        one(&source, &target, &there)?;
        if there.is_dir() {
            merge(&source, &target)?;
        }
    }
    own(from, to, &fs::symlink_metadata(from)?)
}

fn one(source: &Path, target: &Path, there: &Metadata) -> std::io::Result<()> {
    let kind = there.file_type();
    if kind.is_dir() {
        match fs::create_dir(target) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => return Ok(()),
        }
    } else if kind.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
    } else if kind.is_file() {
        std::io::copy(&mut File::open(source)?, &mut File::create_new(target)?)?;
    } else if kind.is_char_device() && there.rdev() == 0 {
        // A whiteout: what was below is gone.
        return Ok(());
    } else if kind.is_fifo() {
        mknodat(CWD, target, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    } else {
        // Devices and sockets are nothing that an image brings.
        return Ok(());
    }
    own(source, target, there)
}

/// Owner first: changing it takes rights away.
fn own(source: &Path, target: &Path, there: &Metadata) -> std::io::Result<()> {
    match lchown(target, Some(there.uid()), Some(there.gid())) {
        // One user's own namespace knows no other owner.
        Err(error)
            if !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) =>
        {
            return Err(error);
        }
        _ => {}
    }
    if there.is_symlink() {
        Ok(())
    } else {
        fs::set_permissions(target, fs::metadata(source)?.permissions())
    }
}

fn is_opaque(directory: &Path) -> bool {
    let mut value = [0; 1];
    OPAQUE.iter().any(|name| {
        getxattr(directory, *name, &mut value).is_ok_and(|length| length == 1 && value == *b"y")
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, setxattr};

    use super::*;

    #[test]
    fn the_upper_layer_hides_and_removes() {
        let home = tempfile::tempdir().unwrap();
        let (low, high) = (home.path().join("low"), home.path().join("high"));
        for path in ["low/a/old", "low/b", "low/c/gone", "high/a", "high/c"] {
            fs::create_dir_all(home.path().join(path)).unwrap();
        }
        for path in ["low/file", "low/b/kept", "low/dead", "high/c/new"] {
            fs::write(home.path().join(path), path).unwrap();
        }
        fs::write(high.join("file"), "above").unwrap();
        symlink("/etc/passwd", high.join("b-link")).unwrap();
        let device = FileType::CharacterDevice;
        mknodat(CWD, high.join("dead"), device, Mode::empty(), 0).unwrap();
        setxattr(high.join("c"), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();

        let copy = copied(&[low.clone(), high.clone()], &home.path().join("upper")).unwrap();
        let read = |path: &str| fs::read_to_string(copy.join(path)).ok();
        assert_eq!(read("file").as_deref(), Some("above"));
        assert_eq!(read("b/kept").as_deref(), Some("low/b/kept"));
        assert_eq!(read("c/new").as_deref(), Some("high/c/new"));
        assert!(copy.join("a/old").is_dir() && !copy.join("c/gone").exists());
        assert!(!copy.join("dead").exists());
        assert_eq!(fs::read_link(copy.join("b-link")).unwrap(), Path::new("/etc/passwd"));

        fs::write(copy.join("mine"), "").unwrap();
        let again = copied(&[low.clone(), high], &home.path().join("upper")).unwrap();
        assert!(again.join("mine").exists(), "what a container wrote stays");
        let other = copied(&[low], &home.path().join("upper")).unwrap();
        assert!(!other.join("mine").exists() && other.join("dead").exists());
    }
}
