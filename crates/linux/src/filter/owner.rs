//! The owner of an element, from its comment.

use std::str::FromStr;

use model::{Error, Result};
use netlink::nft::Comment;

/// The owner of an element: the element's comment, 1 to 64 printable bytes without quotes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub(super) Comment);

impl Owner {
    /// In bytes.
    pub const LONGEST: usize = 64;

    /// As text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > Self::LONGEST {
            return Err(Error::invalid(format!("owner {text:?} is longer than 64 bytes")));
        }
        Ok(Self(text.parse()?))
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
