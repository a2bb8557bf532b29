//! Unpacks archives of unknown origin.
//!
//! Nothing is made outside of the directory into which an archive is unpacked, whatever the archive
//! has: the kernel resolves every path beneath that directory (`RESOLVE_BENEATH`), names with `..`
//! or a leading slash are refused before, and so is everything that is no file, directory or link.
//! The reader of tar archives is Spoke's own, because it has to refuse where libraries repair: it
//! accepts the parts of OCI layers and App Container images, in bounded memory, and nothing else.

mod frames;
mod inflate;
mod tar;
mod tree;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Error, Result};

pub(crate) use inflate::inflate;
pub(crate) use tar::{Archive, Entry, Kind};
pub(crate) use tree::{Tree, Twice};

use crate::Limits;

/// How much may still be unpacked out of an image, which can have several archives.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    entries: usize,
    /// How many directories more may be made that only paths name.
    implied: usize,
    depth: usize,
    paths: usize,
    following: Duration,
}

/// Directories that only paths name, of which an archive may have so many, and so many more for each of its
/// entries: a path costs an archive next to nothing, and each directory an inode.
const IMPLIED: usize = 1024;
const IMPLIED_EACH: usize = 16;

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            bytes: limits.unpacked,
            entries: limits.entries,
            implied: IMPLIED,
            depth: limits.depth,
            paths: limits.paths,
            following: limits.following,
        }
    }

    /// Takes one entry with so many bytes of content off.
    pub(crate) fn take(&mut self, entry: &Entry) -> Result<()> {
        self.entry()?;
        self.implied = self.implied.saturating_add(IMPLIED_EACH);
        self.bytes = self.bytes.checked_sub(entry.size).ok_or_else(|| too_much("bytes"))?;
        Ok(())
    }

    /// Takes a directory off that only a path names.
    pub(crate) fn imply(&mut self) -> Result<()> {
        let remaining = self.implied.checked_sub(1);
        self.implied = remaining.ok_or_else(|| too_much("directories that only paths name"))?;
        self.entry()
    }

    fn entry(&mut self) -> Result<()> {
        self.entries = self.entries.checked_sub(1).ok_or_else(|| too_much("entries"))?;
        Ok(())
    }

    /// Takes a path off that is remembered.
    pub(crate) fn path(&mut self, path: &Path) -> Result<()> {
        let length = path.as_os_str().len();
        self.paths = self.paths.checked_sub(length).ok_or_else(|| too_much("paths"))?;
        Ok(())
    }

    /// Refuses a path that is too deep.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        match path.components().count() > self.depth {
            true => Err(Error::invalid(format!(
                "it holds {:?}…, which lies deeper than {} directories: is it a bomb?",
                path.iter().take(4).collect::<PathBuf>(),
                self.depth
            ))),
            false => Ok(()),
        }
    }

    /// Takes the time off that following a path took.
    pub(crate) fn follow(&mut self, took: Duration) -> Result<()> {
        let remaining = self.following.checked_sub(took);
        self.following = remaining.ok_or_else(|| too_much("links and directories to follow"))?;
        Ok(())
    }
}

fn too_much(what: &str) -> Error {
    Error::invalid(format!("it holds more {what} than an image may: is it a bomb?"))
}

/// Unpacks a layer of an OCI image (an uncompressed tar) over what is in `into` already; what it
/// whites out is removed (OCI image specification, layer.md, "Whiteouts").
///
/// # Errors
/// The archive is broken, holds what no layer may, or exceeds `budget`; `into` is unusable then.
pub(crate) fn layer(reader: &mut dyn Read, into: &Path, budget: &mut Budget) -> Result<()> {
    let mut tree = Tree::open(into, Twice::Replaced, budget)?;
    let mut archive = Archive::new(reader);
    while let Some(entry) = archive.next()? {
        tree.budget.take(&entry)?;
        let at = |error: Error| error.context(format!("\"{}\"", entry.path.escape_ascii()));
        let Some(path) = clean(&entry.path)? else { continue };
        tree.budget.check(&path)?;
        match whiteout(&path) {
            Some(Whiteout::Opaque(directory)) => tree.clear(directory).map_err(at)?,
            Some(Whiteout::Of(path)) => tree.remove(&path).map_err(at)?,
            None if is_device_below_dev(&entry, &path) => {}
            None => {
                let link = match entry.kind {
                    Kind::Hard => clean(&entry.link)?,
                    _ => None,
                };
                tree.put(&path, &entry, link.as_deref(), &mut archive).map_err(at)?;
            }
        }
    }
    archive.finish()
}

/// The removal that an entry of a layer describes.
enum Whiteout<'a> {
    /// All that lower layers have in this directory.
    Opaque(&'a Path),
    /// This, whatever it is.
    Of(PathBuf),
}

fn whiteout(path: &Path) -> Option<Whiteout<'_>> {
    let parent = path.parent()?;
    match path.file_name()?.as_bytes() {
        b".wh..wh..opq" => Some(Whiteout::Opaque(parent)),
        name => {
            let name = name.strip_prefix(b".wh.")?;
            Some(Whiteout::Of(parent.join(OsStr::from_bytes(name))))
        }
    }
}

/// Base images still bring some along; a container's own `/dev` hides them anyway.
fn is_device_below_dev(entry: &Entry, path: &Path) -> bool {
    matches!(entry.kind, Kind::Device) && path.starts_with("dev")
}

/// The path that `name` of an archive means below its root; `None` for the root itself.
///
/// # Errors
/// It leads elsewhere, or is no path.
pub(crate) fn clean(name: &[u8]) -> Result<Option<PathBuf>> {
    let wrong = |why: &str| Error::invalid(format!("path \"{}\" {why}", name.escape_ascii()));
    if name.starts_with(b"/") {
        return Err(wrong("is absolute: an image may not hold it"));
    }
    let mut path = PathBuf::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(wrong("leads out of the image")),
            _ if part.contains(&0) || part.len() > 255 => return Err(wrong("is not valid")),
            _ => path.push(OsStr::from_bytes(part)),
        }
    }
    if path.as_os_str().len() > 4095 {
        return Err(wrong("is too long"));
    }
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

#[cfg(test)]
mod tests;
