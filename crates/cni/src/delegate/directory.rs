//! One network's directory of the reference plugin `host-local`.
//!
//! There is a file per held address, named after it, with the owner in it: the container's id, CR
//! LF, the interface. `last_reserved_ip.N` is where the search in range set N continues. A process
//! that reads or writes the others locks `lock` (flock(2)).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use engine::Members;
use engine::port::Granted;
use model::{Attachment, AttachmentId, Error, Fact, Kind, Lease, Pool, Result};

use crate::reference::{Boot, content, lock, modified};

/// A directory, and the file that says when this boot began.
pub(super) struct Directory<'a> {
    pub(super) path: &'a Path,
    pub(super) stat: &'a Path,
    pub(super) devices: &'a Path,
}

/// The result of a claim.
enum Claim {
    Made,
    AlreadyOurs,
    Held(String),
}

impl Directory<'_> {
    /// Claims the file of each lease that came from a pool, all or none.
    pub(super) fn claim(&self, attachment: &Attachment) -> Result<Granted> {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(self.path).map_err(|cause| {
            Error::os(format!("making the directory {}", self.path.display()), cause)
        })?;
        let _lock = self.locked()?;
        let owner = owner(&attachment.id);
        let mut made = Vec::new();
        for lease in attachment.leases.iter().filter(|lease| lease.pool.is_some()) {
            let address = lease.address.addr();
            match self.claim_one(address, &owner) {
                Ok(Claim::Made) => made.push(lease),
                Ok(Claim::AlreadyOurs) => {}
                Ok(Claim::Held(by)) => {
                    self.unmake(&made);
                    return Ok(Granted::Held { address, by, all: self.held()? });
                }
                Err(error) => {
                    self.unmake(&made);
                    return Err(error);
                }
            }
        }
        made.iter().for_each(|lease| self.remember(lease));
        Ok(Granted::Chosen)
    }

    /// Removes the owner's files: by their names where the leases are known, by reading every
    /// file where they are not.
    pub(super) fn release(&self, attachment: &Attachment) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        // Without the lock the worst is that the reference plugin sees the file a moment longer.
        let lock = self.lock().ok();
        let files = match attachment.leases.is_empty() {
            true => self.owned(&attachment.id)?,
            false => {
                let owner = owner(&attachment.id);
                // An old version of the reference wrote no interface. Under the lock a file without
                // an owner is what a crash left.
                let is_ours = |content: String| {
                    let is_old = content == attachment.id.container.as_str();
                    content == owner || is_old || (content.is_empty() && lock.is_some())
                };
                let pooled = attachment.leases.iter().filter(|lease| lease.pool.is_some());
                let files = pooled.map(|lease| self.file(lease.address.addr()));
                files.filter(|file| content(file).is_some_and(is_ours)).collect()
            }
        };
        self.remove_all(files)
    }

    /// Whether the owner has each of its addresses, or at least one where they are not known.
    pub(super) fn check(&self, attachment: &Attachment) -> Result<()> {
        let owner = owner(&attachment.id);
        let mut pooled = attachment.leases.iter().filter(|lease| lease.pool.is_some());
        let missing = match attachment.leases.is_empty() {
            true => self.owned(&attachment.id)?.is_empty(),
            false => pooled.any(|lease| {
                content(&self.file(lease.address.addr())).is_none_or(|content| content != owner)
            }),
        };
        match missing {
            false => Ok(()),
            true => Err(Error::new(
                Kind::NotFound,
                format!(
                    "host-local: Failed to find address added by container {} in {}",
                    attachment.id.container,
                    self.path.display()
                ),
            )
            .about(Fact::Words(format!(
                "host-local: Failed to find address added by container {}",
                attachment.id.container
            )))),
        }
    }

    /// Removes the files of owners that are not valid.
    pub(super) fn gc(&self, valid: &Members) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        // Without the lock a file that another process is just writing looks as if it had no owner.
        let _lock = self.locked()?;
        let stale = |content: &str| match content.split_once("\r\n") {
            Some((container, ifname)) => {
                !valid.iter().any(|(c, i)| c.as_str() == container && i.as_str() == ifname)
            }
            None => !valid.iter().any(|(c, _)| c.as_str() == content),
        };
        let files = self
            .files()?
            .into_iter()
            .filter(|(_, file)| content(file).is_some_and(|content| stale(&content)));
        self.remove_all(files.map(|(_, file)| file).collect())
    }

    /// Whether each pool has an address that no file of this boot holds.
    pub(super) fn status(&self, pools: &[Pool]) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        let files = self.files()?;
        let boot = self.booted();
        for pool in pools {
            let counts = |(address, file): &&(IpAddr, PathBuf)| {
                pool.range_of(*address).is_some()
                    && !pool.is_gateway(*address)
                    && !is_stale(file, boot)
            };
            if files.iter().filter(counts).count() as u128 >= pool.capacity() {
                return Err(Error::exhausted(format!(
                    "{} holds all {} addresses of range set {} of network {}",
                    self.path.display(),
                    pool.capacity(),
                    pool.id.index,
                    pool.id.network
                )));
            }
        }
        Ok(())
    }

    /// Every address that a file of this boot holds.
    fn held(&self) -> Result<BTreeSet<IpAddr>> {
        let boot = self.booted();
        let files = self.files()?.into_iter();
        Ok(files.filter(|(_, file)| !is_stale(file, boot)).map(|(address, _)| address).collect())
    }

    /// Removes the directory, unless a file of an address is in it.
    pub(super) fn remove(&self) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        // Without the lock another process may be about to claim an address here.
        let lock = self.locked()?;
        if !self.files()?.is_empty() {
            return Ok(());
        }
        let failed = |cause| Error::os(format!("removing {}", self.path.display()), cause);
        for entry in fs::read_dir(self.path).map_err(failed)?.flatten() {
            let name = entry.file_name();
            let ours = name
                .to_str()
                .is_some_and(|name| name == "lock" || name.starts_with("last_reserved_ip."));
            if ours {
                // Another process may have removed it; one that stays is found by the next
                // collection.
                let _ = fs::remove_file(entry.path());
            }
        }
        drop(lock);
        // Another file in it, or another process that came in between, keeps it.
        let _ = fs::remove_dir(self.path);
        Ok(())
    }

    /// Only under the lock, where a file without an owner is what a crash left.
    fn claim_one(&self, address: IpAddr, owner: &str) -> Result<Claim> {
        let file = self.file(address);
        let failed = |cause| Error::os(format!("claiming {}", file.display()), cause);
        match create(&file, owner) {
            Ok(()) => return Ok(Claim::Made),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(failed(cause)),
        }
        // As the reference: what exists is taken, whatever it is.
        let Some(holder) = content(&file) else {
            let by = format!("{}, which names no container", file.display());
            return Ok(Claim::Held(by));
        };
        if holder == owner {
            return Ok(Claim::AlreadyOurs);
        }
        if !holder.is_empty() && !is_stale(&file, self.booted()) {
            let by = holder.replace("\r\n", " ");
            return Ok(Claim::Held(format!("container {by}, as {} says", file.display())));
        }
        fs::remove_file(&file).and_then(|()| create(&file, owner)).map_err(failed)?;
        Ok(Claim::Made)
    }

    fn unmake(&self, made: &[&Lease]) {
        for lease in made {
            // A file that cannot be removed is Spoke's all the same, and is removed at the detach.
            let _ = fs::remove_file(self.file(lease.address.addr()));
        }
    }

    /// Where the reference plugin would continue. It starts at the first address if this is lost.
    fn remember(&self, lease: &Lease) {
        let Some(pool) = &lease.pool else { return };
        let file = self.path.join(format!("last_reserved_ip.{}", pool.index));
        let write =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
        let address = lease.address.addr().to_string();
        // Only the order of addresses depends on it.
        let _ = write.and_then(|mut file| file.write_all(address.as_bytes()));
    }

    /// Every file that is named after an address.
    fn files(&self) -> Result<Vec<(IpAddr, PathBuf)>> {
        let failed = |cause| Error::os(format!("reading {}", self.path.display()), cause);
        let mut files = Vec::new();
        for entry in fs::read_dir(self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let address = entry.file_name().to_str().and_then(|name| name.parse().ok());
            files.extend(address.map(|address| (address, entry.path())));
        }
        Ok(files)
    }

    /// The owner's files, whatever their names; those of an old version, which knew no interfaces, only if
    /// there is no other.
    fn owned(&self, id: &AttachmentId) -> Result<Vec<PathBuf>> {
        if !self.path.is_dir() {
            return Ok(Vec::new());
        }
        let owner = owner(id);
        let failed = |cause| Error::os(format!("reading {}", self.path.display()), cause);
        let (mut exact, mut old) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(self.path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            match content(&file) {
                Some(content) if content == owner => exact.push(file),
                Some(content) if content == id.container.as_str() => old.push(file),
                _ => {}
            }
        }
        Ok(if exact.is_empty() { old } else { exact })
    }

    fn remove_all(&self, files: Vec<PathBuf>) -> Result<()> {
        let mut failed = None;
        for file in files {
            match fs::remove_file(&file) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    failed.get_or_insert(unremoved(&file, error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn file(&self, address: IpAddr) -> PathBuf {
        self.path.join(address.to_string())
    }

    fn lock(&self) -> io::Result<File> {
        lock(self.path)
    }

    fn locked(&self) -> Result<File> {
        self.lock().map_err(|cause| {
            Error::os(format!("locking the directory {}", self.path.display()), cause)
        })
    }

    fn booted(&self) -> Boot {
        Boot::read(self.stat, self.devices)
    }
}

fn owner(id: &AttachmentId) -> String {
    format!("{}\r\n{}", id.container, id.ifname)
}

fn create(file: &Path, owner: &str) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    opened.write_all(owner.as_bytes()).inspect_err(|_| {
        // The write's own error is returned.
        let _ = fs::remove_file(file);
    })
}

/// Whether the file dates from before this boot.
fn is_stale(file: &Path, boot: Boot) -> bool {
    modified(file).is_some_and(|modified| boot.outdates(modified))
}

/// The reference takes no notice, and the address stays taken for ever. A runtime repeats a failed DEL.
fn unremoved(file: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => Error::try_again(format!(
            "the address in {} stays taken: mount its directory writable and repeat",
            file.display()
        ))
        .because(error),
        _ => Error::os(format!("removing {}", file.display()), error),
    }
}
