//! Decompresses a file to the archive in it.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use model::{Error, Result};

use super::frames::Frames;
use crate::Limits;

/// The first bytes of a file of this type.
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const BZIP2: &[u8] = b"BZh";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a skippable frame of zstd, but for the low half of the first byte.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];
/// The size of an archive from which its ratio is checked.
const HARMLESS: u64 = 64 << 20;
/// How much memory an xz stream may ask for, in KiB: what `xz -9` needs, and a little.
const XZ_MEMORY: u32 = 80 << 10;

/// The archive in `reader`, which may be plain, or compressed with gzip, xz or zstd, by its first
/// bytes. Reading it fails once either side exceeds `limits`.
///
/// # Errors
/// It is compressed with another algorithm, or cannot be read.
pub(crate) fn inflate<'a>(
    reader: Box<dyn Read + 'a>,
    limits: &Limits,
) -> Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let counted = Counted { inner: reader, count: Rc::clone(&taken), most: limits.compressed };
    let mut reader = BufReader::with_capacity(1 << 16, counted);
    let magic = reader.fill_buf().map_err(|error| match error.kind() {
        io::ErrorKind::Other => Error::invalid("it cannot be read").because(error),
        _ => Error::os("reading it", error),
    })?;
    let starts = |with: &[u8]| magic.starts_with(with);
    let inner: Box<dyn Read + 'a> = match () {
        () if starts(GZIP) => Box::new(MultiGzDecoder::new(reader)),
        () if starts(XZ) => Box::new(XzReader::new_mem_limit(reader, true, XZ_MEMORY)),
        () if starts(BZIP2) => return Err(unknown("bzip2")),
        () if starts(ZSTD) || is_skipped(magic) => Box::new(Frames::new(reader)),
        () => Box::new(reader),
    };
    let most = limits.unpacked.saturating_add(HARMLESS);
    Ok(Box::new(Guarded { inner, given: 0, taken, most, ratio: limits.ratio }))
}

fn unknown(what: &str) -> Error {
    Error::unsupported(format!(
        "it is compressed with {what}: pack it with gzip, xz or zstd, or not at all"
    ))
}

fn is_skipped(magic: &[u8]) -> bool {
    magic.first().is_some_and(|byte| byte & 0xf0 == 0x50) && magic.get(1..4) == Some(SKIPPED)
}

/// Counts what is read, and reads so much at most.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
    most: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        match self.count.get() > self.most {
            true => Err(io::Error::other(format!("it is larger than {} bytes", self.most))),
            false => Ok(count),
        }
    }
}

/// Stops where little becomes very much.
struct Guarded<R> {
    inner: R,
    given: u64,
    taken: Rc<Cell<u64>>,
    most: u64,
    ratio: u64,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.given += count as u64;
        let ratio = self.taken.get().saturating_mul(self.ratio);
        if self.given > self.most || (self.given > HARMLESS && self.given > ratio) {
            let what = format!("{} bytes became more than {}: a bomb?", self.taken.get(), ratio);
            return Err(io::Error::other(what));
        }
        Ok(count)
    }
}
