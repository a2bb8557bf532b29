//! Digests of content.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use model::{Error, Result};
use ring::digest::{Context, SHA256, SHA512};
use serde::{Deserialize, Serialize};

/// A hash that is still safe to rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-256: what OCI registries use.
    Sha256,
    /// SHA-512: what the App Container specification uses.
    Sha512,
}

impl Algorithm {
    /// `sha256` or `sha512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How long its digests are, in hexadecimal digits.
    fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// The digest of some bytes: `sha256:9f86…`, as in the OCI image specification (descriptor.md).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// The hash of `bytes`.
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hash = Hash::new(algorithm);
        hash.update(bytes);
        hash.finish()
    }

    /// With what it was made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hash in lower-case hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Parses `text`, whose algorithm ends before `separator`.
    pub(crate) fn parse(text: &str, separator: char) -> Result<Self> {
        let wrong = |why: &str| Error::invalid(format!("digest {text:?} {why}"));
        let Some((name, hex)) = text.split_once(separator) else {
            return Err(wrong("has no algorithm in front: sha256 or sha512"));
        };
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(wrong("is neither sha256 nor sha512")),
        };
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != algorithm.digits() || !hex.bytes().all(lower) {
            let digits = algorithm.digits();
            return Err(wrong(&format!("does not have {digits} lower-case hexadecimal digits")));
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, ':')
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

/// A hash that is being computed.
#[derive(Clone)]
pub(crate) struct Hash {
    algorithm: Algorithm,
    context: Context,
}

impl Hash {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let context = match algorithm {
            Algorithm::Sha256 => Context::new(&SHA256),
            Algorithm::Sha512 => Context::new(&SHA512),
        };
        Self { algorithm, context }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        let digest = self.context.finish();
        Digest { algorithm: self.algorithm, hex: hex(digest.as_ref()) }
    }
}

/// Hashes what is read through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hashes: Vec<Hash>,
}

impl<R: Read> Hashing<R> {
    /// With each of `algorithms`.
    pub(crate) fn new(inner: R, algorithms: &[Algorithm]) -> Self {
        Self { inner, hashes: algorithms.iter().copied().map(Hash::new).collect() }
    }

    /// The digests of the whole content: reads the rest.
    pub(crate) fn finish(mut self) -> io::Result<Vec<Digest>> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hashes.into_iter().map(Hash::finish).collect())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hashes.iter_mut().for_each(|hash| hash.update(&buffer[..count]));
        Ok(count)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_shown() {
        let digest = Digest::of(Algorithm::Sha256, b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), digest);
        for wrong in ["", "sha256:", "md5:00", "sha256:E3", &text[..70], &text.to_uppercase()] {
            assert_eq!(
                wrong.parse::<Digest>().unwrap_err().kind(),
                model::Kind::Invalid,
                "{wrong}"
            );
        }
    }
}
