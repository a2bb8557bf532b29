//! The 512 bytes in front of each entry.

use model::{Error, Result};

use super::{Kind, text};

pub(super) const BLOCK: usize = 512;

/// The data behind a header.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Entry(Kind),
    /// More about the next entry.
    Pax,
    /// More about all further entries.
    Global,
    /// The next entry's path, in the way of GNU.
    LongName,
    /// The next entry's link.
    LongLink,
}

/// A header with a right sum.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) kind: Type,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) modified: i64,
    name: Vec<u8>,
    prefix: Vec<u8>,
    link: Vec<u8>,
}

impl Header {
    /// Reads a block; nothing where it marks the end.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !sum_is_right(block) {
            return Err(Error::invalid("it is no tar archive, or a damaged one: a wrong checksum"));
        }
        let field = |start: usize, length: usize| &block[start..start + length];
        let small = |start, length| {
            number(field(start, length)).and_then(|value| {
                let wrong =
                    |_| Error::invalid("its tar archive has an owner whose number is too large");
                u32::try_from(value).map_err(wrong)
            })
        };
        let size = number(field(124, 12))?;
        if size > 1 << 60 {
            return Err(Error::invalid("its tar archive has an entry without a possible size"));
        }
        // In GNU's format other things stand where POSIX has the prefix.
        let prefixed = field(257, 6) == b"ustar\0";
        let prefix = if prefixed { text(field(345, 155).to_vec()) } else { Vec::new() };
        Ok(Some(Self {
            kind: kind(block[156])?,
            size,
            mode: u32::try_from(number(field(100, 8))? & 0o7777).unwrap_or(0),
            uid: small(108, 8)?,
            gid: small(116, 8)?,
            modified: i64::try_from(number(field(136, 12)).unwrap_or(0)).unwrap_or(0),
            name: text(field(0, 100).to_vec()),
            prefix,
            link: text(field(157, 100).to_vec()),
        }))
    }

    pub(super) fn path(&self) -> Vec<u8> {
        match self.prefix.is_empty() {
            true => self.name.clone(),
            false => [&self.prefix[..], b"/", &self.name[..]].concat(),
        }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        self.link.clone()
    }
}

fn kind(flag: u8) -> Result<Type> {
    Ok(match flag {
        b'0' | 0 | b'7' => Type::Entry(Kind::File),
        b'1' => Type::Entry(Kind::Hard),
        b'2' => Type::Entry(Kind::Symbolic),
        b'3' | b'4' => Type::Entry(Kind::Device),
        b'5' => Type::Entry(Kind::Directory),
        b'6' => Type::Entry(Kind::Fifo),
        b'x' => Type::Pax,
        b'g' => Type::Global,
        b'L' => Type::LongName,
        b'K' => Type::LongLink,
        other => {
            let other = other.escape_ascii();
            return Err(Error::unsupported(format!(
                "its tar archive has an entry of the unknown type '{other}'"
            )));
        }
    })
}

/// The sum of all bytes, with blanks where the sum itself stands.
fn sum_is_right(block: &[u8; BLOCK]) -> bool {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let counted = sum(&block[..148]) + 8 * u64::from(b' ') + sum(&block[156..]);
    number(&block[148..156]).is_ok_and(|given| given == counted)
}

/// Octal digits; or, with the first bit set, the bytes of the number (GNU).
fn number(field: &[u8]) -> Result<u64> {
    let wrong = || Error::invalid("its tar archive is damaged: a field that is no number");
    if let [first, rest @ ..] = field
        && *first >= 0x80
    {
        let bytes = std::iter::once(first & 0x7f).chain(rest.iter().copied());
        return bytes
            .map(u64::from)
            .try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(byte))
            .ok_or_else(wrong);
    }
    let text = std::str::from_utf8(field).map_err(|_| wrong())?;
    match text.trim_matches([' ', '\0']) {
        "" => Ok(0),
        digits if digits.starts_with('+') => Err(wrong()),
        digits => u64::from_str_radix(digits, 8).map_err(|_| wrong()),
    }
}
