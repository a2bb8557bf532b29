//! Where images are made before they are in the cache.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Error, Result};
use rustix::fs::FlockOperation;

use super::Cache;
use crate::{Image, ImageId};

/// A directory of one's own, which is gone with this value, and in time also after a `kill -9`.
#[derive(Debug)]
pub(crate) struct Staging {
    cache: Cache,
    path: PathBuf,
    count: Cell<u32>,
    /// Keeps it locked.
    _held: File,
}

impl Staging {
    pub(super) fn new(cache: &Cache) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let base = cache.staging();
        let failed = |error| Error::os(format!("making a directory in {}", base.display()), error);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{}-{count}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {}
                // Of a dead process that had our number, or of one in another namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(error)),
            }
            let held = File::open(&path).map_err(failed)?;
            rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive)
                .map_err(|errno| failed(errno.into()))?;
            return Ok(Self { cache: cache.clone(), path, count: Cell::new(0), _held: held });
        }
    }

    /// A new empty file, open for reading and writing, and its path.
    pub(crate) fn file(&self) -> Result<(PathBuf, File)> {
        let path = self.next();
        let file = File::options().create_new(true).read(true).write(true).open(&path);
        let failed = |error| Error::os(format!("making {}", path.display()), error);
        Ok((path.clone(), file.map_err(failed)?))
    }

    /// A new empty directory.
    pub(crate) fn directory(&self) -> Result<PathBuf> {
        use std::os::unix::fs::DirBuilderExt;
        let path = self.next();
        let made = fs::DirBuilder::new().mode(0o755).create(&path);
        made.map_err(|error| Error::os(format!("making {}", path.display()), error))?;
        Ok(path)
    }

    /// The image `id`, if the cache has it already.
    pub(crate) fn known(&self, id: &ImageId) -> Result<Option<Image>> {
        Ok(self.cache.image(id)?.map(|record| self.cache.ready(record)))
    }

    fn next(&self) -> PathBuf {
        self.count.set(self.count.get() + 1);
        self.path.join(self.count.get().to_string())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The next process removes what stays.
        let _ = netlink::remove_tree(&self.path);
    }
}
