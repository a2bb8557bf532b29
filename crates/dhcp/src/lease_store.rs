//! Leases on disk, below the runtime directory: a file for each, discarded at a reboot.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{Error, Ipv4Net, Mac, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{Subject, Terms, Time};

/// More leases than this are not kept.
pub(crate) const MOST: usize = 8192;
/// No lease is longer, in bytes.
const LONGEST: u64 = 64 << 10;
/// The suffix of an unfinished file.
const UNFINISHED: &str = "new";
/// The lock file.
const LOCK: &str = "lock";

/// A lease, with all that is needed to continue with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The owner of the lease.
    pub subject: Subject,
    /// The hardware address of its link.
    pub mac: Mac,
    /// The server's terms.
    pub terms: Terms,
    /// When.
    pub since: Time,
    /// The first address: the one in the answer to the caller.
    pub first: Ipv4Net,
    /// Whether the terms ended by themselves, or are not yet on the link again since they did.
    #[serde(default)]
    pub lost: bool,
}

#[derive(Serialize, Deserialize)]
struct Written {
    boot: String,
    lease: Lease,
}

/// What every layout of a lease says.
#[derive(Deserialize)]
struct OfBoot {
    boot: String,
}

/// What is in the directory.
#[derive(Debug, Default)]
pub struct Leases {
    /// The leases of this boot, each with its name here.
    pub read: Vec<(String, Lease)>,
    /// Why others are not continued. Their files stay.
    pub unread: Vec<Error>,
}

/// The directory of them, for one process at a time.
#[derive(Debug)]
pub struct LeaseStore {
    directory: PathBuf,
    boot: String,
    _lock: File,
}

impl LeaseStore {
    /// Opens the directory, which is made where it is missing. `boot` is another text after every
    /// boot.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where another process has it open; where it cannot be made.
    pub fn open(directory: &Path, boot: String) -> Result<Self> {
        let doing = |cause: io::Error| {
            Error::os(format!("opening the leases in {}", directory.display()), cause)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(doing)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(directory.join(LOCK))
            .map_err(doing)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::conflict(format!(
                "another process keeps the leases in {} alive",
                directory.display()
            ))
        })?;
        Ok(Self { directory: directory.to_owned(), boot, _lock: lock })
    }

    /// The leases that exist. Those of an earlier boot are removed, and what a killed process left
    /// unfinished. What cannot be read stays: it may be a lease all the same.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn leases(&self) -> Result<Leases> {
        let entries = fs::read_dir(&self.directory).map_err(|cause| self.failed(cause))?;
        let mut leases = Leases::default();
        for entry in entries.take(2 * MOST) {
            let entry = entry.map_err(|cause| self.failed(cause))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if name == LOCK || !is_file {
                continue;
            }
            let read = if name == UNFINISHED { Ok(None) } else { self.read(&name) };
            match read {
                Ok(Some(lease)) if leases.read.len() < MOST => leases.read.push((name, lease)),
                Ok(Some(_)) => leases.unread.push(self.unread(&name, "there are too many")),
                Ok(None) => leases.unread.extend(self.remove(&name).err()),
                Err(error) => leases.unread.push(error),
            }
        }
        Ok(leases)
    }

    /// A lease; none of an earlier boot.
    fn read(&self, name: &str) -> Result<Option<Lease>> {
        let text = file::text(&self.directory.join(name), LONGEST)
            .map_err(|cause| self.unread(name, cause))?;
        let of: OfBoot = serde_json::from_str(&text).map_err(|cause| self.unread(name, cause))?;
        if of.boot != self.boot {
            return Ok(None);
        }
        let written: Written =
            serde_json::from_str(&text).map_err(|cause| self.unread(name, cause))?;
        Ok(Some(written.lease))
    }

    fn unread(&self, name: &str, cause: impl fmt::Display) -> Error {
        Error::invalid(format!(
            "lease {0} cannot be read and is not renewed ({cause}); restart its container, or remove the file \
             if that is gone: rm '{0}'",
            self.directory.join(name).display()
        ))
    }

    /// Writes the lease down: once this returns, it is there whatever happens to the process.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, name: &str, lease: &Lease) -> Result<()> {
        let written = Written { boot: self.boot.clone(), lease: lease.clone() };
        let text = serde_json::to_vec(&written)
            .map_err(|cause| Error::bug("a lease cannot be written").because(cause))?;
        let (path, draft) = (self.directory.join(name), self.directory.join(UNFINISHED));
        file::replace_durably(&path, &draft, &text, 0o600).map_err(|cause| self.failed(cause))
    }

    /// Deletes a lease; a missing one is no error.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(self.failed(cause)),
            _ => Ok(()),
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::os(format!("keeping leases in {}", self.directory.display()), cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the present layout is.
    const WRITTEN: &str = concat!(
        r#"{"boot":"this","lease":{"subject":{"id":{"network":"lan","container":"c1","ifname":"eth0"},"#,
        r#""netns":"/nowhere","mac":null,"client":[0,99],"dhcp":{"socket":"/s","request":[42],"#,
        r#""skip":[],"provide":[],"priority":null}},"mac":"02:00:00:00:00:01","terms":{"#,
        r#""address":"192.0.2.7/24","server":"192.0.2.1","station":"02:00:00:00:00:09","#,
        r#""lease":3600,"renewal":1800,"rebinding":3150,"routers":["192.0.2.1"],"#,
        r#""routes":[["198.51.100.0/24","192.0.2.2"]],"dns":["192.0.2.3"],"domain":"example.org","#,
        r#""search":[],"mtu":1400},"since":5,"first":"192.0.2.7/24","lost":false}}"#,
    );

    fn opened(directory: &Path) -> LeaseStore {
        LeaseStore::open(directory, "this".into()).unwrap()
    }

    #[test]
    fn the_present_layout_is_read() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("one"), WRITTEN).unwrap();
        let leases = opened(root.path()).leases().unwrap();
        let [(name, lease)] = &leases.read[..] else { panic!("{leases:?}") };
        assert_eq!((name.as_str(), lease.first.to_string().as_str()), ("one", "192.0.2.7/24"));
        let written = Written { boot: "this".into(), lease: lease.clone() };
        assert_eq!(serde_json::to_string(&written).unwrap(), WRITTEN);
        let earlier = WRITTEN.replace(r#","lost":false"#, "").replace(r#""search":[],"#, "");
        let earlier: Written = serde_json::from_str(&earlier).unwrap();
        assert_eq!(earlier.lease, *lease, "what later releases may leave out");
    }

    #[test]
    fn what_cannot_be_read_stays_and_stops_nothing() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let store = opened(root.path());
        let later = WRITTEN.replace("192.0.2.7/24", "a later layout");
        let other_boot = later.replace("this", "that");
        let files = [("one", WRITTEN), ("cut", &WRITTEN[..40]), ("later", &later)];
        for (name, text) in files.into_iter().chain([("old", &*other_boot), (UNFINISHED, "{")]) {
            fs::write(at(name), text).unwrap();
        }
        fs::create_dir(at("directory")).unwrap();
        let leases = store.leases().unwrap();
        assert_eq!(leases.read.len(), 1, "{leases:?}");
        assert_eq!(leases.unread.len(), 2, "{leases:?}");
        let remain = ["one", "cut", "later", "directory", LOCK];
        assert!(remain.iter().all(|name| at(name).exists()));
        assert!(!at("old").exists() && !at(UNFINISHED).exists());
    }
}
