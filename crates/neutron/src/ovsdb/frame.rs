//! Where one message ends and the next begins: they follow one another as JSON objects (RFC 7047 §4),
//! with nothing between them.

use model::{Error, Result};
use serde_json::Value;

/// A message is not longer than this: a thousand ports are half a megabyte.
pub(super) const LONGEST: usize = 16 << 20;

/// Received bytes, and how far they were scanned.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    seen: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Frames {
    /// Adds what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if all of it came.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where what came is no such message, or is too long.
    pub(super) fn next(&mut self) -> Result<Option<Value>> {
        while let Some(&byte) = self.bytes.get(self.seen) {
            self.seen += 1;
            if self.ends(byte)? {
                let rest = self.bytes.split_off(self.seen);
                let message = std::mem::replace(&mut self.bytes, rest);
                self.seen = 0;
                return serde_json::from_slice(&message)
                    .map(Some)
                    .map_err(|error| wrong("it is not JSON").because(error));
            }
        }
        match self.bytes.len() > LONGEST {
            true => Err(wrong("it is too long")),
            false => Ok(None),
        }
    }

    /// Whether the message ends with this byte.
    fn ends(&mut self, byte: u8) -> Result<bool> {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' if self.depth > 0 => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'{' => self.depth += 1,
            b'}' if self.depth > 0 => {
                self.depth -= 1;
                return Ok(self.depth == 0);
            }
            _ if self.depth > 0 || byte.is_ascii_whitespace() => {}
            _ => return Err(wrong("it is no JSON object")),
        }
        Ok(false)
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid(format!("what Open vSwitch's database sent cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn all(chunks: &[&[u8]]) -> Result<Vec<Value>> {
        let (mut frames, mut messages) = (Frames::default(), Vec::new());
        for chunk in chunks {
            frames.push(chunk);
            while let Some(message) = frames.next()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for bad in [&b"[]"[..], b"7", b"}", b"\"{}\"", b"{]}", b"{\"a\"}", b"{\xff}"] {
            assert_eq!(all(&[bad]).unwrap_err().kind(), model::Kind::Invalid, "{bad:?}");
        }
        assert_eq!(all(&[b" \n{} {\"a\":\"}\\\"{\"}"]).unwrap().len(), 2);
        let deep = "{\"a\":".repeat(100_000) + &"}".repeat(100_000);
        assert_eq!(all(&[deep.as_bytes()]).unwrap_err().kind(), model::Kind::Invalid);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let mut frames = Frames::default();
        frames.push(b"{\"");
        let refused = (0..17).any(|_| {
            frames.push(&vec![b'a'; 1 << 20]);
            frames.next().is_err()
        });
        assert!(refused);
    }

    proptest! {
        #[test]
        fn messages_come_however_they_are_cut(
            texts in proptest::collection::vec(".{0,20}", 0..8),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let sent: Vec<Value> =
                texts.iter().map(|text| json!({ "params": [text, { text: 1 }], "id": null })).collect();
            let bytes: Vec<u8> = sent.iter().flat_map(|it| it.to_string().into_bytes()).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(all(&chunks).unwrap(), sent);
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = all(&[b"{", &bytes]);
            let _ = all(&[&bytes]);
        }
    }
}
