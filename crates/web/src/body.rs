//! The body of an HTTP/1.1 answer (RFC 9112 §6, §7.1).

use std::io::{self, BufRead, Read};

/// A chunk's size and its extensions, in bytes.
const LONGEST_LINE: u64 = 256;
/// Trailers, in lines.
const MOST_TRAILERS: usize = 64;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After a chunk of no size.
    Chunked {
        /// Bytes of the current chunk that are still to come; none before the first chunk.
        remaining: Option<u64>,
    },
    /// With the connection.
    Connection,
}

/// A body. Reading it fails where it ends too early, or is longer than is allowed.
#[derive(Debug)]
pub struct Body<R> {
    from: R,
    framing: Framing,
    longest: u64,
    allowed: u64,
}

impl<R: BufRead> Body<R> {
    /// Of at most `longest` bytes.
    pub fn new(from: R, framing: Framing, longest: u64) -> Self {
        Self { from, framing, longest, allowed: longest }
    }

    fn take(&mut self, out: &mut [u8], remaining: u64) -> io::Result<u64> {
        let most = usize::try_from(remaining).unwrap_or(usize::MAX).min(out.len());
        let read = self.from.read(&mut out[..most])?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read as u64)
    }

    /// Reads on to a chunk's content, and to the end of the body where there is none.
    fn enter_chunk(&mut self, first: bool) -> io::Result<u64> {
        if !first && !line(&mut self.from)?.is_empty() {
            return Err(malformed("a chunk is longer than its size says"));
        }
        let text = line(&mut self.from)?;
        let size = text.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = hexadecimal(size).ok_or_else(|| malformed("a chunk has no size"))?;
        if size == 0 {
            self.pass_trailers()?;
        }
        Ok(size)
    }

    fn pass_trailers(&mut self) -> io::Result<()> {
        for _ in 0..MOST_TRAILERS {
            if line(&mut self.from)?.is_empty() {
                return Ok(());
            }
        }
        Err(malformed("too many trailers"))
    }
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let read = match self.framing {
            Framing::Length(0) => 0,
            Framing::Length(remaining) => {
                let read = self.take(out, remaining)?;
                self.framing = Framing::Length(remaining - read);
                read
            }
            Framing::Chunked { remaining: None | Some(0) } => {
                let size =
                    self.enter_chunk(self.framing == Framing::Chunked { remaining: None })?;
                self.framing = match size {
                    0 => Framing::Length(0),
                    size => Framing::Chunked { remaining: Some(size) },
                };
                return self.read(out);
            }
            Framing::Chunked { remaining: Some(remaining) } => {
                let read = self.take(out, remaining)?;
                self.framing = Framing::Chunked { remaining: Some(remaining - read) };
                read
            }
            Framing::Connection => self.from.read(out)? as u64,
        };
        let longest = self.longest;
        self.allowed = self.allowed.checked_sub(read).ok_or_else(|| too_long(longest))?;
        Ok(read as usize)
    }
}

/// A line without its end.
fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(match line.len() as u64 >= LONGEST_LINE - 1 {
            true => malformed("a chunk's line is too long"),
            false => io::ErrorKind::UnexpectedEof.into(),
        });
    }
    line.pop_if(|byte| *byte == b'\r');
    Ok(line)
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn too_long(longest: u64) -> io::Error {
    let what = format!("the answer is longer than {longest} bytes");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(raw: &[u8], framing: Framing) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        Body::new(raw, framing, 1 << 20).read_to_end(&mut body).map(|_| body)
    }

    fn chunked(raw: &[u8]) -> io::Result<Vec<u8>> {
        read(raw, Framing::Chunked { remaining: None })
    }

    #[test]
    fn ends_where_it_says() {
        assert_eq!(read(b"abcdef", Framing::Length(3)).unwrap(), b"abc");
        assert_eq!(read(b"abc", Framing::Connection).unwrap(), b"abc");
        assert_eq!(chunked(b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\nnext").unwrap(), b"abcd");
        assert_eq!(chunked(b"0\r\n\r\n").unwrap(), b"");
    }

    #[test]
    fn refuses_what_ends_too_early_or_is_no_chunk() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        assert_eq!(read(b"ab", Framing::Length(3)).unwrap_err().kind(), UnexpectedEof);
        for cut in [&b""[..], b"3", b"3\r\n", b"3\r\nab", b"3\r\nabc", b"3\r\nabc\r\n", b"0\r\n"] {
            assert_eq!(chunked(cut).unwrap_err().kind(), UnexpectedEof, "{cut:?}");
        }
        let endless = [b'1'; 300];
        let bad = [&b"\r\n"[..], b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"+3\r\n", &endless];
        for bad in bad {
            assert_eq!(chunked(bad).unwrap_err().kind(), InvalidData, "{bad:?}");
        }
        assert_eq!(
            chunked(b"fffffffffffffffff\r\n").unwrap_err().kind(),
            std::io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn is_bounded() {
        let endless = io::BufReader::new(io::repeat(b' '));
        let mut body = Body::new(endless, Framing::Connection, 1 << 20);
        assert!(io::copy(&mut body, &mut io::sink()).is_err());
    }

    proptest! {
        #[test]
        fn chunks_are_put_together(parts in proptest::collection::vec(".{1,40}", 0..20)) {
            let mut raw = String::new();
            for part in &parts {
                raw += &format!("{:X}\r\n{part}\r\n", part.len());
            }
            raw += "0\r\n\r\n";
            prop_assert_eq!(chunked(raw.as_bytes()).unwrap(), parts.concat().into_bytes());
        }

        #[test]
        fn never_panics(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = chunked(&raw);
        }
    }
}
