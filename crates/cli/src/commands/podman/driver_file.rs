//! The program's name among netavark's plugins.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::podman::DRIVER;
use model::{Error, Result};

/// The owner of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Missing,
    /// The running program.
    Ours,
    /// A link to another program of the same name, or to one that is gone.
    Older,
    Foreign,
}

/// A file named `spoke` in a directory of plugins.
pub(super) struct DriverFile {
    directory: PathBuf,
    path: PathBuf,
}

impl DriverFile {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), path: directory.join(DRIVER) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn state(&self, executable: &Path) -> Result<State> {
        let doing = |cause| Error::os(format!("looking at {}", self.path.display()), cause);
        let there = match fs::symlink_metadata(&self.path) {
            Err(cause) if is_absent(cause.kind()) => return Ok(State::Missing),
            there => there.map_err(doing)?,
        };
        let is_this = match (fs::canonicalize(&self.path), fs::canonicalize(executable)) {
            (Ok(there), Ok(executable)) => there == executable,
            (_, _) => false,
        };
        Ok(match (is_this, there.is_symlink()) {
            (true, _) => State::Ours,
            (false, true) if self.leads_to_a_namesake(executable) => State::Older,
            (false, _) => State::Foreign,
        })
    }

    /// Whether the link leads to a program of the same name as this one.
    fn leads_to_a_namesake(&self, executable: &Path) -> bool {
        let target = fs::read_link(&self.path).unwrap_or_default();
        let name = target.file_name();
        name.is_some_and(|name| name == DRIVER || Some(name) == executable.file_name())
    }

    /// Makes the link, in one step also where there is one.
    pub(super) fn make(&self, executable: &Path) -> Result<()> {
        let new = self.directory.join(format!(".{DRIVER}.new"));
        let made = fs::create_dir_all(&self.directory)
            .and_then(|()| file::replace_link(&self.path, &new, executable));
        made.map_err(|cause| Error::os(format!("making {}", self.path.display()), cause))
    }

    /// Removes the name; the directory too, if nothing else is in it.
    pub(super) fn remove(&self) -> Result<()> {
        fs::remove_file(&self.path)
            .map_err(|cause| Error::os(format!("removing {}", self.path.display()), cause))?;
        // Other files in it keep it.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_is_renewed_and_goes() {
        let root = tempfile::tempdir().unwrap();
        let program = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            path
        };
        let (old, new) = (program("old/spoke"), program("new/spoke"));
        let place = DriverFile::new(&root.path().join("plugins"));
        assert_eq!(place.state(&new).unwrap(), State::Missing);
        place.make(&old).unwrap();
        assert_eq!(place.state(&old).unwrap(), State::Ours);
        assert_eq!(place.state(&new).unwrap(), State::Older);
        place.make(&new).unwrap();
        assert_eq!(place.state(&new).unwrap(), State::Ours);
        fs::remove_file(&new).unwrap();
        assert_eq!(place.state(&new).unwrap(), State::Older, "it leads nowhere");
        place.remove().unwrap();
        assert!(!place.directory().exists());
        fs::create_dir_all(place.directory()).unwrap();
        fs::write(place.path(), "theirs").unwrap();
        assert_eq!(place.state(&old).unwrap(), State::Foreign);
    }
}
