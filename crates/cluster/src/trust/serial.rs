//! What a certificate is known by, and what it is made for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// The number of a certificate: 32 hexadecimal digits (RFC 5280 §4.1.2.2: positive, at most 20 bytes).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Serial(String);

impl Serial {
    /// A new one.
    ///
    /// # Errors
    /// `Kernel` where there is no randomness.
    pub fn new() -> Result<Self> {
        let mut bytes = super::random::<16>()?;
        // Neither a sign nor a leading zero, which would be written in another way.
        bytes[0] = bytes[0] & 0x3f | 0x40;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let digits = self.0.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.filter_map(byte).collect()
    }
}

impl TryFrom<String> for Serial {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| (b'4'..=b'7').contains(&byte));
        match text.len() == 32 && begins && text.bytes().all(is_digit) {
            true => Ok(Self(text)),
            false => Err(Error::invalid("no number of a certificate")),
        }
    }
}

impl From<Serial> for String {
    fn from(serial: Serial) -> Self {
        serial.0
    }
}

/// What the cluster knows of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRecord {
    /// SHA-256 of it as DER, in hexadecimal digits.
    pub digest: String,
    /// Its end.
    pub expires: Timestamp,
}

/// A public key on the curve P-256, as an uncompressed point (RFC 5480 §2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// In bytes: a mark and two coordinates.
    const LENGTH: usize = 1 + 2 * 32;
    const UNCOMPRESSED: u8 = 4;

    /// # Errors
    /// `Invalid` where it cannot be one.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        match bytes.len() == Self::LENGTH && bytes.first() == Some(&Self::UNCOMPRESSED) {
            true => Ok(Self(bytes.to_vec())),
            false => Err(Error::invalid("no public key on the curve P-256")),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for PublicKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let bytes = STANDARD.decode(text);
        Self::new(&bytes.map_err(|_| Error::invalid("a public key is no base64"))?)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        STANDARD.encode(key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_is_read_as_it_was_written() {
        let serial = Serial::new().unwrap();
        assert_eq!(Serial::try_from(serial.as_str().to_owned()).unwrap(), serial);
        assert_eq!(serial.bytes().len(), 16);
        for bad in ["", "41", &"8".repeat(32), &"0".repeat(32), &"4G".repeat(16)] {
            assert!(Serial::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_point_is_no_key() {
        assert!(PublicKey::new(&[4; 65]).is_ok());
        for bad in [&[4; 64][..], &[2; 65], &[]] {
            assert!(PublicKey::new(bad).is_err());
        }
        assert!(PublicKey::try_from("*".to_owned()).is_err());
    }
}
