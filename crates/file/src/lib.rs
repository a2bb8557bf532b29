//! Files that a caller or an operator names: configurations, keys, traces, images; and small files
//! of Spoke's that several processes share, which are replaced in one step and locked (flock(2)).
//!
//! The path may lead to anything. A FIFO without a writer would block, and `/dev/zero` never ends.
//! So these files are opened without waiting, must be regular ones, and are read up to a bound that
//! the reader gives.

mod lock;
mod replace;

use std::fs::{File, OpenOptions};
use std::io::{Error as Cause, ErrorKind, Read, Result as IoResult};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use model::Error;
use rustix::fs::OFlags;

pub use lock::{lock, lock_opened, lock_until};
pub use replace::{
    replace, replace_by_new, replace_durably, replace_link, replace_with_mode, sync_directory_of,
};

/// Opens a regular file for reading.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`] with a sentence where it is no regular file.
pub fn open(path: &Path) -> IoResult<File> {
    regular(path, OpenOptions::new().read(true))
}

/// Opens a regular file to add to its end, and makes it with `mode` where it is missing.
///
/// # Errors
/// As of [`open`].
pub fn append(path: &Path, mode: u32) -> IoResult<File> {
    regular(path, OpenOptions::new().create(true).append(true).mode(mode)).map_err(|cause| {
        // A FIFO without a reader, or a socket.
        match cause.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) {
            true => other("it is no regular file"),
            false => cause,
        }
    })
}

/// The bytes of a regular file that has at most `longest`.
///
/// # Errors
/// As of [`open`], and [`ErrorKind::InvalidInput`] where it is longer.
pub fn read(path: &Path, longest: u64) -> IoResult<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= longest) {
        true => Ok(bytes),
        false => Err(other(&format!("it is larger than {}", size(longest)))),
    }
}

/// The text of a regular file that has at most `longest` bytes.
///
/// # Errors
/// As of [`read`], and [`ErrorKind::InvalidData`] where it is no UTF-8.
pub fn text(path: &Path, longest: u64) -> IoResult<String> {
    String::from_utf8(read(path, longest)?)
        .map_err(|_| Cause::new(ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

/// The error of `doing` that failed because of `cause`: [`model::Kind::Invalid`] where it is what
/// [`open`], [`read`] and [`text`] refuse by themselves.
pub fn failed(doing: impl Into<String>, cause: Cause) -> Error {
    match cause.raw_os_error() {
        Some(_) => Error::os(doing, cause),
        None => Error::invalid(doing).because(cause),
    }
}

/// Why `text` was not read as JSON: because of `cause`, or because it begins with a byte order mark, which
/// no JSON document does (RFC 8259, 8.1) and no program of Go takes, but some editors write.
pub fn no_json(text: &[u8], cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Cause {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    match text.starts_with(MARK) {
        true => {
            other("it begins with a byte order mark (BOM), which JSON may not: save it without one")
        }
        false => Cause::new(ErrorKind::InvalidData, cause),
    }
}

fn regular(path: &Path, how: &mut OpenOptions) -> IoResult<File> {
    // Fits: flags are small positive numbers.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = how.custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(file),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(other(&format!("it is {what}, not a regular file")))
}

fn other(sentence: &str) -> Cause {
    Cause::new(ErrorKind::InvalidInput, sentence)
}

fn size(bytes: u64) -> String {
    match (bytes >> 20, bytes.is_multiple_of(1 << 20)) {
        (mebibytes @ 1.., true) => format!("{mebibytes} MiB"),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let paths = [fifo.as_path(), Path::new("/dev/zero"), directory.path()];
        for (path, what) in paths.iter().zip(["a FIFO", "a device", "a directory"]) {
            for error in [read(path, 9).unwrap_err(), text(path, 9).unwrap_err()] {
                assert_eq!(error.to_string(), format!("it is {what}, not a regular file"));
                let error = failed("reading it", error);
                assert_eq!(error.kind(), model::Kind::Invalid);
            }
        }
        assert!(append(&fifo, 0o600).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_byte_order_mark_is_named() {
        assert_eq!(no_json(b"{", "EOF").to_string(), "EOF");
        assert!(no_json("\u{feff}{}".as_bytes(), "EOF").to_string().contains("byte order mark"));
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(text(&path, 5).unwrap(), "12345");
        assert_eq!(read(&path, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(read(&path, 1 << 20).unwrap_err().to_string(), "it is larger than 1 MiB");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn what_the_system_says_stays() {
        let missing = read(Path::new("/nonexistent"), 1).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(failed("reading it", missing).kind(), model::Kind::Kernel);
    }
}
