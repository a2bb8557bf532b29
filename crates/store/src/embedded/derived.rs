//! Files that are derived from the records: never necessary, and written anew where they are missing or stale.

use model::Result;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::open::Open;

/// No file is longer, in bytes: about a million networks, some hundred thousand containers.
pub(super) const LARGEST: u64 = 64 << 20;

impl Open {
    /// A file's contents, at most `most` bytes where that is given; empty where it is longer than any, `None` where there
    /// is none.
    pub(super) fn derived(&self, name: &str, most: Option<usize>) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let cannot = |cause| self.failed("cannot read", name, cause);
        let file = match fs::openat(self.directory(), name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(cause) => return Err(cannot(cause)),
        };
        let size = fs::fstat(&file).map_err(cannot)?.st_size;
        let size = u64::try_from(size).ok().filter(|size| *size <= LARGEST).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or_default();
        let mut bytes = vec![0; most.unwrap_or(size).min(size)];
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[at..], at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(Errno::INTR) => {}
                // A directory has no contents.
                Err(Errno::ISDIR) => return Ok(None),
                Err(cause) => return Err(cannot(cause)),
            }
        }
        bytes.truncate(at);
        Ok(Some(bytes))
    }

    /// Writes it anew, under another name first.
    pub(super) fn replace_derived(
        &self,
        (prepared, name): (&str, &str),
        bytes: &[u8],
    ) -> Result<()> {
        let written = self.prepare(prepared, bytes, true).and_then(|()| self.place(prepared, name));
        // Half a file would keep room from records.
        written.or_else(|error| self.remove(prepared).and(Err(error)))
    }
}
