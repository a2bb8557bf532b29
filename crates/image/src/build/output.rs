//! Files that exist as a whole or not at all, and what they hash to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use model::{Error, Result};

use crate::digest::Hash;
use crate::{Algorithm, Digest};

/// A file that gets its name when it is complete.
pub(super) struct Output {
    file: BufWriter<File>,
    temporary: PathBuf,
    is_done: bool,
}

impl Output {
    /// Beside `to`.
    pub(super) fn beside(to: &Path) -> Result<Self> {
        let name = to.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| Error::invalid(format!("{} is no file", to.display())))?;
        let temporary = to.with_file_name(format!(".{name}.{}", std::process::id()));
        let file = File::create(&temporary).map_err(|error| writing(&temporary, error))?;
        Ok(Self { file: BufWriter::new(file), temporary, is_done: false })
    }

    /// Gives it its name.
    pub(super) fn finish(mut self, to: &Path) -> Result<u64> {
        self.file.flush().map_err(|error| writing(&self.temporary, error))?;
        let size =
            self.file.get_ref().metadata().map_err(|error| writing(&self.temporary, error))?;
        fs::rename(&self.temporary, to).map_err(|error| writing(to, error))?;
        self.is_done = true;
        Ok(size.len())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_done {
            // The file is useless; the first failure is reported already.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Hashes what is written through it.
pub(super) struct HashingWriter<W> {
    inner: W,
    hash: Hash,
}

impl<W: Write> HashingWriter<W> {
    pub(super) fn new(inner: W, algorithm: Algorithm) -> Self {
        Self { inner, hash: Hash::new(algorithm) }
    }

    pub(super) fn finish(self) -> (W, Digest) {
        (self.inner, self.hash.finish())
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a whole file.
pub(super) fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::beside(to)?;
    output.write_all(bytes).map_err(|error| writing(to, error))?;
    output.finish(to).map(drop)
}

pub(super) fn writing(path: &Path, error: io::Error) -> Error {
    Error::os(format!("writing {}", path.display()), error)
}
