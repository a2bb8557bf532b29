//! A file that names its writer.
//!
//! Its first line names Spoke, the store and the digest of all that follows: a file that another
//! program changed belongs to that program from then on. Programs that `ip netns exec` started have
//! the file itself mounted over the host's, so it is written in place. Meanwhile the digest is
//! zero, and a process that finds it so after a crash writes it again.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Error as Cause, ErrorKind, Read, Result as IoResult, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The beginning of the first line, before the name of the store.
const HEAD: &str =
    "# Written by `spoke network connect`, and again as long as nobody changes it, for ";

/// Of a file that is being written.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The largest file of Spoke's, in bytes.
const LONGEST: u64 = 16 << 20;

/// The result for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The file is as it should be.
    AsWanted,
    /// It belongs to another program.
    Theirs,
}

/// The owner of the files: those of another store belong to that one.
#[derive(Clone, Debug)]
pub(super) struct Hand(String);

impl Hand {
    /// Of the store below a directory.
    pub(super) fn of(book: &Path) -> Self {
        Self(format!("{HEAD}{:?} ", book.display().to_string()))
    }

    fn head(&self, digest: &str) -> String {
        format!("{}{digest}\n", self.0)
    }

    fn has_signed(&self, text: &[u8]) -> bool {
        let Some(rest) = text.strip_prefix(self.0.as_bytes()) else { return false };
        let Some((signature, rest)) = rest.split_at_checked(NONE.len()) else { return false };
        let Some(body) = rest.strip_prefix(b"\n") else { return false };
        signature == NONE.as_bytes() || signature == digest(body).as_bytes()
    }
}

/// Whether a file is there, and we wrote all of it.
pub(super) fn is_ours(path: &Path, hand: &Hand) -> IoResult<bool> {
    match read(path) {
        Ok(Some(text)) => Ok(hand.has_signed(&text)),
        Ok(None) => Ok(false),
        Err(cause) if is_absent(&cause) => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// Writes a file, unless it belongs to another program. `fresh` is an unused path on the same file
/// system.
pub(super) fn write(path: &Path, body: &str, hand: &Hand, fresh: &Path) -> IoResult<Written> {
    let there = match read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Written::Theirs),
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return create(path, body, hand, fresh);
        }
        Err(cause) => return Err(cause),
    };
    if !hand.has_signed(&there) {
        return Ok(Written::Theirs);
    }
    if there == format!("{}{body}", hand.head(&digest(body))).into_bytes() {
        return Ok(Written::AsWanted);
    }
    let file = OpenOptions::new().write(true).open(path)?;
    overwrite(&file, body, hand).map(|()| Written::AsWanted)
}

fn overwrite(file: &File, body: &str, hand: &Hand) -> IoResult<()> {
    let blank = hand.head(NONE);
    let start = blank.len() as u64;
    file.write_all_at(blank.as_bytes(), 0)?;
    file.write_all_at(body.as_bytes(), start)?;
    file.set_len(start + body.len() as u64)?;
    file.write_all_at(hand.head(&digest(body)).as_bytes(), 0)
}

/// The file is put in place complete, and replaces no other file.
fn create(path: &Path, body: &str, hand: &Hand, fresh: &Path) -> IoResult<Written> {
    match fs::remove_file(fresh) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
    // Whatever our umask is: every program in the namespace resolves names.
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(hand.head(&digest(body)).as_bytes())?;
    file.write_all(body.as_bytes())?;
    let linked = fs::hard_link(fresh, path);
    fs::remove_file(fresh)?;
    match linked {
        Ok(()) => Ok(Written::AsWanted),
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(Written::Theirs),
        Err(cause) => Err(cause),
    }
}

/// Its contents; `None` where it is no regular file, or longer than one of Spoke's.
fn read(path: &Path) -> IoResult<Option<Vec<u8>>> {
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Ok(None);
    }
    let mut text = Vec::new();
    file::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(Some(text))
}

fn is_absent(cause: &Cause) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn digest(body: impl AsRef<[u8]>) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}
