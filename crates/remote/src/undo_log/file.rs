//! A log file on disk: its format, and whether a file is one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Deserialize;

use super::{LONGEST, Record, USUAL, VERSION};

/// The least that is known of a log file's form before its version is.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why a log file cannot be read.
pub(super) enum Why {
    Later(u32),
    Damaged(String),
}

pub(super) fn decode(file: &File) -> Result<Record, Why> {
    let mut text = Vec::with_capacity(USUAL);
    let damaged = |cause: &dyn std::fmt::Display| Why::Damaged(cause.to_string());
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(|error| damaged(&error))?;
    if text.len() as u64 > LONGEST {
        return Err(damaged(&"it is too long"));
    }
    let last = last_line(&text);
    let read = serde_json::from_slice::<Record>(last);
    let version = match &read {
        Ok(record) => Some(record.version),
        Err(_) => serde_json::from_slice::<Versioned>(last).ok().map(|form| form.version),
    };
    match version.filter(|version| *version > VERSION) {
        Some(later) => Err(Why::Later(later)),
        None => read.map_err(|error| damaged(&error)),
    }
}

/// The last line that was written as a whole; everything where there is none.
fn last_line(text: &[u8]) -> &[u8] {
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { return text };
    text[..end].rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap_or(text)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).append(true).custom_flags(flags.cast_signed()).open(path)
}

/// Whether a link or a directory is in the place of a log file.
pub(super) fn is_no_file(error: &io::Error) -> bool {
    let codes = [Errno::LOOP, Errno::ISDIR].map(|code| Some(code.raw_os_error()));
    codes.contains(&error.raw_os_error())
}

/// Whether the file is still the one at `path`: the previous holder of the lock may have replaced
/// it.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
