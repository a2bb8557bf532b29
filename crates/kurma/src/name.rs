//! Kurma's two kinds of names: of a network, and of a pod.

use std::fmt;
use std::str::FromStr;

use model::{ContainerId, Error, Result, text};

/// A longer name is refused: it has to fit into a directory's name with room to spare.
const LONGEST: usize = 50;

/// The name of a network: it names a container too, so it is an AC Name of the App Container
/// specification, `[a-z0-9]+(-[a-z0-9]+)*`, of at most 50 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let is_part = |part: &str| {
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !part.is_empty() && part.bytes().all(is_word)
        };
        if name.len() <= LONGEST && name.split('-').all(is_part) {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::invalid(format!(
            "{:?} is no network's name: write lower-case letters and digits, with single '-' \
             between them, at most {LONGEST}",
            text::shown(name)
        )))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which pod: a UUID in the text form of RFC 9562 §4, kept in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(String);

impl PodId {
    /// The UUID as text of 36 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its first eight characters: what a template's `shortuuid` is.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl FromStr for PodId {
    type Err = Error;

    fn from_str(uuid: &str) -> Result<Self> {
        let lengths = [8, 4, 4, 4, 12];
        let parts: Vec<&str> = uuid.split('-').collect();
        let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fits = |(part, length): (&&str, &usize)| part.len() == *length && is_hex(part);
        if parts.len() == lengths.len() && parts.iter().zip(&lengths).all(fits) {
            return Ok(Self(uuid.to_ascii_lowercase()));
        }
        Err(Error::invalid(format!(
            "{:?} is no UUID: write it like 146d7cef-fbf6-41da-a2f8-eba218597f9c",
            text::shown(uuid)
        )))
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&PodId> for ContainerId {
    type Error = Error;

    fn try_from(pod: &PodId) -> Result<Self> {
        pod.0.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_named_as_an_app() {
        for good in ["a", "0", "mynet", "my-net-2"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        let long = "a".repeat(51);
        for bad in ["", "Bad_Name", "a.b", "-a", "a-", "a--b", "a/b", "ä", "..", &long] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_pod_is_a_uuid() {
        let pod: PodId = "146D7CEF-fbf6-41da-a2f8-eba218597f9c".parse().unwrap();
        assert_eq!(pod.as_str(), "146d7cef-fbf6-41da-a2f8-eba218597f9c");
        assert_eq!(pod.short(), "146d7cef");
        let bad = [
            "",
            "x",
            "146d7cef",
            "146d7cef-fbf6-41da-a2f8-eba218597f9",
            "../../etc/passwd",
            "146d7ceffbf641daa2f8eba218597f9c",
            "g46d7cef-fbf6-41da-a2f8-eba218597f9c",
        ];
        for bad in bad {
            assert!(bad.parse::<PodId>().is_err(), "{bad:?}");
        }
    }
}
