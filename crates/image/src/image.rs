//! An image that is ready to run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use model::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{App, Digest};

/// The id of an image: `sha512-…` of the uncompressed tar of an App Container image, `sha256-…` of
/// the manifest of an OCI image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(Digest);

impl ImageId {
    /// The image with that digest.
    pub fn new(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest that it is made of.
    pub fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.algorithm().name(), self.0.hex())
    }
}

impl FromStr for ImageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Digest::parse(text, '-').map(Self).map_err(|error| error.context("image id"))
    }
}

impl Serialize for ImageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An image in the cache, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: ImageId,
    /// The name that it gives itself; of an OCI image, where it is from.
    pub name: String,
    /// Its labels: version, os, arch and others.
    pub labels: BTreeMap<String, String>,
    /// Its program; without one, it is only a part of others.
    pub app: Option<App>,
    /// Directories that lie over each other, the lowest first: its dependencies, then its own. They
    /// are other images' as well: never write there.
    pub layers: Vec<PathBuf>,
}

/// The result of fetching from a registry, a layout or an archive.
#[derive(Debug)]
pub(crate) enum Pulled {
    /// It is in the cache already.
    Known(Image),
    /// It is unpacked in the staging area.
    New(Contents),
}

/// An image that is unpacked, but not in the cache yet.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) id: ImageId,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) app: Option<App>,
    /// Its files, in a directory of the staging area.
    pub(crate) directory: PathBuf,
}
