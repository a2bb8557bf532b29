//! Notes of processes for each other about plugins, so that a short process neither asks a plugin
//! again for its profile, nor waits for one that is known to be dead.
//!
//! There is a file for each plugin and matter, in a directory of Spoke's that a reboot may empty.
//! Each may be missing, old, or unusable at any time: it only saves work.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::DriverName;
use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest note, in bytes.
const LONGEST: usize = 16 << 10;

/// Most are shorter, in bytes: these are read in one call.
const USUAL: usize = 1 << 10;

/// Where notes are; nowhere by default: then nothing is noted.
#[derive(Debug, Default)]
pub(super) struct Notes {
    folder: Option<PathBuf>,
}

/// The matter of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// The plugin's answers when it was activated.
    Manifest,
    /// That it does not answer.
    Silence,
}

impl Matter {
    fn suffix(self) -> &'static str {
        match self {
            Matter::Manifest => "manifest",
            Matter::Silence => "silence",
        }
    }
}

impl Notes {
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// The note, if there is one that can be read.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &DriverName, matter: Matter) -> Option<T> {
        let text = text(&self.path(name, matter)?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Leaves a note instead of the one that exists. Where that cannot be, there is none.
    pub(super) fn write(&self, name: &DriverName, matter: Matter, note: &impl Serialize) {
        let Some(path) = self.path(name, matter) else { return };
        match serde_json::to_vec(note) {
            Ok(text) if text.len() <= LONGEST && replace(&path, &text).is_ok() => {}
            _ => drop(fs::remove_file(path)),
        }
    }

    pub(super) fn remove(&self, name: &DriverName, matter: Matter) {
        if let Some(path) = self.path(name, matter) {
            // Mostly there is none; an old note only costs a request.
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, name: &DriverName, matter: Matter) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{name}.{}", matter.suffix())))
    }
}

/// Milliseconds since 1970: processes have no other clock in common that continues in suspend. Who
/// compares with it must be prepared for its being set.
pub(super) fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn text(path: &Path) -> io::Result<Vec<u8>> {
    // Whatever stands there instead of a file is not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut text = Vec::with_capacity(USUAL);
    file.take(LONGEST as u64 + 1).read_to_end(&mut text)?;
    match text.len() <= LONGEST {
        true => Ok(text),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Atomically for readers.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let count = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("{}.{count}.new", std::process::id()));
    match file::replace(path, &draft, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Another program makes its parent.
            let made = fs::DirBuilder::new().mode(0o700).create(draft.parent().ok_or(error)?);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => file::replace(path, &draft, text),
            }
        }
        replaced => replaced,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn notes_are_read_again_and_what_is_none_is_passed_over() {
        let folder = TempDir::new().unwrap();
        let (notes, name) = (Notes::at(folder.path().join("notes")), "weave".parse().unwrap());
        let read = |matter| notes.read::<String>(&name, matter);
        assert_eq!(read(Matter::Silence), None);
        notes.write(&name, Matter::Silence, &"refused");
        assert_eq!(read(Matter::Silence).as_deref(), Some("refused"));
        assert_eq!(read(Matter::Manifest), None);
        let path = folder.path().join("notes/weave.silence");
        for bad in [&b""[..], b"{", b"\xff", b"12", &[b' '; LONGEST + 2]] {
            fs::write(&path, bad).unwrap();
            assert_eq!(read(Matter::Silence), None);
        }
        notes.write(&name, Matter::Silence, &"x".repeat(LONGEST));
        assert!(!path.exists());
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(read(Matter::Silence), None);
        notes.write(&name, Matter::Silence, &"again");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        notes.remove(&name, Matter::Silence);
        assert_eq!(fs::read_dir(folder.path().join("notes")).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_noted_nowhere() {
        let (notes, name) = (Notes::default(), "weave".parse().unwrap());
        notes.write(&name, Matter::Silence, &"refused");
        assert_eq!(notes.read::<String>(&name, Matter::Silence), None);
        notes.remove(&name, Matter::Silence);
    }
}
