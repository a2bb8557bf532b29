//! Files of some namespaces only. The store finds the containers of a namespace by their names, and
//! most have the namespace's name. The others are noted here, below the store's directory, whenever
//! their files are written.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};

use engine::port::{Near, Note};
use model::{Attachment, ContainerId, Result};

use super::{Names, PLACE, failed};

/// Below the store's directory: a directory for each namespace, with a file for each container in
/// it that is called otherwise.
const OTHERS: &str = "names/others";

impl Names {
    /// The name of the namespace at `path`, and the containers in it that have another name, or may
    /// have left it.
    pub fn named_with(&self, path: &Path) -> Option<(String, BTreeSet<ContainerId>)> {
        let name = self.name_of(path)?;
        let mut containers = self.others(name);
        containers.extend(name.parse());
        Some((name.to_owned(), containers))
    }

    /// As [`Names::write`], for the namespaces of `near`; no effect where none has a name.
    ///
    /// # Errors
    /// Of the file system. Everything else is done all the same.
    pub fn write_near(&self, path: &Path, near: &dyn Fn() -> Result<Near>) -> Result<Vec<Note>> {
        if self.name_of(path).is_none() && !self.root.join(PLACE).exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock_directory()?;
        let near = near()?;
        let mut notes = Vec::new();
        let mut failure = Ok(());
        let groups = self.groups(&near.records);
        for name in &near.namespaces {
            let members = groups.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            failure = failure.and(self.note_others(name, members));
            failure = failure.and(match members {
                [] => self.remove(name),
                [..] => self.write_one(name, members, &near.records, &mut notes),
            });
        }
        self.leave_place();
        failure.map(|()| notes)
    }

    /// The containers in the namespace that are not called as it is, as they were noted last.
    fn others(&self, name: &str) -> BTreeSet<ContainerId> {
        let entries = fs::read_dir(self.place_of(name)).into_iter().flatten();
        let names =
            entries.filter_map(IoResult::ok).filter_map(|it| it.file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// Notes which containers are in the namespace that are not called as it is.
    pub(super) fn note_others(&self, name: &str, members: &[&Attachment]) -> Result<()> {
        let called = members.iter().map(|member| member.sandbox_name());
        let others: BTreeSet<_> =
            called.filter(|container| container.as_str() != name).cloned().collect();
        let known = self.others(name);
        if others == known {
            return Ok(());
        }
        let place = self.place_of(name);
        fs::create_dir_all(&place).map_err(|cause| failed("making", &place, cause))?;
        for other in others.difference(&known) {
            let path = place.join(other.as_str());
            fs::write(&path, "").map_err(|cause| failed("writing", &path, cause))?;
        }
        for gone in known.difference(&others) {
            let path = place.join(gone.as_str());
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != ErrorKind::NotFound => {
                    return Err(failed("removing", &path, cause));
                }
                Ok(()) | Err(_) => {}
            }
        }
        // One that is not empty stays.
        let _ = fs::remove_dir(&place);
        Ok(())
    }

    fn place_of(&self, name: &str) -> PathBuf {
        self.book.join(OTHERS).join(name)
    }
}
