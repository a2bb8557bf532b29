//! Which plugin container a network needs.

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use image::Locator;
use model::{Error, Result};
use sha2::{Digest, Sha256};

use crate::Name;
use crate::config::{NetworkConfig, Sandboxing};

/// The user of a container: the name of its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A network's.
    Network(Name),
    /// Of all who want the same of the same image: a digest.
    Image(String),
}

impl Key {
    /// Reads [`Key`]'s text; `None` where it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromStr for Key {
    type Err = Error;

    /// As `spoke kurma status` shows it.
    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("image.") {
            // It becomes a part of a path.
            Some(digest)
                if !digest.is_empty() && digest.bytes().all(|it| it.is_ascii_hexdigit()) =>
            {
                Ok(Self::Image(digest.to_owned()))
            }
            Some(_) => Err(Error::invalid(format!(
                "{text:?} is no plugin container: \"spoke kurma status\" names them"
            ))),
            None => text.parse().map(Self::Network),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(name) => write!(f, "{name}"),
            // No network's name has a dot.
            Self::Image(digest) => write!(f, "image.{digest}"),
        }
    }
}

/// The main process of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Main {
    /// The image's main executable, with this on its standard input.
    OfImage(Vec<u8>),
    /// Nothing: its programs are only called.
    Nothing,
}

/// A plugin container that is to run.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSpec {
    /// Its user.
    pub key: Key,
    /// Its image.
    pub image: Locator,
    /// OpenPGP keys of which one must have signed that, where there are any.
    pub keys: Vec<PathBuf>,
    /// Its rights.
    pub sandboxing: Sandboxing,
    /// Its main process.
    pub main: Main,
}

impl PluginSpec {
    /// The container of a network.
    pub fn network(network: &NetworkConfig) -> Self {
        Self {
            key: Key::Network(network.name.clone()),
            image: network.image.clone(),
            keys: network.keys.clone(),
            sandboxing: network.sandboxing.clone(),
            main: Main::OfImage(network.input()),
        }
    }

    /// The container of all callers of programs out of this image with these rights.
    pub fn image(image: Locator, keys: Vec<PathBuf>, sandboxing: Sandboxing) -> Self {
        let key = Key::Image(String::new());
        let wanted = Self { key, image, keys, sandboxing, main: Main::Nothing };
        let key = Key::Image(wanted.settings().chars().take(24).collect());
        Self { key, ..wanted }
    }

    /// A digest of all that a running container cannot change, but for the image's content.
    pub(super) fn settings(&self) -> String {
        let main = match &self.main {
            Main::OfImage(input) => input.as_slice(),
            Main::Nothing => &[],
        };
        let text = format!("{} {:?} {:?} {}", self.image, self.keys, self.sandboxing, main.len());
        hex(&[text.as_bytes(), main])
    }
}

/// SHA-256 of parts.
pub(crate) fn hex(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_part_of_a_path() {
        let locator = || "docker://a/b".parse().unwrap();
        let (one, same) = (
            PluginSpec::image(locator(), Vec::new(), Sandboxing::default()),
            PluginSpec::image(locator(), Vec::new(), Sandboxing::default()),
        );
        assert_eq!(one, same);
        let more = Sandboxing { privileged: true, ..Sandboxing::default() };
        assert_ne!(PluginSpec::image(locator(), Vec::new(), more).key, one.key);
        let text = one.key.to_string();
        assert_eq!((text.len(), Key::read(&text).unwrap()), (30, one.key));
        assert_eq!(Key::read("my-net").unwrap().to_string(), "my-net");
        for bad in ["..", "image.", "image.../..", "image.0a/b"] {
            assert_eq!(Key::read(bad), None, "{bad}");
        }
    }
}
