//! Reading tar archives: POSIX pax (IEEE 1003.1-2008 `pax`), ustar, the GNU and the old format.

mod header;
mod pax;

use std::io::{self, Read};

use model::{Error, Result};

use header::{BLOCK, Header, Type};
use pax::Extension;

/// The longest extended header, in bytes.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symbolic,
    /// Another name of a file that came before.
    Hard,
    Fifo,
    /// A character or block device.
    Device,
}

/// One entry, without its content.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As it is written in the archive.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// Of its content, in bytes.
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970.
    pub(crate) modified: i64,
    /// The target of a link, as it is written.
    pub(crate) link: Vec<u8>,
    /// The attribute `security.capability`.
    pub(crate) capability: Option<Vec<u8>>,
}

/// An archive that is being read. As a [`Read`] it is the content of the entry that came last.
pub(crate) struct Archive<'a> {
    reader: &'a mut dyn Read,
    /// Unread bytes of the last entry's content.
    remaining: u64,
    /// Zeros behind it that fill its last block.
    padding: u64,
    ended: bool,
    /// The contents of a global pax header.
    global: Extension,
}

impl<'a> Archive<'a> {
    pub(crate) fn new(reader: &'a mut dyn Read) -> Self {
        Self { reader, remaining: 0, padding: 0, ended: false, global: Extension::default() }
    }

    /// The next entry; nothing behind the last one.
    ///
    /// # Errors
    /// The archive is broken or ends early.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let mut extension = self.global.clone();
        while !self.ended {
            self.skip()?;
            let Some(header) = self.header()? else {
                self.ended = true;
                break;
            };
            match header.kind {
                Type::Entry(kind) => return self.entry(&header, kind, extension).map(Some),
                Type::Pax => extension.read(&self.extension(&header)?)?,
                Type::Global => {
                    let bytes = self.extension(&header)?;
                    self.global.read(&bytes)?;
                    extension.read(&bytes)?;
                }
                Type::LongName => extension.path = Some(text(self.extension(&header)?)),
                Type::LongLink => extension.link = Some(text(self.extension(&header)?)),
            }
        }
        Ok(None)
    }

    /// Reads what stands behind the last entry, for who hashes the whole.
    pub(crate) fn finish(self) -> Result<()> {
        io::copy(self.reader, &mut io::sink()).map(drop).map_err(broken)
    }

    fn entry(&mut self, header: &Header, kind: Kind, extended: Extension) -> Result<Entry> {
        if extended.is_sparse {
            return Err(Error::unsupported("it holds sparse files: pack it without --sparse"));
        }
        let path = extended.path.unwrap_or_else(|| header.path());
        let size = extended.size.unwrap_or(header.size);
        // The oldest format knows directories by their name only.
        let directory = kind == Kind::File && path.ends_with(b"/");
        let kind = if directory { Kind::Directory } else { kind };
        let size = if kind == Kind::File { size } else { 0 };
        (self.remaining, self.padding) = (size, padding(size));
        Ok(Entry {
            path,
            kind,
            size,
            mode: header.mode & 0o7777,
            uid: extended.uid.unwrap_or(header.uid),
            gid: extended.gid.unwrap_or(header.gid),
            modified: extended.modified.unwrap_or(header.modified),
            link: extended.link.unwrap_or_else(|| header.link()),
            capability: extended.capability,
        })
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        self.reader.read_exact(&mut block).map_err(broken)?;
        Header::parse(&block)
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>> {
        if header.size > LONGEST_EXTENSION {
            return Err(Error::invalid("its tar archive has an extended header beyond 1 MiB"));
        }
        let mut bytes = Vec::new();
        let count = self.reader.take(header.size).read_to_end(&mut bytes).map_err(broken)?;
        if count as u64 != header.size {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        (self.remaining, self.padding) = (0, padding(header.size));
        Ok(bytes)
    }

    fn skip(&mut self) -> Result<()> {
        let skipped = self.remaining + self.padding;
        let count = io::copy(&mut self.reader.take(skipped), &mut io::sink()).map_err(broken)?;
        (self.remaining, self.padding) = (0, 0);
        match count == skipped {
            true => Ok(()),
            false => Err(broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Read for Archive<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        // A decompressor takes a read of nothing for its end.
        if most == 0 {
            return Ok(0);
        }
        let count = self.reader.read(&mut buffer[..most])?;
        self.remaining -= count as u64;
        match count == 0 {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(count),
        }
    }
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

/// Up to the first zero.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn broken(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::invalid("it is cut off: its tar archive has no end"),
        _ => Error::invalid("it cannot be unpacked").because(error),
    }
}

#[cfg(test)]
mod tests;
