//! What a process ends with: standard output, where what was not written is not taken for written, and the exit
//! status.

use std::io::{self, ErrorKind, Write};

use model::{Error, Kind, Result};

/// Writes all of a result, also what ends in no newline.
///
/// # Errors
/// What the system says, as that the disk is full.
pub fn deliver(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Writes a command's output; whether anyone reads it. A reader that has seen enough, such as head(1), is
/// no failure.
///
/// # Errors
/// Where it cannot be written.
pub fn write(out: &mut dyn Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Error::os("writing to standard output", cause)),
    }
}

/// The exit status of an error.
pub fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Kernel => 1,
        Kind::Invalid | Kind::Unsupported => 2,
        Kind::NotFound => 3,
        Kind::Conflict | Kind::Exhausted => 4,
        Kind::Bug => 70,
        Kind::TryAgain => 75,
        Kind::Denied => 77,
    }
}
