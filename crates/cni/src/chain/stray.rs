//! Parking namespaces that no record speaks of.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use engine::port::{Presence, Stray};
use model::{Attachment, Error, Result};
use netlink::Netns;

use super::Chain;
use super::parking::{self, Parking};
use super::programs::complain;
use crate::runtime::{NetworkList, Programs, Runtime};

/// The usual directories of plugins, where the configured ones are unknown.
const USUAL: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

impl Chain {
    /// Where interfaces are parked that belong to no record: in no container, as one that was
    /// moved into a container is not there any more. `records` is asked after the directory.
    ///
    /// # Errors
    /// Where the directory cannot be read, or the records cannot.
    pub fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let parked = self.parked()?;
        if parked.is_empty() {
            return Ok(Vec::new());
        }
        let records = records()?;
        let known: BTreeSet<OsString> =
            records.iter().map(|record| parking::name(&record.id).into()).collect();
        let unknown = parked.into_iter().filter(|name| !known.contains(name));
        let stray = |name: OsString| Stray::Parking(name.to_string_lossy().into_owned());
        Ok(unknown.map(|name| (stray(name), Presence::Gone)).collect())
    }

    /// Whether an interface of the record's is parked there.
    pub fn is_parked_for(name: &str, record: &Attachment) -> bool {
        parking::name(&record.id) == name
    }

    /// Ends the namespace with what is parked there. Its plugins' DEL is called, where they are
    /// known.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn remove_stray(&self, name: &str) -> Result<()> {
        let path = self.directory.join(Parking::DIRECTORY).join(name);
        let cache = self.cache();
        let made_there = cache.attachments(None)?.into_iter();
        for made in made_there.filter(|made| path.as_os_str() == made.target.netns.as_str()) {
            let Ok(list) = NetworkList::parse(&made.config) else { continue };
            let programs = Programs::new(USUAL.map(PathBuf::from).to_vec(), &complain);
            if let Err(failure) =
                (Runtime { programs: &programs, cache: &cache }).abandon(&list, &made.target)
            {
                let container = &made.target.container;
                (self.report)(&format!("network {}, container {container}: {failure}", list.name));
            }
        }
        Netns::unmake(&path)?;
        self.remove_lock_called(name)
    }

    fn parked(&self) -> Result<Vec<OsString>> {
        let directory = self.directory.join(Parking::DIRECTORY);
        match fs::read_dir(&directory) {
            Ok(entries) => Ok(entries.flatten().map(|entry| entry.file_name()).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::os(format!("reading {}", directory.display()), error)),
        }
    }
}
