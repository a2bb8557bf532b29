//! Numbers of VXLAN networks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The number of a VXLAN network, 1 to 2²⁴ − 1 (RFC 7348 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vni(u32);

impl Vni {
    /// The largest.
    pub const LAST: u32 = (1 << 24) - 1;

    /// The VNI of this number, if there is one.
    pub fn new(number: u32) -> Option<Self> {
        (1..=Self::LAST).contains(&number).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Vni {
    type Error = Error;

    fn try_from(number: u32) -> Result<Self> {
        Self::new(number).ok_or_else(|| {
            Error::invalid(format!("VNI {number} is not between 1 and {}", Self::LAST))
        })
    }
}

impl FromStr for Vni {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| {
            let last = Self::LAST;
            Error::invalid(format!("VNI {text:?}: it is a number from 1 to {last}"))
        })
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> u32 {
        vni.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vni_has_24_bits() {
        for text in ["1", "16777215"] {
            assert_eq!(text.parse::<Vni>().unwrap().to_string(), text);
        }
        for text in ["0", "16777216", "-1", "", "x"] {
            assert!(text.parse::<Vni>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        assert!(Vni::try_from(0).is_err() && Vni::try_from(1 << 24).is_err());
        assert_eq!(u32::from(Vni::try_from(7).unwrap()), 7);
    }
}
