//! The largest packet of a link.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A device's maximum transmission unit in bytes, at least 68 (RFC 791 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mtu(u32);

impl Mtu {
    /// The MTU, if the kernel would take it for a veth or bridge.
    pub fn new(bytes: u32) -> Option<Self> {
        (68..=65_535).contains(&bytes).then_some(Self(bytes))
    }

    /// In bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
