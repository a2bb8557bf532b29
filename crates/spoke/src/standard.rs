//! Standard output: what was not written is not taken for written.

use std::io::{self, ErrorKind, Write};

use model::{Error, Result};

/// Writes all of a result, also what ends in no newline.
///
/// # Errors
/// What the system says, as that the disk is full.
pub(crate) fn deliver(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Writes a command's output; whether anyone reads it. A reader that has seen enough, such as head(1), is
/// no failure.
///
/// # Errors
/// Where it cannot be written.
pub(crate) fn write(out: &mut dyn Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Error::os("writing to standard output", cause)),
    }
}
