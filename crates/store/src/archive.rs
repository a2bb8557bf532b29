//! A backup of the book: one file with every durable record, a line of JSON for each.
//!
//! The first line says which layout the records have; the last one how many there are, and the SHA-256
//! digest of what precedes it, so that a file that was cut short or edited is refused whole.

use std::fmt::Write;

use engine::port::{Key, Record, Revision};
use model::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::embedded::file::{self, Kind};

/// No backup is larger, in bytes.
pub const LARGEST: u64 = 1 << 30;

/// The layout of a backup's records; the store's own is `embedded::header`'s. A later version reads earlier ones.
const BACKUP_LAYOUT: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The layout of the records.
    spoke_backup: u32,
    /// The version of the program that wrote it.
    version: String,
    /// When, in seconds since 1970.
    taken: u64,
}

/// A record: what kind it is, and its file's contents.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: Kind,
    file: Value,
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Foot {
    records: usize,
    sha256: String,
}

/// The backup that holds these durable records, taken at `now` by `version` of the program.
///
/// # Errors
/// `Invalid` where a record is larger than the store takes.
pub fn write(records: &[(Key, Record)], version: &str, now: Timestamp) -> Result<Vec<u8>> {
    let head = Head { spoke_backup: BACKUP_LAYOUT, version: version.to_owned(), taken: now.0 };
    let mut bytes = Vec::new();
    push(&mut bytes, &head)?;
    for (key, record) in records {
        let contents = file::encode(key, Revision(0), record)?;
        let contents: Value = serde_json::from_slice(&contents)
            .map_err(|cause| Error::bug("a record is no JSON").because(cause))?;
        push(&mut bytes, &Line { kind: Kind::of(key), file: contents })?;
    }
    let foot = Foot { records: records.len(), sha256: digest(&bytes) };
    push(&mut bytes, &foot)?;
    Ok(bytes)
}

/// The records in a backup, in its order. The digest proves that the file is whole, and not who wrote it.
///
/// # Errors
/// `Invalid` where it is no backup, not whole, or holds what is no durable record; `Unsupported` where a
/// later version wrote it.
pub fn read(bytes: &[u8]) -> Result<Vec<(Key, Record)>> {
    let text = std::str::from_utf8(bytes).map_err(|_| no_backup("it is no text"))?;
    let (first, rest) = text.split_once('\n').ok_or_else(|| no_backup("it has one line"))?;
    let head: Head =
        serde_json::from_str(first).map_err(|_| no_backup("its first line is no head"))?;
    if head.spoke_backup != BACKUP_LAYOUT {
        return Err(Error::unsupported(format!(
            "the backup has layout {}, written by version {}; this version reads layout {BACKUP_LAYOUT}",
            head.spoke_backup,
            model::text::shown(&head.version)
        )));
    }
    let body = rest.strip_suffix('\n').ok_or_else(|| no_backup("its last line is cut short"))?;
    let (lines, last) = body.rsplit_once('\n').unwrap_or(("", body));
    let foot: Foot =
        serde_json::from_str(last).map_err(|_| no_backup("its last line is missing"))?;
    let covered = &bytes[..bytes.len() - last.len() - 1];
    if digest(covered) != foot.sha256 {
        return Err(no_backup("its digest is another one: it was changed after it was written"));
    }
    let records: Vec<_> = lines.lines().zip(2..).map(record).collect::<Result<_>>()?;
    match records.len() == foot.records {
        true => Ok(records),
        false => Err(no_backup("its last line counts other records than there are")),
    }
}

fn record((line, number): (&str, usize)) -> Result<(Key, Record)> {
    let bad = |why: &dyn std::fmt::Display| no_backup(&format!("line {number}: {why}"));
    // Around the file's contents stand its kind and a few brackets.
    if line.len() > file::LARGEST + 64 {
        return Err(bad(&format!("a record has at most {} bytes", file::LARGEST)));
    }
    let line: Line = serde_json::from_str(line).map_err(|cause| bad(&cause))?;
    let (key, held) =
        file::decode(line.kind, line.file.to_string().as_bytes()).map_err(|cause| bad(&cause))?;
    match key.is_durable() {
        true => Ok((key, held.record)),
        false => Err(bad(&"such a record does not outlive a reboot")),
    }
}

fn push(bytes: &mut Vec<u8>, line: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *bytes, line)
        .map_err(|cause| Error::bug("a line of a backup is no JSON").because(cause))?;
    bytes.push(b'\n');
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn no_backup(why: &str) -> Error {
    Error::invalid(format!("this is no whole backup of Spoke's book: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Kind as ErrorKind, PoolId, Reservation, Space};
    use proptest::prelude::*;

    fn reservation() -> (Key, Record) {
        let (space, address) = (Space::Host, "10.1.0.9".parse().unwrap());
        let held = Reservation::new(space.clone(), address);
        (Key::Reservation(space, address), Record::Reservation(held))
    }

    fn backup() -> Vec<u8> {
        write(&[reservation()], "0.1.0", Timestamp(7)).unwrap()
    }

    #[test]
    fn reads_what_it_wrote() {
        assert_eq!(read(&backup()).unwrap(), [reservation()]);
        let none = write(&[], "0.1.0", Timestamp(7)).unwrap();
        assert_eq!(read(&none).unwrap(), []);
    }

    #[test]
    fn a_later_layout_is_reported() {
        let text = String::from_utf8(backup()).unwrap();
        let later = text.replace("\"spoke_backup\":1", "\"spoke_backup\":2");
        let error = read(later.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("layout 2"), "{error}");
    }

    #[test]
    fn records_of_one_boot_are_refused() {
        let key = Key::Cursor(PoolId { network: "n".parse().unwrap(), index: 0 });
        let cursor = Record::Cursor(model::Cursor::new("10.0.0.1".parse().unwrap()));
        let bytes = write(&[(key, cursor)], "0.1.0", Timestamp(7)).unwrap();
        let error = read(&bytes).unwrap_err();
        assert!(error.to_string().contains("line 2: such a record"), "{error}");
    }

    proptest! {
        #[test]
        fn no_shortened_or_changed_backup_is_read(at in 0usize..400, byte in any::<u8>()) {
            let whole = backup();
            let at = at % whole.len();
            prop_assert!(read(&whole[..at]).is_err());
            let mut changed = whole.clone();
            changed[at] = byte;
            prop_assert!(changed == whole || read(&changed).is_err());
        }
    }
}
