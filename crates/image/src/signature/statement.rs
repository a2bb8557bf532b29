//! Signature packets (RFC 9580, section 5.2).

use model::{Error, Result};

use super::packet::{Reader, damaged};
use super::public::{Hashed, Numbers, Public};

/// The kind of what was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A file.
    Binary,
    /// That a name belongs to a key.
    Certification,
    /// That a subkey belongs to a key.
    SubkeyBinding,
    /// That a key belongs to a subkey, by the subkey.
    PrimaryBinding,
    /// Something about a key itself.
    Direct,
    Other,
}

/// A signature, and what it says.
#[derive(Clone, Debug)]
pub(super) struct SignaturePacket {
    pub(super) kind: Type,
    /// Seconds since 1970.
    pub(super) made: u64,
    /// For how many seconds it holds; 0 is for ever.
    lasts: u64,
    /// For how many seconds the key that it is about holds; 0 is for ever.
    pub(super) key_lasts: u64,
    /// Whether the key that it is about may sign, if it says so.
    pub(super) may_sign: Option<bool>,
    /// The subkey's own word on belonging to the key.
    pub(super) embedded: Option<Vec<u8>>,
    issuer: Option<[u8; 8]>,
    fingerprint: Option<[u8; 20]>,
    hashed: Hashed,
    numbers: Numbers,
    /// The part of it that is signed as well.
    trailer: Vec<u8>,
}

impl SignaturePacket {
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader(body);
        let version = reader.byte().ok_or_else(damaged)?;
        if version != 4 {
            return Err(Error::unsupported(format!(
                "its signature has version {version} of OpenPGP: only 4 is supported"
            )));
        }
        let kind = kind(reader.byte().ok_or_else(damaged)?);
        let algorithm = reader.byte().ok_or_else(damaged)?;
        let hashed = Hashed::read(reader.byte().ok_or_else(damaged)?)?;
        let length = reader.short().ok_or_else(damaged)?;
        let inner = reader.bytes(u32::from(length)).ok_or_else(damaged)?;
        let signed = body.get(..6 + usize::from(length)).ok_or_else(damaged)?;
        let length = reader.short().ok_or_else(damaged)?;
        let outer = reader.bytes(u32::from(length)).ok_or_else(damaged)?;
        // The hash's first bytes: a hint only.
        reader.short().ok_or_else(damaged)?;
        let numbers = Numbers::read(algorithm, &mut reader)?;
        let size = u32::try_from(signed.len()).map_err(|_| damaged())?.to_be_bytes();
        let mut statement = Self {
            kind,
            made: 0,
            lasts: 0,
            key_lasts: 0,
            may_sign: None,
            embedded: None,
            issuer: None,
            fingerprint: None,
            hashed,
            numbers,
            trailer: [signed, &[4, 0xff], &size].concat(),
        };
        statement.subpackets(inner, true)?;
        statement.subpackets(outer, false)?;
        if statement.made == 0 { Err(damaged()) } else { Ok(statement) }
    }

    /// Reads subpackets; what is not signed is a hint at most.
    fn subpackets(&mut self, bytes: &[u8], signed: bool) -> Result<()> {
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            let length = reader.sub_length().ok_or_else(damaged)?;
            let mut sub = Reader(reader.bytes(length).ok_or_else(damaged)?);
            let number = sub.byte().ok_or_else(damaged)?;
            match number & 0x7f {
                16 => self.issuer = sub.0.try_into().ok(),
                32 => self.embedded = Some(sub.0.to_vec()),
                33 => self.fingerprint = sub.0.strip_prefix(&[4]).and_then(|id| id.try_into().ok()),
                _ if !signed => {}
                2 => self.made = sub.long().ok_or_else(damaged)?.into(),
                3 => self.lasts = sub.long().ok_or_else(damaged)?.into(),
                9 => self.key_lasts = sub.long().ok_or_else(damaged)?.into(),
                27 => self.may_sign = sub.byte().map(|flags| flags & 2 != 0),
                // Preferences, which cannot change what a signature means.
                11 | 21..=26 | 28..=30 | 34 | 39 => {}
                _ if number & 0x80 != 0 => {
                    return Err(super::denied("its signature has a condition that is not known"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it holds no longer.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.lasts != 0 && self.made + self.lasts <= now
    }

    /// Whether `key` may have made it: it is named, or no key is.
    pub(super) fn is_by(&self, key: &Public) -> bool {
        let named = self.fingerprint.is_none_or(|named| named == key.fingerprint);
        named && self.issuer.is_none_or(|id| key.fingerprint.ends_with(&id))
    }

    /// The key that is named.
    pub(super) fn issuer(&self) -> Option<String> {
        let long = self.fingerprint.map(|bytes| crate::digest::hex(&bytes));
        long.or_else(|| self.issuer.map(|bytes| crate::digest::hex(&bytes)))
    }

    /// Whether it is `key`'s over `message`, which has its content back afterwards.
    pub(super) fn check(&self, key: &Public, message: &mut Vec<u8>) -> Result<()> {
        let length = message.len();
        message.extend(&self.trailer);
        let checked = key.verifies(message, self.hashed, &self.numbers);
        message.truncate(length);
        checked
    }
}

fn kind(number: u8) -> Type {
    match number {
        0 => Type::Binary,
        0x10..=0x13 => Type::Certification,
        0x18 => Type::SubkeyBinding,
        0x19 => Type::PrimaryBinding,
        0x1f => Type::Direct,
        _ => Type::Other,
    }
}
