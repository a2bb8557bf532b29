//! Detached OpenPGP signatures (RFC 9580; RFC 4880 for what is older), as `image.aci.asc` has them.
//!
//! What is read: keys and signatures of version 4, RSA of 2048 to 8192 bits and Ed25519, with SHA-256,
//! SHA-384 or SHA-512. Keys that are expired or revoked, keys without a valid signature of their own,
//! and subkeys that are not bound in both directions verify nothing. The arithmetic is `ring`'s; what a
//! library would cost stands in docs/design/dependencies.md.

mod armor;
mod key;
mod packet;
mod public;
mod statement;

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::{Error, Kind, Result};

use key::Key;
use packet::{Packet, Tag};
use statement::{SignaturePacket, Type};

/// The longest file of keys, and the longest signature, in bytes.
const LONGEST: u64 = 4 << 20;
/// The longest signature, in bytes.
pub(crate) const LONGEST_SIGNATURE: u64 = 1 << 20;

/// How many signatures of one image are looked at: checking each hashes the whole image.
const MOST_SIGNATURES: usize = 16;

/// Checks that one of `signatures` (a detached signature, armoured or not) is one of `keys` (the
/// same) over `message`, at `now` (seconds since 1970); returns the fingerprint of the key.
///
/// # Errors
/// [`Kind::Denied`] when it is not, [`Kind::Invalid`] or [`Kind::Unsupported`] when that cannot be
/// decided.
pub fn verify(keys: &[u8], signatures: &[u8], message: &[u8], now: u64) -> Result<String> {
    let mut ring = Ring::default();
    ring.add(keys, now)?;
    ring.verify(signatures, &mut message.to_vec(), now)
}

/// The keys whose signatures count.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    keys: Vec<Key>,
}

impl Ring {
    /// Reads the keys in `files`.
    ///
    /// # Errors
    /// A file cannot be read, or holds no key that can be used at `now` (seconds since 1970).
    pub(crate) fn read(files: &[PathBuf], now: u64) -> Result<Self> {
        let mut ring = Self::default();
        for path in files {
            let at = |error: Error| error.context(format!("key file {}", path.display()));
            let failed =
                |error| file::failed(format!("reading key file {}", path.display()), error);
            let bytes = file::read(path, LONGEST).map_err(failed)?;
            ring.add(&bytes, now).map_err(at)?;
        }
        Ok(ring)
    }

    /// Adds the keys in `bytes`, armoured or not.
    pub(crate) fn add(&mut self, bytes: &[u8], now: u64) -> Result<()> {
        let mut found = Vec::new();
        for block in armor::blocks(bytes, "PGP PUBLIC KEY BLOCK")? {
            found.extend(key::read(&block, now)?);
        }
        if found.is_empty() {
            return Err(Error::invalid("it holds no OpenPGP public key"));
        }
        let mut why = None;
        for key in found {
            match key {
                Ok(key) => self.keys.push(key),
                Err(error) => why = Some(error),
            }
        }
        why.filter(|_| self.keys.is_empty()).map_or(Ok(()), Err)
    }

    /// The fingerprints of the primary keys, in hexadecimal digits.
    pub(crate) fn fingerprints(&self) -> BTreeSet<String> {
        self.keys.iter().map(|key| key.fingerprint()).collect()
    }

    /// Checks that one of `signatures` (a detached signature file) is one of these keys over `message`,
    /// which has its content back afterwards; gives the fingerprint of the primary key.
    ///
    /// # Errors
    /// None is; the sentence says why.
    pub(crate) fn verify(
        &self,
        signatures: &[u8],
        message: &mut Vec<u8>,
        now: u64,
    ) -> Result<String> {
        let (mut why, mut count) = (None, 0);
        for block in armor::blocks(signatures, "PGP SIGNATURE")? {
            for packet in packet::packets(&block) {
                let Packet { tag: Tag::Signature, body } = packet? else { continue };
                count += 1;
                if count > MOST_SIGNATURES {
                    return Err(denied(&format!(
                        "none of its first {MOST_SIGNATURES} signatures is good, and more are not \
                         looked at"
                    )));
                }
                match SignaturePacket::parse(body)
                    .and_then(|statement| self.check(&statement, message, now))
                {
                    Ok(fingerprint) => return Ok(fingerprint),
                    Err(error) => why = Some(error),
                }
            }
        }
        Err(why.unwrap_or_else(|| denied("its signature file holds no signature")))
    }

    fn check(
        &self,
        statement: &SignaturePacket,
        message: &mut Vec<u8>,
        now: u64,
    ) -> Result<String> {
        if statement.kind != Type::Binary {
            return Err(denied("its signature is not one of a binary file"));
        }
        if statement.made > now.saturating_add(3600) {
            return Err(denied("its signature is from the future: are the clocks right?"));
        }
        if statement.is_over(now) {
            return Err(denied("its signature has expired"));
        }
        let mut why = None;
        for key in &self.keys {
            match key.check(statement, message) {
                Some(Ok(())) => return Ok(key.fingerprint()),
                Some(Err(error)) => why = Some(error),
                None => {}
            }
        }
        Err(why.unwrap_or_else(|| {
            let by = statement.issuer().unwrap_or_else(|| "a key without a name".to_owned());
            denied(&format!("it is signed by {by}, which is not among the configured keys"))
        }))
    }
}

/// The signature is not what is needed.
fn denied(why: &str) -> Error {
    Error::new(Kind::Denied, why)
}

#[cfg(test)]
mod tests;
