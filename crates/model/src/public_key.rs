//! The public key of a host's tunnels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, Result};

/// A public key of Curve25519 (RFC 7748), as WireGuard has them; as text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || Error::invalid("a public key is 64 hexadecimal digits");
        let mut key = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refused());
        }
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            let digits = text.get(at..at + 2).ok_or_else(refused)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refused())?;
        }
        Ok(Self(key))
    }
}

by_text!(PublicKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_text_and_back() {
        let text = "0f".repeat(32);
        assert_eq!(text.parse::<PublicKey>().unwrap().to_string(), text);
        for bad in ["", "0f", &"0g".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
    }
}
