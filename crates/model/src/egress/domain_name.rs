//! Names in DNS.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, text};

/// Of a name in DNS, in bytes (RFC 1035 §3.1), and of one label.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A name in DNS, in small letters and without a dot at its end: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainName(String);

impl DomainName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a name below `domain`.
    pub fn is_below(&self, domain: &Self) -> bool {
        let before = self.0.strip_suffix(domain.as_str());
        before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
    }
}

impl FromStr for DomainName {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let lower = given.to_ascii_lowercase();
        let name = lower.strip_suffix('.').unwrap_or(&lower);
        let is_label = |label: &str| {
            let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
            (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_allowed)
        };
        let is_number = |label: &str| label.bytes().all(|it| it.is_ascii_digit());
        let is_name = name.len() <= LONGEST && name.split('.').all(is_label);
        if is_name && !name.rsplit('.').next().is_some_and(is_number) {
            return Ok(Self(name.to_owned()));
        }
        let shown = text::shown(given);
        Err(Error::invalid(format!(
            "'{shown}' is no name of letters, digits, - and _ between dots (others are written as \
             xn--…)"
        )))
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
