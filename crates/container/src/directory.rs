//! The state of a container on disk. The directory is the container, for every process that reads it.
//!
//! | file | |
//! |---|---|
//! | `lock` | held (flock(2)) while a container is being started, by the starter and by the new init |
//! | `running` | the init, and the parameters of calls |
//! | `ended` | how the main process ended, and its last output, written by the init |
//! | `short-of-memory` | exists where the kernel ended processes because of its cgroup's limit |
//! | `cgroups` | the cgroups that were made for it |
//! | `log`, `log.1` | the main process's output |

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Error, Process, Result};
use netlink::process;
use rustix::fs::FlockOperation;

use crate::ending::Ending;
use crate::privileges::Privileges;

/// How long another one's start is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Records are some lines.
const LONGEST: usize = 16 * 1024;
/// See [`Directory::was_short`].
const SHORT: &str = "short-of-memory";

/// A container's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory(PathBuf);

/// A container that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) init: Process,
    /// Which run of the kernel that was.
    pub(crate) boot: String,
    pub(crate) privileges: Privileges,
    /// The runtime that it was started with, and its name there; `None` for ourselves.
    pub(crate) runtime: Option<(PathBuf, String)>,
}

impl Directory {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Makes it, readable by its owner only.
    pub(crate) fn make(&self) -> Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.and_then(|()| fs::set_permissions(&self.0, Permissions::from_mode(0o700)))
            .map_err(|error| Error::os(format!("making {}", self.0.display()), error))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Excludes other starters for as long as what is returned, or a copy of it, is open; `None` if
    /// there is no directory.
    pub(crate) fn lock(&self) -> Result<Option<OwnedFd>> {
        let path = self.path("lock");
        let failed = |error| Error::os(format!("locking {}", path.display()), error);
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let how = FlockOperation::NonBlockingLockExclusive;
        match file::lock_until(&file, how, Instant::now() + TIMEOUT).map_err(failed)? {
            true => Ok(Some(file.into())),
            false => {
                Err(Error::try_again(format!("another start holds {}; try again", path.display())))
            }
        }
    }

    /// The container that was started here last.
    pub(crate) fn record(&self) -> Result<Option<Record>> {
        Ok(self.read("running")?.and_then(|text| Record::of_text(&text)))
    }

    /// Writes the record so that it exists as a whole or not at all.
    pub(crate) fn write_record(&self, record: &Record) -> Result<()> {
        let (path, new) = (self.path("running"), self.path("running.new"));
        let written = file::replace(&path, &new, record.to_text().as_bytes());
        written.map_err(|error| Error::os(format!("writing {}", path.display()), error))
    }

    /// Writes paths, a line each, into the file `name`.
    pub(crate) fn write_list<'p>(
        &self,
        name: &str,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Result<()> {
        let path = self.path(name);
        let text: String = paths.map(|path| format!("{}\n", path.display())).collect();
        fs::write(&path, text)
            .map_err(|error| Error::os(format!("writing {}", path.display()), error))
    }

    /// The list that [`Directory::write_list`] wrote; empty if there is none.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<PathBuf>> {
        let text = self.read(name)?.unwrap_or_default();
        Ok(text.lines().map(PathBuf::from).collect())
    }

    /// Adds `lines` to the log.
    pub(crate) fn log(&self, lines: &[String]) -> Result<()> {
        let path = self.path("log");
        let failed = |error| Error::os(format!("writing {}", path.display()), error);
        if lines.is_empty() {
            return Ok(());
        }
        let mut text = lines.join("\n");
        text.push('\n');
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        opened.and_then(|mut log| log.write_all(text.as_bytes())).map_err(failed)
    }

    /// Removes the file `name`.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::os(format!("removing {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes what a container that has ended, or never began, left here.
    pub(crate) fn clear(&self) -> Result<()> {
        for name in ["running", "running.new", "ended", SHORT] {
            self.remove(name)?;
        }
        Ok(())
    }

    /// Where the init is to write how it ended.
    pub(crate) fn new_ended(&self) -> Result<File> {
        let path = self.path("ended");
        let opened = OpenOptions::new().create(true).write(true).truncate(true).open(&path);
        opened.map_err(|error| Error::os(format!("making {}", path.display()), error))
    }

    /// How it ended, as far as that was written, and the main process's last output.
    pub(crate) fn ended(&self) -> Result<(Ending, String)> {
        let text = self.read("ended")?.unwrap_or_default();
        let (ending, words) = Ending::and_words(&text);
        Ok((ending, words.to_owned()))
    }

    /// Remembers that the kernel ended processes of it because its memory was used up.
    pub(crate) fn was_short(&self) -> Result<()> {
        let path = self.path(SHORT);
        fs::write(&path, "")
            .map_err(|error| Error::os(format!("writing {}", path.display()), error))
    }

    /// Whether [`Directory::was_short`] was called.
    pub(crate) fn is_short(&self) -> Result<bool> {
        Ok(self.read(SHORT)?.is_some())
    }

    fn read(&self, name: &str) -> Result<Option<String>> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => {
                let bytes = bytes.get(..bytes.len().min(LONGEST)).unwrap_or_default();
                Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(Error::os(format!("reading {}", path.display()), error)),
        }
    }
}

impl Record {
    /// Whether it still runs.
    pub(crate) fn is_running(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot) && process::is_running(&self.init)
    }

    fn to_text(&self) -> String {
        let mut text = format!("pid {}\nstart {}\n", self.init.pid, self.init.start);
        let _ = writeln!(text, "boot {}", self.boot);
        if let Some(mask) = self.privileges.capabilities {
            let _ = writeln!(text, "capabilities {mask:x}");
        }
        let _ = writeln!(text, "no-new-privileges {}", self.privileges.no_new_privileges);
        if let Some((program, name)) = &self.runtime {
            let _ = writeln!(text, "runtime {}\nname {name}", program.display());
        }
        text
    }

    /// `None` of anything that [`Record::to_text`] did not write.
    fn of_text(text: &str) -> Option<Self> {
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let capabilities = match value("capabilities") {
            Some(mask) => Some(u64::from_str_radix(mask, 16).ok()?),
            None => None,
        };
        let no_new_privileges = value("no-new-privileges")?.parse().ok()?;
        let runtime = value("runtime").map(PathBuf::from);
        Some(Self {
            init: Process {
                pid: value("pid")?.parse().ok()?,
                start: value("start")?.parse().ok()?,
            },
            boot: value("boot")?.to_owned(),
            privileges: Privileges { capabilities, no_new_privileges },
            runtime: runtime.zip(value("name").map(str::to_owned)),
        })
    }
}

/// Which run of the kernel this is (random(4)).
pub(crate) fn boot() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let read = fs::read_to_string(path);
    let text = read.map_err(|error| Error::os(format!("reading {path}"), error))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            init: process::me().unwrap(),
            boot: boot().unwrap(),
            privileges: Privileges { capabilities: Some(0x1000), no_new_privileges: true },
            runtime: Some(("/usr/sbin/runc".into(), "net".into())),
        }
    }

    #[test]
    fn a_record_is_read_as_written() {
        let home = tempfile::tempdir().unwrap();
        let directory = Directory::new(&home.path().join("a/b"));
        assert_eq!(directory.record().unwrap(), None);
        assert!(directory.lock().unwrap().is_none());
        directory.make().unwrap();
        let bare = Record {
            privileges: Privileges { capabilities: None, no_new_privileges: false },
            runtime: None,
            ..record()
        };
        for record in [record(), bare] {
            directory.write_record(&record).unwrap();
            assert_eq!(directory.record().unwrap(), Some(record));
        }
        directory.clear().unwrap();
        directory.clear().unwrap();
        assert_eq!(directory.record().unwrap(), None);
    }

    #[test]
    fn damage_is_no_record() {
        let text = record().to_text();
        for end in 0..text.len() {
            let cut = Record::of_text(&text[..end]);
            assert!(cut.is_none_or(|cut| cut.boot == record().boot));
        }
        assert_eq!(Record::of_text(&text.replace("pid ", "pid x")), None);
    }

    #[test]
    fn another_boot_is_another_host() {
        assert!(record().is_running());
        assert!(!Record { boot: "before".into(), ..record() }.is_running());
    }
}
