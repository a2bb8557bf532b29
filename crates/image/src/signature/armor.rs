//! Binary data as text (RFC 9580, section 6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Result};

/// The packets in `bytes`: themselves if they are binary, else the blocks with `title`.
pub(super) fn blocks(bytes: &[u8], title: &str) -> Result<Vec<Vec<u8>>> {
    // Each packet begins with a byte whose first bit is set; no text does.
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Ok(vec![bytes.to_vec()]);
    }
    let wrong = || Error::invalid(format!("it holds no {title}, or a damaged one"));
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    let (begin, end) = (format!("-----BEGIN {title}-----"), format!("-----END {title}-----"));
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while lines.any(|line| line == begin) {
        // Headers such as "Version: …" end at the first empty line.
        if !lines.any(str::is_empty) {
            return Err(wrong());
        }
        let mut base64 = String::new();
        loop {
            match lines.next() {
                Some(line) if line == end => break,
                // The checksum: a signature says more.
                Some(line) if line.starts_with('=') => {}
                Some(line) => base64.push_str(line),
                None => return Err(wrong()),
            }
        }
        blocks.push(STANDARD.decode(base64).map_err(|error| wrong().because(error))?);
    }
    if blocks.is_empty() { Err(wrong()) } else { Ok(blocks) }
}
