//! Files that a caller or an operator names: configurations, keys, traces, images; and small files
//! of Spoke's that several processes share, which are replaced in one step and locked (flock(2)).
//!
//! The path may lead to anything. A FIFO without a writer would block, and `/dev/zero` never ends.
//! So these files are opened without waiting, must be regular ones, and are read up to a bound that
//! the reader gives.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Error as Cause, ErrorKind, Read, Result as IoResult, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use model::Error;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// How often it is asked whose turn it is: flock(2) cannot be waited for with a limit.
const ASKING: Duration = Duration::from_millis(2);

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

/// Replaces a file in one step: writes `draft`, for this user alone, and renames it. A power cut may lose
/// both.
///
/// # Errors
/// What the system says; the draft is gone then.
pub fn replace(path: &Path, draft: &Path, bytes: &[u8]) -> IoResult<()> {
    rename_written(path, draft, || write(draft, bytes, 0o600).map(drop))
}

/// As [`replace`], with this mode, and on the disk when it returns: a power cut afterwards loses neither the
/// file nor its name, and one before leaves the old file.
///
/// # Errors
/// As of [`replace`].
pub fn replace_durably(path: &Path, draft: &Path, bytes: &[u8], mode: u32) -> IoResult<()> {
    rename_written(path, draft, || {
        let file = write(draft, bytes, mode)?;
        // A umask, or a draft that a killed process left, may have made it another.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    })?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write(draft: &Path, bytes: &[u8], mode: u32) -> IoResult<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(draft)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn rename_written(path: &Path, draft: &Path, write: impl Fn() -> IoResult<()>) -> IoResult<()> {
    write().and_then(|()| fs::rename(draft, path)).inspect_err(|_| drop(fs::remove_file(draft)))
}

/// Locks an open file for as long as it, or a copy of its descriptor, is open.
///
/// # Errors
/// What the system says; `WouldBlock` where `how` does not wait, and another process holds the
/// lock.
pub fn lock(file: impl AsFd, how: FlockOperation) -> IoResult<()> {
    loop {
        match flock(file.as_fd(), how) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// The same, waiting until `deadline`; whether it is locked. `how` is one that does not wait.
///
/// # Errors
/// What the system says.
pub fn lock_until(file: impl AsFd, how: FlockOperation, deadline: Instant) -> IoResult<bool> {
    loop {
        match lock(file.as_fd(), how) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= deadline => return Ok(false),
            Err(_) => thread::sleep(ASKING),
        }
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

    #[test]
    fn a_file_is_replaced_in_one_step() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft] = ["one", "draft"].map(|name| root.path().join(name));
        replace(&path, &draft, b"first").unwrap();
        replace(&path, &draft, b"2").unwrap();
        assert_eq!(read(&path, 9).unwrap(), b"2");
        std::os::unix::fs::symlink(&path, &draft).unwrap();
        assert!(replace(&path, &draft, b"3").is_err(), "a link is not followed");
        assert_eq!((read(&path, 9).unwrap(), draft.exists()), (b"2".to_vec(), false));
        assert!(replace(root.path(), &draft, b"3").is_err() && !draft.exists());
    }

    #[test]
    fn a_durable_file_has_its_mode_whatever_its_draft_was() {
        let root = tempfile::tempdir().unwrap();
        let [path, draft] = ["one", "draft"].map(|name| root.path().join(name));
        fs::write(&draft, "what a killed process left").unwrap();
        fs::set_permissions(&draft, Permissions::from_mode(0o666)).unwrap();
        replace_durably(&path, &draft, b"2", 0o644).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!((read(&path, 9).unwrap(), draft.exists()), (b"2".to_vec(), false));
        assert!(replace_durably(root.path(), &draft, b"3", 0o600).is_err() && !draft.exists());
    }

    #[test]
    fn a_lock_is_waited_for_until_the_deadline() {
        let root = tempfile::tempdir().unwrap();
        let open = || File::create(root.path().join("lock")).unwrap();
        let (first, second, how) = (open(), open(), FlockOperation::NonBlockingLockExclusive);
        lock(&first, FlockOperation::LockExclusive).unwrap();
        assert_eq!(lock(&second, how).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!lock_until(&second, how, Instant::now()).unwrap());
        let far = Instant::now() + Duration::from_secs(600);
        let waiting = thread::spawn(move || lock_until(&second, how, far).unwrap());
        drop(first);
        assert!(waiting.join().unwrap());
    }
}
