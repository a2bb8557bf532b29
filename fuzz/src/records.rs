//! The store's own files, written by another program.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use engine::port::{Prefix, Store};
use model::Timestamp;
use sha2::Digest;
use store::{Embedded, Roots, archive};
use tempfile::TempDir;

const BOOT: &str = "e4b12529-60d7-4487-86f0-f28298241b61";
/// sequence, state, length, checksum.
const HEADER: usize = 24;
/// The state in which a journal follows the header.
const JOURNAL: u32 = 1;
/// Where records of this boot and of all boots are.
const FOLDERS: [(&str, bool); 10] = [
    ("attachments/n1", false),
    ("configured", false),
    ("cursors", false),
    ("leases/@host", false),
    ("ports", false),
    ("aliases", true),
    ("networks", true),
    ("reservations/@host", true),
    ("sticky/n1", true),
    ("subnets", true),
];

/// The first line is the file's place, the rest is in it. A record is read or refused, never
/// believed to be another one.
pub fn record(bytes: &[u8]) {
    read_one(bytes);
}

/// How many records were understood.
fn read_one(bytes: &[u8]) -> usize {
    // One store for all: to make and to remove one takes longer than what is tried.
    thread_local!(static STORE: Stored = Stored::new());
    STORE.with(|store| read_in(store, bytes))
}

/// The same in a store that has nothing else, and has nothing afterwards.
fn read_in(store: &Stored, bytes: &[u8]) -> usize {
    let (place, content) = bytes.split_at(bytes.iter().position(|b| *b == b'\n').unwrap_or(0));
    let place = String::from_utf8_lossy(place);
    let known = |(folder, _): &&(&str, bool)| {
        place.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    let Some((folder, durable)) = FOLDERS.iter().find(known) else { return 0 };
    let name = &place[folder.len() + 1..];
    let inside =
        !name.contains(['/', '\0']) && !matches!(name, "" | "." | "..") && name.len() < 250;
    if !inside {
        return 0;
    }
    let file = store.half(*durable).join(folder).join(name);
    fs::write(&file, content.get(1..).unwrap_or_default()).unwrap();
    let count = store.read();
    // Reading changes nothing: the record is where it was, and alone there.
    let there = fs::read_dir(file.parent().unwrap()).unwrap().count();
    fs::remove_file(&file).unwrap();
    assert_eq!(there, 1, "a file beside a record that was read");
    count
}

/// A backup is read or refused, and what was read is written as the same again. The digest is right,
/// so that what precedes it is reached.
pub fn backup(bytes: &[u8]) {
    let digest = sha2::Sha256::digest(bytes);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let count = bytes.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
    let foot = format!("{{\"records\":{count},\"sha256\":\"{digest}\"}}\n");
    let Ok(records) = archive::read(&[bytes, foot.as_bytes()].concat()) else { return };
    let again = archive::write(&records, "0.0.0", Timestamp(0)).unwrap();
    assert_eq!(archive::read(&again).unwrap(), records);
}

/// What a dead process left in the lock file, with the right checksum: it is finished or refused,
/// and nothing outside of the store is touched.
pub fn journal(bytes: &[u8]) {
    // The next input has the same store where nothing of this one is in it, which is so most of the time.
    thread_local!(static STORE: RefCell<Option<Stored>> = const { RefCell::new(None) });
    let store = STORE.take().unwrap_or_else(Stored::new);
    journal_in(&store, bytes);
    if store.is_as_made() {
        STORE.set(Some(store));
    }
}

fn journal_in(store: &Stored, bytes: &[u8]) {
    let outside = store.root.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    for durable in [false, true] {
        fs::write(store.half(durable).join("lock"), noted(bytes)).unwrap();
    }
    store.read();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    let around = fs::read_dir(store.root.path()).unwrap().count();
    assert_eq!(around, 3, "run, state, outside");
    fs::remove_file(outside).unwrap();
}

fn noted(journal: &[u8]) -> Vec<u8> {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let sum = journal
        .iter()
        .fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let mut file = Vec::with_capacity(HEADER + journal.len());
    file.extend(7_u64.to_le_bytes());
    file.extend(JOURNAL.to_le_bytes());
    file.extend(u32::try_from(journal.len()).unwrap().to_le_bytes());
    file.extend(sum.to_le_bytes());
    file.extend(journal);
    file
}

/// A store in a folder of its own.
struct Stored {
    root: TempDir,
    /// What is in it at first.
    made: BTreeSet<PathBuf>,
}

/// Files and folders below a folder.
fn below(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            below(&entry.path(), found);
        }
        found.insert(entry.path());
    }
}

impl Stored {
    fn new() -> Self {
        let mut store = Self { root: crate::place::folder(), made: BTreeSet::new() };
        for (folder, durable) in FOLDERS {
            fs::create_dir_all(store.half(durable).join(folder)).unwrap();
        }
        for durable in [false, true] {
            fs::write(store.half(durable).join("lock"), [0; HEADER]).unwrap();
        }
        below(store.root.path(), &mut store.made);
        store
    }

    /// Whether it has the files and folders that it had at first, and no others. What locks say is written for each input.
    fn is_as_made(&self) -> bool {
        let mut found = BTreeSet::new();
        below(self.root.path(), &mut found);
        found == self.made
    }

    fn half(&self, durable: bool) -> std::path::PathBuf {
        let root: &Path = self.root.path();
        if durable { root.join("state") } else { root.join("run").join(BOOT) }
    }

    /// Reads all that there is; how much that was.
    fn read(&self) -> usize {
        let path = self.root.path();
        let roots = Roots { runtime: path.join("run"), state: path.join("state") };
        let store = Embedded::open(roots, BOOT).unwrap();
        let network = || "n1".parse().unwrap();
        let all = [
            Prefix::Networks,
            Prefix::Configured,
            Prefix::Attachments,
            Prefix::AttachmentsOf(network()),
            Prefix::AllLeases,
            Prefix::Ports,
            Prefix::Reservations,
            Prefix::StickyOf(network()),
            Prefix::Subnets,
            Prefix::Aliases,
        ];
        let mut count = 0;
        for prefix in all {
            for (key, record) in store.list(&prefix).unwrap_or_default() {
                assert_eq!(store.get(&key).unwrap(), Some(record), "{key:?}");
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either. Cursors cannot be listed.
    #[test]
    fn real_records_are_read() {
        for input in crate::corpus("record") {
            let listed = !input.starts_with(b"cursors/");
            assert_eq!(read_one(&input) > 0, listed, "{}", input.escape_ascii());
        }
    }
}
