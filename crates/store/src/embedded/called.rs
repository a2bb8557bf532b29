//! What tells attachments from each other, in one file. A search by name, address or port reads this file instead of
//! all records of attachments.
//!
//! The file is derived from the records, never necessary, and written by searches alone. Each of its entries says of
//! which record it holds: by its path and the number of its inode. A record is always a new file, which takes the
//! place of the one before, and tmpfs gives no number twice. So an entry is true, or known to be stale, whichever
//! version of Spoke wrote the record, and also where a person moved it; a record without a true entry is read.
//! Who writes into a record's file in place removes this file, too.
//! On other file systems, where numbers come again, all are read.

use std::collections::HashMap;

use engine::port::{Key, Record, Versioned};
use model::{Attachment, AttachmentOutline, Result};
use rustix::fs;

use super::Embedded;
use super::derived::LARGEST;
use super::file::{self, Kind};
use super::header::State;
use super::open::{Name, Open};
use super::path;

/// In this boot's half, so that a reboot removes it.
const NAME: &str = "called";
const PREPARED: &str = ".called.new";

/// Where the records are.
const DIRECTORY: &str = "attachments";

/// So many records without a true entry have it written again.
const LEAST: usize = 32;

/// The file takes at most this part of the room that is free: records need it more.
const PART: u64 = 4;

/// A change of the encoding changes this.
const MAGIC: &[u8] = b"called_3";

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;

/// The entry of one record.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    inode: u64,
    /// The whole entry, as it is written.
    bytes: &'a [u8],
    /// The name of the sandbox.
    sandbox: &'a str,
    /// The lasting name; empty where there is none.
    owner: &'a str,
    /// [`AttachmentOutline`], as JSON.
    outline: &'a str,
}

/// What is looked for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The records of those that may be called so.
    Called(&'a str),
    /// The outlines of all.
    Outlines,
}

/// Records, or outlines, in no order.
type Found = (Vec<(Key, Versioned)>, Vec<AttachmentOutline>);

/// A search under way.
struct Search<'a> {
    open: &'a Open,
    wanted: Wanted<'a>,
    known: HashMap<&'a str, Entry<'a>>,
    found: Vec<(Key, Versioned)>,
    outlines: Vec<AttachmentOutline>,
    /// The file as it should be.
    now: Vec<u8>,
    /// How many records had no true entry.
    read: usize,
}

impl Embedded {
    /// The attachments that may be called so, and maybe others; `None` where all records have to be read: a
    /// transaction may be under way, or this is no tmpfs.
    pub(super) fn find_called(&self, name: &str) -> Result<Option<Vec<(Key, Versioned)>>> {
        let Some((mut found, _)) = self.search(Wanted::Called(name))? else { return Ok(None) };
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Some(found))
    }

    /// The outlines of all attachments; `None` as above.
    pub(super) fn find_outlines(&self) -> Result<Option<Vec<AttachmentOutline>>> {
        let Some((_, mut found)) = self.search(Wanted::Outlines)? else { return Ok(None) };
        found.sort_by(|one, other| (&one.id, one.layer).cmp(&(&other.id, other.layer)));
        Ok(Some(found))
    }

    fn search(&self, wanted: Wanted<'_>) -> Result<Option<Found>> {
        let Some(open) = self.boot.existing()? else { return Ok(Some(Found::default())) };
        let before = open.header()?;
        if before.state != State::Calm || !open.is_on_tmpfs() {
            return Ok(None);
        }
        let known = open.derived(NAME, None).ok().flatten().unwrap_or_default();
        let mut search = Search {
            open: &open,
            wanted,
            known: entries(&known),
            found: Vec::new(),
            outlines: Vec::new(),
            now: MAGIC.to_vec(),
            read: 0,
        };
        search.run()?;
        if open.header()? != before || !open.is_alive()? {
            return Ok(None);
        }
        let Search { found, outlines, now, read, .. } = search;
        if read >= LEAST && now.len() as u64 <= LARGEST {
            // Without it the records are read again.
            let _ = self.write_called(&now);
        }
        Ok(Some((found, outlines)))
    }

    /// Of two that search at once, each writes a file of its own. While another process has the store, it is not written:
    /// who only reads waits for no lock.
    fn write_called(&self, bytes: &[u8]) -> Result<()> {
        let (Ok(_guard), Some(open)) = (self.guard.try_lock(), self.boot.existing()?) else {
            return Ok(());
        };
        if !open.try_acquire() {
            return Ok(());
        }
        let written = match open.has_room_beside(bytes.len()) {
            true => open.replace_derived((PREPARED, NAME), bytes),
            false => Ok(()),
        };
        open.unlock();
        written
    }
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        for network in self.open.names(DIRECTORY)?.whole {
            let directory = format!("{DIRECTORY}/{}", network.text);
            // What is no directory, or no record, is reported elsewhere.
            let Some(names) = unless_damaged(self.open.names(&directory))? else { continue };
            for name in names.whole {
                self.look(&format!("{directory}/{}", name.text), &name)?;
            }
        }
        Ok(())
    }

    fn look(&mut self, at: &str, name: &Name) -> Result<()> {
        let entry = self.known.get(at).filter(|entry| entry.inode == name.inode).copied();
        if let Some(entry) = entry {
            self.now.extend_from_slice(entry.bytes);
            if self.is_answered(&entry, name) {
                return Ok(());
            }
        }
        let Some(bytes) = unless_damaged(self.open.read(at))?.flatten() else { return Ok(()) };
        let Ok((key, held)) = file::decode(Kind::Attachment, &bytes) else { return Ok(()) };
        if path::of(&key) != at {
            return Ok(());
        }
        let Record::Attachment(attachment) = &held.record else { return Ok(()) };
        let outline = AttachmentOutline::of(attachment);
        if entry.is_none() {
            self.read += 1;
            write(at, name.inode, (attachment, &outline), &mut self.now);
        }
        match self.wanted {
            Wanted::Called(_) => self.found.push((key, held)),
            Wanted::Outlines => self.outlines.push(outline),
        }
        Ok(())
    }

    /// Whether the entry says all that is asked of its record.
    fn is_answered(&mut self, entry: &Entry<'_>, name: &Name) -> bool {
        match self.wanted {
            // An id is the start of its file's name.
            Wanted::Called(called) => {
                !Record::may_mean((&name.text, entry.sandbox, entry.owner), called)
            }
            Wanted::Outlines => {
                let outline = serde_json::from_str(entry.outline);
                outline.map(|outline| self.outlines.push(outline)).is_ok()
            }
        }
    }
}

/// What is wrong with one file concerns no other.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == model::Kind::Invalid => Ok(None),
        Err(error) => Err(error),
    }
}

/// The inode, then path, sandbox, owner and outline, each with its length before it.
fn write(
    at: &str,
    inode: u64,
    (attachment, outline): (&Attachment, &AttachmentOutline),
    bytes: &mut Vec<u8>,
) {
    let Ok(outline) = serde_json::to_string(outline) else { return };
    let owner = attachment.owner.as_ref().map_or("", |owner| owner.as_str());
    let start = bytes.len();
    bytes.extend(inode.to_le_bytes());
    for text in [at, attachment.sandbox_name().as_str(), owner, &outline] {
        let Ok(length) = u32::try_from(text.len()) else {
            // No record is so long.
            bytes.truncate(start);
            return;
        };
        bytes.extend(length.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
}

/// The entries up to the first damaged one, by their paths.
fn entries(bytes: &[u8]) -> HashMap<&str, Entry<'_>> {
    let mut entries = HashMap::new();
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    while let Some((at, entry)) = read(&mut rest) {
        entries.insert(at, entry);
    }
    entries
}

fn read<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, Entry<'a>)> {
    let all = *rest;
    let (inode, mut after) = all.split_first_chunk()?;
    let mut text = || read_text(&mut after);
    let (at, sandbox, owner, outline) = (text()?, text()?, text()?, text()?);
    *rest = after;
    let bytes = all.get(..all.len() - after.len())?;
    Some((at, Entry { inode: u64::from_le_bytes(*inode), bytes, sandbox, owner, outline }))
}

fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

impl Open {
    fn is_on_tmpfs(&self) -> bool {
        fs::fstatfs(self.directory()).is_ok_and(|is| u64::try_from(is.f_type) == Ok(TMPFS))
    }

    /// Whether so many bytes are a small part of the room that is free.
    fn has_room_beside(&self, bytes: usize) -> bool {
        let Ok(is) = fs::fstatvfs(self.directory()) else { return false };
        // A tmpfs without a limit has no blocks.
        is.f_blocks == 0
            || (bytes as u64).saturating_mul(PART) <= is.f_bavail.saturating_mul(is.f_frsize)
    }
}
