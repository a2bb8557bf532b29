//! Where in an archive its files are.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

use model::{Error, Result};

use crate::unpack::{Archive, Kind, clean};

/// More entries than that are refused.
const MOST: usize = 10_000;

/// Longer chains of links are refused.
const LONGEST_CHAIN: u32 = 4;

/// An archive, which is no longer read through to find something.
pub(crate) struct Table {
    file: Arc<File>,
    places: BTreeMap<String, Stored>,
}

#[derive(Clone, Debug)]
enum Stored {
    /// Where it begins, and how long it is.
    Content(u64, u64),
    /// Its target.
    Link(String),
}

impl Table {
    /// Reads it through, once.
    pub(crate) fn read(file: File) -> Result<Self> {
        let at = Rc::new(Cell::new(0));
        let mut reader = Counting { inner: io::BufReader::new(&file), at: Rc::clone(&at) };
        let mut archive = Archive::new(&mut reader);
        let mut places = BTreeMap::new();
        while let Some(entry) = archive.next()? {
            let Some(path) = clean(&entry.path)? else { continue };
            let place = match entry.kind {
                Kind::File => Stored::Content(at.get(), entry.size),
                Kind::Symbolic => Stored::Link(target(&path, &entry.link)?),
                Kind::Hard => match clean(&entry.link)? {
                    Some(link) => Stored::Link(link.to_string_lossy().into_owned()),
                    None => continue,
                },
                _ => continue,
            };
            if places.len() == MOST {
                return Err(Error::invalid(format!("it holds more than {MOST} files")));
            }
            if places.insert(path.to_string_lossy().into_owned(), place).is_some() {
                return Err(Error::invalid(format!("it holds {} twice", path.display())));
            }
        }
        drop(archive);
        Ok(Self { file: Arc::new(file), places })
    }

    /// Whether there is a file.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// How long a file is, in bytes.
    pub(crate) fn size(&self, path: &str) -> Result<u64> {
        self.place(path).map(|(_, size)| size)
    }

    /// A file's content.
    pub(crate) fn open(&self, path: &str) -> Result<impl Read + use<>> {
        let (at, remaining) = self.place(path)?;
        Ok(Section { file: Arc::clone(&self.file), at, remaining })
    }

    fn place(&self, path: &str) -> Result<(u64, u64)> {
        let mut name = path;
        for _ in 0..LONGEST_CHAIN {
            match self.places.get(name) {
                Some(Stored::Content(at, size)) => return Ok((*at, *size)),
                Some(Stored::Link(target)) => name = target,
                None => break,
            }
        }
        Err(Error::invalid(format!("it has no {path}")))
    }
}

/// The target of a symbolic link at `path`, within the archive.
fn target(path: &std::path::Path, link: &[u8]) -> Result<String> {
    let link = String::from_utf8_lossy(link);
    let mut parts: Vec<&str> =
        path.parent().and_then(|parent| parent.to_str()).unwrap_or_default().split('/').collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    match link.starts_with('/') {
        true => Err(Error::invalid(format!("{} leads out of the archive", path.display()))),
        false => Ok(parts.join("/")),
    }
}

/// Knows how much was read.
struct Counting<R> {
    inner: R,
    at: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.at.set(self.at.get() + count as u64);
        Ok(count)
    }
}

/// A part of a file.
struct Section {
    file: Arc<File>,
    at: u64,
    remaining: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        self.remaining -= count as u64;
        Ok(count)
    }
}
