//! Packets (RFC 9580, section 4).

use model::{Error, Result};

/// The kind of a packet, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Signature,
    PublicKey,
    PublicSubkey,
    UserId,
    UserAttribute,
    Other,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) tag: Tag,
    pub(super) body: &'a [u8],
}

/// The packets in `bytes`; nothing follows a damaged one.
pub(super) fn packets(bytes: &[u8]) -> impl Iterator<Item = Result<Packet<'_>>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let mut reader = Reader(rest.take()?);
        if reader.0.is_empty() {
            return None;
        }
        let packet = packet(&mut reader);
        rest = packet.is_some().then_some(reader.0);
        Some(packet.ok_or_else(damaged))
    })
}

fn packet<'a>(reader: &mut Reader<'a>) -> Option<Packet<'a>> {
    let first = reader.byte()?;
    let (tag, length) = match first {
        0xc0.. => (first & 0x3f, reader.length()?),
        0x80.. => {
            let length = match first & 3 {
                0 => u32::from(reader.byte()?),
                1 => u32::from(reader.short()?),
                2 => reader.long()?,
                // Up to the end: of data only.
                _ => return None,
            };
            ((first >> 2) & 0xf, length)
        }
        _ => return None,
    };
    let tag = match tag {
        2 => Tag::Signature,
        6 => Tag::PublicKey,
        13 => Tag::UserId,
        14 => Tag::PublicSubkey,
        17 => Tag::UserAttribute,
        _ => Tag::Other,
    };
    Some(Packet { tag, body: reader.bytes(length)? })
}

pub(super) fn damaged() -> Error {
    Error::invalid("its OpenPGP data are damaged, or of a kind that is not supported")
}

/// Takes numbers off the front.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// A length of a packet in the new format, or of a subpacket; no partial one.
    pub(super) fn length(&mut self) -> Option<u32> {
        match self.byte()? {
            first @ ..192 => Some(u32::from(first)),
            first @ 192..224 => {
                Some(((u32::from(first) - 192) << 8) + u32::from(self.byte()?) + 192)
            }
            255 => self.long(),
            _ => None,
        }
    }

    /// A length of a subpacket: there are no partial ones there.
    pub(super) fn sub_length(&mut self) -> Option<u32> {
        match self.byte()? {
            first @ ..192 => Some(u32::from(first)),
            255 => self.long(),
            first => Some(((u32::from(first) - 192) << 8) + u32::from(self.byte()?) + 192),
        }
    }

    /// A number of any length, without leading zeros.
    pub(super) fn number(&mut self) -> Option<&'a [u8]> {
        let bits = self.short()?;
        let bytes = self.bytes(u32::from(bits).div_ceil(8))?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes.get(zeros..)
    }
}
