//! A terminal that is redrawn each second, with basic ANSI sequences only.

use std::io::Write;

use model::{Error, Result};
use rustix::termios::tcgetwinsize;

/// The size of a terminal that does not know its own.
const USUAL: (usize, usize) = (24, 80);

/// Rows and columns of the terminal at standard output.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        Ok(_) | Err(_) => USUAL,
    }
}

/// Draws lines from the top, each cut off at the right edge. Whether there is anyone to see it.
///
/// # Errors
/// Where the terminal cannot be written to.
pub(super) fn draw(text: &str, columns: usize, out: &mut dyn Write) -> Result<()> {
    let mut drawn = String::from("\x1b[H");
    for line in text.lines() {
        drawn.extend(line.chars().take(columns));
        // The rest of the line, and the next one.
        drawn.push_str("\x1b[K\r\n");
    }
    drawn.push_str("\x1b[J");
    let written = out.write_all(drawn.as_bytes()).and_then(|()| out.flush());
    written.map_err(|cause| Error::os("writing to the terminal", cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_off_at_the_edge() {
        let mut drawn = Vec::new();
        draw("abcdef\nüöä\n", 3, &mut drawn).unwrap();
        let drawn = String::from_utf8(drawn).unwrap();
        assert_eq!(drawn, "\x1b[Habc\x1b[K\r\nüöä\x1b[K\r\n\x1b[J");
    }
}
