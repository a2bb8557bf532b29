//! Writing tar archives: ustar (POSIX.1-1988), with nothing in it that differs from day to day.

use std::io::{self, Read, Write};
use std::path::Path;

use model::{Error, Result};

const BLOCK: usize = 512;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind<'a> {
    Directory,
    /// Of so many bytes.
    File {
        size: u64,
        is_program: bool,
    },
    /// To there.
    Link(&'a str),
}

/// An archive that is being written.
pub(super) struct Tar<W> {
    to: W,
}

impl<W: Write> Tar<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to }
    }

    pub(super) fn directory(&mut self, path: &str) -> Result<()> {
        self.header(&format!("{path}/"), EntryKind::Directory)
    }

    pub(super) fn link(&mut self, path: &str, to: &str) -> Result<()> {
        self.header(path, EntryKind::Link(to))
    }

    pub(super) fn bytes(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let size = content.len() as u64;
        self.file(path, EntryKind::File { size, is_program: false }, &mut &content[..])
    }

    /// `what` is a file, and `content` has exactly its size.
    pub(super) fn file(
        &mut self,
        path: &str,
        what: EntryKind<'_>,
        content: &mut dyn Read,
    ) -> Result<()> {
        let EntryKind::File { size, .. } = what else {
            return Err(Error::bug(format!("{path} is packed as a file and is none")));
        };
        self.header(path, what)?;
        let copied = io::copy(&mut content.take(size), &mut self.to).map_err(writing)?;
        if copied != size {
            return Err(Error::try_again(format!("{path} changes while it is packed")));
        }
        let remaining = usize::try_from(size.next_multiple_of(BLOCK as u64) - size).unwrap_or(0);
        self.to.write_all(&[0; BLOCK][..remaining]).map_err(writing)
    }

    pub(super) fn finish(mut self) -> Result<W> {
        self.to.write_all(&[0; 2 * BLOCK]).map_err(writing)?;
        Ok(self.to)
    }

    fn header(&mut self, path: &str, what: EntryKind<'_>) -> Result<()> {
        let (prefix, name) = split(path)?;
        let (kind, mode, size, link) = match what {
            EntryKind::Directory => (b'5', 0o755, 0, ""),
            EntryKind::File { size, is_program } => {
                (b'0', if is_program { 0o755 } else { 0o644 }, size, "")
            }
            EntryKind::Link(link) => (b'2', 0o777, 0, link),
        };
        if link.len() > 100 || size >= 1 << 33 {
            return Err(Error::invalid(format!("{path} is too long for an image")));
        }
        let mut block = [0_u8; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, format!("{mode:07o}").as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{size:011o}").as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        put(329, b"0000000");
        put(337, b"0000000");
        put(345, prefix.as_bytes());
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.to.write_all(&block).map_err(writing)
    }
}

/// The two fields of a long path.
fn split(path: &str) -> Result<(&str, &str)> {
    if path.len() <= 100 {
        return Ok(("", path));
    }
    let fits = |(at, _): &(usize, &str)| *at <= 155 && path.len() - at - 1 <= 100;
    match path.match_indices('/').find(fits) {
        Some((at, _)) if at + 1 < path.len() => Ok((&path[..at], &path[at + 1..])),
        _ => Err(Error::invalid(format!("{} is too long for an image", Path::new(path).display()))),
    }
}

fn writing(error: io::Error) -> Error {
    Error::os("packing", error)
}
