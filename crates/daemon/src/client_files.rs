//! Files that a client of the daemon names. A client of Docker need not be root, and a list of
//! plugins says what root executes: only root may have written it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::{Error, Kind, Result};

/// The directory of lists that the host's administrator keeps, with any owner.
const LISTS: &str = "/etc/cni/net.d";

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The file itself, without links on the way: only root can replace it, or put one beside it.
///
/// # Errors
/// [`model::Kind::Invalid`] where it is no regular file; [`model::Kind::Denied`] where another user
/// than root could have written it, or put it there.
pub(super) fn file(named: &Path) -> Result<PathBuf> {
    let failed = |cause| Error::os(named.display().to_string(), cause);
    if !fs::metadata(named).map_err(failed)?.is_file() {
        return Err(Error::invalid(format!("{} is no regular file", named.display())));
    }
    if named.starts_with(LISTS) {
        return Ok(named.to_owned());
    }
    let real = named.canonicalize().map_err(failed)?;
    for (depth, part) in real.ancestors().enumerate() {
        let there = fs::metadata(part).map_err(failed)?;
        // In a sticky directory others cannot replace root's files. Beside a list they could add
        // plugins to it.
        let is_kept = depth > 1 && there.mode() & STICKY != 0;
        if there.uid() != 0 || (there.mode() & OTHERS_WRITE != 0 && !is_kept) {
            let what = format!(
                "others than root can write {}: a list of plugins for the daemon is root's alone, \
                 or in {LISTS}",
                part.display()
            );
            return Err(Error::new(Kind::Denied, what));
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn only_root_s_files_are_trusted() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let mode = |name: &str, mode| {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let kind = |name: &str| file(&path(name)).map_err(|error| error.kind());
        for name in ["good", "shared", "theirs"] {
            fs::write(path(name), "{}").unwrap();
        }
        mode("shared", 0o664);
        chown(path("theirs"), Some(1000), None).unwrap();
        symlink(path("theirs"), path("link")).unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::write(path("open/list"), "{}").unwrap();
        mode("open", 0o777);
        assert_eq!(kind("good"), path("good").canonicalize().map_err(|_| Kind::Bug));
        for name in ["shared", "theirs", "link", "open/list"] {
            assert_eq!(kind(name), Err(Kind::Denied), "{name}");
        }
        assert_eq!(kind("open"), Err(Kind::Invalid));
        assert_eq!(kind("none"), Err(Kind::Kernel));
        mode("open", 0o1777);
        assert_eq!(kind("open/list"), Err(Kind::Denied), "plugins could be put beside it");
        fs::create_dir(path("open/own")).unwrap();
        fs::write(path("open/own/list"), "{}").unwrap();
        assert!(kind("open/own/list").is_ok());
        assert_eq!(file(Path::new("/dev/zero")).unwrap_err().kind(), Kind::Invalid);
    }
}
