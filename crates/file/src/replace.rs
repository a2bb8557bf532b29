//! Replacing a file or a link in one step: a draft beside it is written, and renamed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Result as IoResult, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::OFlags;

/// Replaces a file in one step: writes `draft`, for this user alone, and renames it. A power cut may lose
/// both.
///
/// # Errors
/// What the system says; the draft is gone then.
pub fn replace(path: &Path, draft: &Path, bytes: &[u8]) -> IoResult<()> {
    replace_with_mode(path, draft, bytes, 0o600)
}

/// As [`replace`], with this mode less the umask, as of open(2).
///
/// # Errors
/// As of [`replace`].
pub fn replace_with_mode(path: &Path, draft: &Path, bytes: &[u8], mode: u32) -> IoResult<()> {
    rename_made(path, draft, || write(draft, bytes, mode).map(drop))
}

/// As [`replace`], with exactly this mode, and on the disk when it returns: a power cut afterwards loses neither the
/// file nor its name, and one before leaves the old file.
///
/// # Errors
/// As of [`replace`].
pub fn replace_durably(path: &Path, draft: &Path, bytes: &[u8], mode: u32) -> IoResult<()> {
    rename_made(path, draft, || {
        let file = write(draft, bytes, mode)?;
        // A umask, or a draft that a killed process left, may have made it another.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    })?;
    sync_directory_of(path)
}

/// As [`replace`], by a draft that is a new file: in a directory that all users can write, another user may have made
/// one of that name. The file is on the disk before it replaces the old one; its name need not be, which
/// [`sync_directory_of`] ensures.
///
/// # Errors
/// As of [`replace`].
pub fn replace_by_new(path: &Path, draft: &Path, bytes: &[u8]) -> IoResult<()> {
    remove(draft)?;
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(draft)?;
    rename_made(path, draft, || file.write_all(bytes).and_then(|()| file.sync_all()))
}

/// Replaces a file or a link by a symbolic link to `target` in one step. A power cut may lose both.
///
/// # Errors
/// As of [`replace`].
pub fn replace_link(path: &Path, draft: &Path, target: &Path) -> IoResult<()> {
    remove(draft)?;
    rename_made(path, draft, || symlink(target, draft))
}

/// Writes the names in the directory of `path` to the disk.
///
/// # Errors
/// What the system says: not every file system can, and not every user may read the directory.
pub fn sync_directory_of(path: &Path) -> IoResult<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write(draft: &Path, bytes: &[u8], mode: u32) -> IoResult<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(draft)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn rename_made(path: &Path, draft: &Path, make: impl FnOnce() -> IoResult<()>) -> IoResult<()> {
    make().and_then(|()| fs::rename(draft, path)).inspect_err(|_| drop(fs::remove_file(draft)))
}

fn remove(draft: &Path) -> IoResult<()> {
    match fs::remove_file(draft) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn a_file_is_replaced_in_one_step() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft] = ["one", "draft"].map(|name| root.path().join(name));
        replace(&path, &draft, b"first").unwrap();
        replace(&path, &draft, b"2").unwrap();
        assert_eq!(read(&path, 9).unwrap(), b"2");
        std::os::unix::fs::symlink(&path, &draft).unwrap();
        assert!(replace(&path, &draft, b"3").is_err(), "a link is not followed");
        assert_eq!((read(&path, 9).unwrap(), draft.exists()), (b"2".to_vec(), false));
        assert!(replace(root.path(), &draft, b"3").is_err() && !draft.exists());
    }

    #[test]
    fn a_durable_file_has_its_mode_whatever_its_draft_was() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft] = ["one", "draft"].map(|name| root.path().join(name));
        fs::write(&draft, "what a killed process left").unwrap();
        fs::set_permissions(&draft, Permissions::from_mode(0o666)).unwrap();
        replace_durably(&path, &draft, b"2", 0o644).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!((read(&path, 9).unwrap(), draft.exists()), (b"2".to_vec(), false));
        assert!(replace_durably(root.path(), &draft, b"3", 0o600).is_err() && !draft.exists());
    }

    #[test]
    fn a_new_draft_takes_the_place_of_one_of_another_user() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft, other] = ["one", "draft", "other"].map(|name| root.path().join(name));
        fs::write(&other, "theirs").unwrap();
        fs::hard_link(&other, &draft).unwrap();
        replace_by_new(&path, &draft, b"1").unwrap();
        assert_eq!(
            (read(&path, 9).unwrap(), read(&other, 9).unwrap()),
            (b"1".into(), b"theirs".into())
        );
        symlink(&other, &draft).unwrap();
        replace_by_new(&path, &draft, b"2").unwrap();
        assert_eq!(
            (read(&path, 9).unwrap(), read(&other, 9).unwrap()),
            (b"2".into(), b"theirs".into())
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(replace_by_new(root.path(), &draft, b"3").is_err() && !draft.exists());
    }

    #[test]
    fn a_link_is_replaced_in_one_step() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft] = ["one", "draft"].map(|name| root.path().join(name));
        fs::write(&draft, "what a killed process left").unwrap();
        for target in ["first", "second"] {
            replace_link(&path, &draft, Path::new(target)).unwrap();
            assert_eq!(fs::read_link(&path).unwrap(), Path::new(target));
        }
        assert!(replace_link(root.path(), &draft, &path).is_err() && !draft.is_symlink());
    }
}
