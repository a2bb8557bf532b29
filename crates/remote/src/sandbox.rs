//! The sandbox of a driver's call (`SandboxKey`): a path of the form of Docker's own, as drivers
//! refuse any other.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use model::{Error, Result};

use super::Remote;
use super::undo_log::{LogFile, Undo};

/// So many hexadecimal digits are a name there, the first ones of a sandbox's id in Docker.
const DIGITS: usize = 12;

impl Remote {
    /// Names the namespace at `path` as Docker names sandboxes, and writes the name to the
    /// endpoint's log file. The link exists from [`make`] on until no Leave is in the log file any
    /// more. A path that has such a name already, as Docker Engine's have, keeps it.
    pub(super) fn name_sandbox(
        &self,
        log_file: &mut LogFile,
        path: &Path,
        endpoint: &str,
    ) -> PathBuf {
        let directory = &self.settings.sandboxes;
        if is_name(path.file_name()) && path.parent() == Some(directory) {
            return path.to_owned();
        }
        let link = directory.join(endpoint.get(..DIGITS).unwrap_or(endpoint));
        let before = log_file.record.sandbox.replace(link.clone());
        if let Some(before) = before.filter(|before| *before != link) {
            remove(&before);
        }
        link
    }
}

/// Takes the name away that the endpoint's sandbox had, unless the endpoint is still in it. The log file is
/// not saved.
pub(super) fn unname(log_file: &mut LogFile) {
    if !log_file.holds(|undo| matches!(undo, Undo::Leave(..)))
        && let Some(link) = log_file.record.sandbox.take()
    {
        remove(&link);
    }
}

/// Makes the link to the namespace. Fails with [`model::Kind::Conflict`] where something else than
/// a link of Spoke's is in its place.
pub(super) fn make(link: &Path, path: &Path) -> Result<()> {
    if link == path {
        return Ok(());
    }
    let failed = |error| Error::os(format!("naming the sandbox {}", link.display()), error);
    match put(link, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        done => return done.map_err(failed),
    }
    match fs::read_link(link) {
        Ok(leads) if leads == path => Ok(()),
        // Of an endpoint of the same identity that got no Leave.
        Ok(_) => {
            remove(link);
            put(link, path).map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => put(link, path).map_err(failed),
        Err(_) => Err(Error::conflict(format!(
            "{} is no link of Spoke's: remove it, or name another directory in [remote] sandboxes",
            link.display()
        ))),
    }
}

fn put(link: &Path, path: &Path) -> io::Result<()> {
    match symlink(path, link) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = link.parent().unwrap_or(Path::new("/"));
            // As Docker makes it: drivers need not be root.
            DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
            symlink(path, link)
        }
        done => done,
    }
}

/// Only a link with a name of Spoke's is removed, whatever a log file says.
fn remove(link: &Path) {
    let is_link = || fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink());
    if is_name(link.file_name()) && is_link() {
        // Another process may have removed it; one that stays leads to no namespace.
        let _ = fs::remove_file(link);
    }
}

fn is_name(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| {
        let digits = name.as_encoded_bytes();
        digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_once_and_replaced_where_it_leads_elsewhere() {
        let there = tempfile::tempdir().unwrap();
        let link = there.path().join("docker/netns/0123456789ab");
        for path in ["/run/netns/one", "/run/netns/one", "/proc/1/ns/net"] {
            make(&link, Path::new(path)).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(path));
        }
        remove(&link);
        assert!(fs::symlink_metadata(&link).is_err());
        remove(&link);
        make(&link, &link).unwrap();
        assert!(fs::symlink_metadata(&link).is_err());
    }

    #[test]
    fn what_is_foreign_stays() {
        let there = tempfile::tempdir().unwrap();
        let file = there.path().join("0123456789ab");
        fs::write(&file, "").unwrap();
        let error = make(&file, Path::new("/run/netns/one")).unwrap_err();
        assert_eq!(error.kind(), model::Kind::Conflict);
        remove(&file);
        assert!(file.is_file());
        let other = there.path().join("default");
        symlink("/run/netns/one", &other).unwrap();
        remove(&other);
        assert!(other.is_symlink());
    }
}
