//! The plugins' directory, changed one atomic step at a time.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use host::replaced;
use model::{Error, Result};

use super::{Manifest, PROGRAM};

/// The name of the manifest, beside the plugins.
const MANIFEST: &str = ".spoke-manifest.json";

/// A larger manifest is not Spoke's.
const LARGEST: u64 = 1 << 16;

/// The owner of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Missing,
    /// A link to the program beside it.
    Ours,
    Foreign,
}

/// A directory of a runtime's plugins.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory; `true` if it was not there.
    pub(super) fn ensure(&self) -> Result<bool> {
        if self.path.is_dir() {
            return Ok(false);
        }
        fs::create_dir_all(&self.path).map_err(|cause| failed("making", &self.path, cause))?;
        Ok(true)
    }

    pub(super) fn remove_if_empty(&self) -> Result<()> {
        match fs::remove_dir(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            done => done.map_err(|cause| failed("removing", &self.path, cause)),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Result<Entry> {
        let path = self.path.join(name);
        match fs::symlink_metadata(&path) {
            Err(cause) if is_absent(&cause) => Ok(Entry::Missing),
            Err(cause) => Err(failed("looking at", &path, cause)),
            Ok(there) if there.is_dir() => {
                Err(Error::conflict(format!("{} is a directory; remove it", path.display())))
            }
            Ok(there) if there.is_symlink() => {
                let target =
                    fs::read_link(&path).map_err(|cause| failed("reading", &path, cause))?;
                Ok(if target == Path::new(PROGRAM) { Entry::Ours } else { Entry::Foreign })
            }
            Ok(_) => Ok(Entry::Foreign),
        }
    }

    /// Whether the program there is the same as `executable`.
    pub(super) fn is_program(&self, executable: &Path) -> Result<bool> {
        let path = self.path.join(PROGRAM);
        let open = |path: &Path| File::open(path).map_err(|cause| failed("reading", path, cause));
        let there = match fs::metadata(&path) {
            Err(cause) if is_absent(&cause) => return Ok(false),
            Err(cause) => return Err(failed("looking at", &path, cause)),
            Ok(there) => there,
        };
        let ours =
            fs::metadata(executable).map_err(|cause| failed("looking at", executable, cause))?;
        if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) {
            return Ok(true);
        }
        if there.len() != ours.len() || !there.is_file() {
            return Ok(false);
        }
        same(open(&path)?, open(executable)?).map_err(|cause| failed("comparing", &path, cause))
    }

    pub(super) fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.path.join(MANIFEST);
        let text = match file::read(&path, LARGEST) {
            Err(cause) if is_absent(&cause) => return Ok(None),
            text => text.map_err(|cause| {
                file::failed(format!("reading {}, which is not ours", path.display()), cause)
            })?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|cause| {
            Error::invalid(format!("{} is not what Spoke wrote", path.display())).because(cause)
        })
    }

    pub(super) fn remember(&self, manifest: &Manifest) -> Result<()> {
        let path = self.path.join(MANIFEST);
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|cause| Error::bug("writing the manifest").because(cause))?;
        self.replace(MANIFEST, |temporary| {
            fs::write(temporary, &text)?;
            File::open(temporary)?.sync_all()
        })
        .map_err(|cause| failed("writing", &path, cause))?;
        self.sync()
    }

    /// Where what `name` replaced is kept.
    pub(super) fn kept(&self, name: &str) -> PathBuf {
        replaced::kept(&self.path, name)
    }

    pub(super) fn is_kept(&self, name: &str) -> Result<bool> {
        let kept = self.kept(name);
        match fs::symlink_metadata(&kept) {
            Ok(_) => Ok(true),
            Err(cause) if is_absent(&cause) => Ok(false),
            Err(cause) => Err(failed("looking at", &kept, cause)),
        }
    }

    /// Gives the file `name` a second name, so that replacing it loses nothing. A file that was
    /// kept earlier and restored or upgraded since is kept no more.
    pub(super) fn keep(&self, name: &str) -> Result<()> {
        let (path, kept) = (self.path.join(name), self.kept(name));
        let doing = |cause| failed("keeping", &path, cause);
        let kept_directory = self.path.join(replaced::FOLDER);
        fs::create_dir_all(&kept_directory).map_err(doing)?;
        // Users' runtimes execute what is kept, whatever the operator's umask.
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&kept_directory, mode).map_err(doing)?;
        let temporary = kept_directory.join(format!(".{name}.new"));
        remove(&temporary).map_err(doing)?;
        fs::hard_link(&path, &temporary).map_err(doing)?;
        fs::rename(&temporary, &kept).map_err(doing)?;
        // Renaming over another name of the same file does nothing, and leaves both.
        remove(&temporary).map_err(doing)?;
        File::open(&kept_directory).and_then(|directory| directory.sync_all()).map_err(doing)
    }

    /// Copies the program, unless it exists already.
    pub(super) fn place_program(&self, executable: &Path) -> Result<()> {
        let is_link = matches!(self.entry(PROGRAM)?, Entry::Ours);
        if !is_link && self.is_program(executable)? && !self.is_kept_file(PROGRAM)? {
            return Ok(());
        }
        self.replace(PROGRAM, |temporary| {
            fs::copy(executable, temporary)?;
            fs::set_permissions(temporary, fs::Permissions::from_mode(0o755))?;
            File::open(temporary)?.sync_all()
        })
        .map_err(|cause| failed("writing", &self.path.join(PROGRAM), cause))
    }

    /// Whether the name still is the very file that is kept.
    pub(super) fn is_kept_file(&self, name: &str) -> Result<bool> {
        if !self.is_kept(name)? {
            return Ok(false);
        }
        let identity = |path: &Path| {
            let there = fs::symlink_metadata(path);
            there.map(|there| (there.dev(), there.ino())).map_err(|c| failed("looking at", path, c))
        };
        Ok(identity(&self.kept(name))? == identity(&self.path.join(name))?)
    }

    pub(super) fn place_link(&self, name: &str) -> Result<()> {
        if self.entry(name)? == Entry::Ours {
            return Ok(());
        }
        self.replace(name, |temporary| symlink(PROGRAM, temporary))
            .map_err(|cause| failed("linking", &self.path.join(name), cause))
    }

    /// Restores what `name` replaced, or removes it where it replaced nothing.
    pub(super) fn give_back(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        let done = match self.is_kept(name)? {
            true => fs::rename(self.kept(name), &path).and_then(|()| remove(&self.kept(name))),
            false => remove(&path),
        };
        done.map_err(|cause| failed("putting back", &path, cause))
    }

    /// Removes the last traces.
    pub(super) fn forget(&self, with_directory: bool) -> Result<()> {
        let kept = self.path.join(replaced::FOLDER);
        match fs::remove_dir(&kept) {
            Err(cause) if !is_absent(&cause) => return Err(failed("removing", &kept, cause)),
            Ok(()) | Err(_) => {}
        }
        self.sync()?;
        let manifest = self.path.join(MANIFEST);
        remove(&manifest).map_err(|cause| failed("removing", &manifest, cause))?;
        if with_directory { self.remove_if_empty() } else { Ok(()) }
    }

    pub(super) fn sync(&self) -> Result<()> {
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(|cause| failed("syncing", &self.path, cause))
    }

    /// Makes a new file and renames it to `name`, which is never missing meanwhile.
    fn replace(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let temporary = self.path.join(format!(".spoke-new.{}", name.trim_start_matches('.')));
        remove(&temporary)?;
        make(&temporary)?;
        fs::rename(&temporary, self.path.join(name))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if is_absent(&cause) => Ok(()),
        done => done,
    }
}

fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn same(one: File, other: File) -> io::Result<bool> {
    use std::io::{BufRead, BufReader};
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let length = a.len().min(b.len());
        if a[..length] != b[..length] || a.is_empty() != b.is_empty() {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
        one.consume(length);
        other.consume(length);
    }
}

fn failed(doing: &str, path: &Path, cause: io::Error) -> Error {
    Error::os(format!("{doing} {}", path.display()), cause)
}
