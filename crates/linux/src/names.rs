//! Hosts files and resolver configurations of sandboxes, where `ip netns exec` finds them:
//! `/etc/netns/NAME/hosts` and `/etc/netns/NAME/resolv.conf`, which it mounts over the host's
//! (ip-netns(8)).
//!
//! The records are the intent, and the files derive from them alone: after a crash the next call
//! writes what is missing and removes what is too much. A file is Spoke's as long as it says so and
//! is unchanged; every other one belongs to another program and stays.

mod near;
mod page;
mod resolver;
mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Result as IoResult};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::port::{Note, Presence, Stray};
use model::{Attachment, Error, Result};

use sha2::{Digest, Sha256};

use page::{Hand, Written};
pub(crate) use resolver::Resolver;

/// Where `ip netns` keeps namespaces by name; many systems have it under a second path.
const NAMED: [&str; 2] = ["run/netns", "var/run/netns"];

/// The directory with the files of each namespace.
const PLACE: &str = "etc/netns";

const HOSTS: &str = "hosts";
const RESOLVER: &str = "resolv.conf";

/// How the name of a file begins that is not in its place yet. No namespace is called so.
const FRESH: &str = ".spoke.";

/// Below the store's directory: a writer holds this lock.
const LOCK: &str = "names/lock";

/// A directory of Spoke's has the sticky bit, which nothing else sets there: an empty one without
/// it stays.
const OURS: u32 = 0o1755;
const STICKY: u32 = 0o1000;

/// How often it is asked whose turn it is, and how many times.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const POLLS: u32 = 4000;

/// The files of this host's named namespaces.
#[derive(Clone, Debug)]
pub struct Names {
    root: PathBuf,
    book: PathBuf,
}

impl Names {
    /// The names in the file system at `root`, for the store with the runtime directory `book`.
    pub fn new(root: impl Into<PathBuf>, book: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), book: book.into() }
    }

    /// The name of the namespace at `path`, where it has one.
    pub fn name_of<'p>(&self, path: &'p Path) -> Option<&'p str> {
        let rest = NAMED.iter().find_map(|named| path.strip_prefix(self.root.join(named)).ok())?;
        let name = rest.to_str()?;
        let is_name = !name.is_empty()
            && !name.starts_with('.')
            && !name.contains('/')
            && !name.chars().any(char::is_control);
        is_name.then_some(name)
    }

    /// Writes what the records say, which are complete attachments, and removes what they do not.
    ///
    /// # Errors
    /// Of the file system. Everything else is done all the same.
    pub fn write(&self, records: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<Note>> {
        // Most hosts connect no sandbox: nothing is made there, not even the lock.
        if self.there()?.is_empty() && records()?.is_empty() {
            return Ok(Vec::new());
        }
        let _lock = self.lock_directory()?;
        let records = records()?;
        let mut notes = Vec::new();
        let mut failure = Ok(());
        let groups = self.groups(&records);
        for name in self.there()?.iter().filter(|name| !groups.contains_key(name.as_str())) {
            failure = failure.and(self.remove(name)).and(self.note_others(name, &[]));
        }
        for (name, members) in &groups {
            failure = failure.and(self.note_others(name, members));
            failure = failure.and(self.write_one(name, members, &records, &mut notes));
        }
        self.leave_place();
        failure.map(|()| notes)
    }

    /// The namespaces with files of Spoke's and without a record. `records` is called after the
    /// files were read.
    pub fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let mut there = self.there()?;
        there.retain(|name| {
            let (directory, hand) = (self.directory(name), self.hand());
            let is_ours =
                |file: &&'static str| page::is_ours(&directory.join(file), &hand).unwrap_or(false);
            [HOSTS, RESOLVER].iter().any(is_ours)
        });
        if there.is_empty() {
            return Ok(Vec::new());
        }
        let records = records()?;
        let connected = records.iter().filter(|record| record.gateway_role.is_some());
        let wanted: BTreeSet<&str> = connected.filter_map(|record| self.named(record)).collect();
        there.retain(|name| !wanted.contains(name.as_str()));
        Ok(there.into_iter().map(|name| (Stray::Names(name), Presence::Gone)).collect())
    }

    /// Whether the record is one by which the namespace has files.
    pub fn is_for(&self, name: &str, record: &Attachment) -> bool {
        record.gateway_role.is_some() && self.named(record) == Some(name)
    }

    /// Removes those of one namespace.
    pub fn forget(&self, name: &str) -> Result<()> {
        let _lock = self.lock_directory()?;
        self.remove(name)?;
        self.leave_place();
        Ok(())
    }

    fn named<'r>(&self, record: &'r Attachment) -> Option<&'r str> {
        self.name_of(&record.sandbox.as_ref()?.path)
    }

    /// The attachments of each namespace that has a name, first those that can be its default
    /// gateway. Attachments of an earlier namespace of the same name are left out.
    fn groups<'r>(&self, records: &'r [Attachment]) -> BTreeMap<&'r str, Vec<&'r Attachment>> {
        let mut groups: BTreeMap<&str, Vec<&Attachment>> = BTreeMap::new();
        for record in records {
            if let Some(name) = self.named(record) {
                groups.entry(name).or_default().push(record);
            }
        }
        for members in groups.values_mut() {
            let priority = |member: &Attachment| {
                member.gateway_role.as_ref().map(|gateway_role| gateway_role.priority)
            };
            members.sort_by_key(|member| (Reverse(priority(member)), &member.id));
            let path = members.first().and_then(|member| member.sandbox.as_ref());
            let now = path.and_then(|sandbox| fs::metadata(&sandbox.path).ok());
            let is_now = |member: &&Attachment| {
                let inode = member.sandbox.as_ref().map(|sandbox| sandbox.inode);
                now.as_ref().map(MetadataExt::ino) == inode
            };
            if members.iter().any(is_now) {
                members.retain(is_now);
            }
        }
        groups
    }

    fn write_one(
        &self,
        name: &str,
        members: &[&Attachment],
        records: &[Attachment],
        notes: &mut Vec<Note>,
    ) -> Result<()> {
        let mut note = |sentence: String| notes.push(Note { namespace: name.to_owned(), sentence });
        let resolver = Resolver::of(members, &self.root);
        if resolver.is_mute() {
            note(format!(
                "namespace {name} has no name server: this host's are on its own loopback device; --dns \
                 names others"
            ));
        }
        let directory = self.directory(name);
        self.make(&directory)?;
        let files = [(HOSTS, text::hosts(members, records)), (RESOLVER, resolver.text())];
        for (file, body) in files {
            let path = directory.join(file);
            match page::write(&path, &body, &self.hand(), &self.fresh()) {
                Ok(Written::AsWanted) => {}
                Ok(Written::Theirs) => note(format!(
                    "{} is not ours, or was changed since: it stays as it is",
                    path.display()
                )),
                Err(cause) => return Err(failed("writing", &path, cause)),
            }
        }
        Ok(())
    }

    /// The directory of a namespace, and what it is in.
    fn make(&self, directory: &Path) -> Result<()> {
        for path in [self.root.join(PLACE), directory.to_owned()] {
            match DirBuilder::new().mode(OURS).create(&path) {
                Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed("making", &path, cause));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let directory = self.directory(name);
        for file in [HOSTS, RESOLVER] {
            let path = directory.join(file);
            match page::is_ours(&path, &self.hand()) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(cause) => return Err(failed("reading", &path, cause)),
            }
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != ErrorKind::NotFound => {
                    return Err(failed("removing", &path, cause));
                }
                Ok(()) | Err(_) => {}
            }
        }
        leave(&directory);
        Ok(())
    }

    /// Removes what a dead process prepared, and the directory with the last file.
    fn leave_place(&self) {
        // Mostly there is none.
        let _ = fs::remove_file(self.fresh());
        leave(&self.root.join(PLACE));
    }

    fn hand(&self) -> Hand {
        Hand::of(&self.book)
    }

    /// Two books of one host do not prepare the same file.
    fn fresh(&self) -> PathBuf {
        let digest = Sha256::digest(self.book.as_os_str().as_bytes());
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.root.join(PLACE).join(format!("{FRESH}{hex}"))
    }

    /// The names of directories. Links lead to shared directories, or to other programs'.
    fn there(&self) -> Result<Vec<String>> {
        let place = self.root.join(PLACE);
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed("reading", &place, cause)),
        };
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let named = entries.filter_map(IoResult::ok).filter(is_directory);
        Ok(named.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.root.join(PLACE).join(name)
    }

    /// No two write at once: the one that comes last knows what the others did.
    fn lock_directory(&self) -> Result<File> {
        let path = self.book.join(LOCK);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|cause| failed("making", parent, cause))?;
        }
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(|cause| failed("opening", &path, cause))?;
        for _ in 0..POLLS {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
                Err(TryLockError::Error(cause)) => {
                    return Err(failed("locking", &path, cause));
                }
            }
        }
        Err(Error::try_again(format!(
            "another process keeps {}, and writes below /etc/netns",
            path.display()
        )))
    }
}

/// Removes an empty directory of Spoke's.
fn leave(directory: &Path) {
    let is_ours = fs::symlink_metadata(directory).is_ok_and(|it| it.mode() & STICKY != 0);
    if is_ours {
        // Other files in it keep it.
        let _ = fs::remove_dir(directory);
    }
}

fn failed(doing: &str, path: &Path, cause: std::io::Error) -> Error {
    Error::os(format!("{doing} {}", path.display()), cause)
}

#[cfg(test)]
mod tests;
