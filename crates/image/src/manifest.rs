//! Manifests and indexes, as the OCI image specification 1.1 and Docker's schema 2 have them.

use std::collections::BTreeMap;

use model::{Error, Result};
use serde::{Deserialize, Deserializer};

use crate::Digest;

/// Longer documents are refused, in bytes.
pub(crate) const LONGEST: u64 = 4 << 20;

/// More layers than that are refused: overlay file systems take no more.
const MOST_LAYERS: usize = 128;

/// More images in one index are refused.
const MOST_IMAGES: usize = 1000;

/// The supported types, most wanted first, for `Accept`.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// The media type of an OCI manifest.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of an OCI index.
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// A document that an image begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// One image.
    Manifest(Box<Manifest>),
    /// Images for several platforms, or several images.
    Index(Vec<Descriptor>),
}

/// One image: its configuration and its layers, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The program's configuration.
    pub config: Descriptor,
    /// File systems, each over those before it.
    pub layers: Vec<Descriptor>,
    /// The builder's annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Some content elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its type.
    #[serde(default)]
    pub media_type: String,
    /// Its digest.
    #[serde(deserialize_with = "digest")]
    pub digest: Digest,
    /// How long it is, in bytes.
    pub size: u64,
    /// For what it is, in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// The builder's annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Other sources: never used, as the operator did not allow requests there.
    #[serde(default)]
    urls: Vec<String>,
}

/// For what an image is, with Go's names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// `linux`
    pub os: String,
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// `v7` of `arm`, `v8` of `arm64`, …
    #[serde(default)]
    pub variant: Option<String>,
}

/// Both kinds at once, as they are written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Content without anything else to say about it.
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
            urls: Vec::new(),
        }
    }
}

impl Document {
    /// Reads one. `kind` is the media type that it was given with, where there was one.
    ///
    /// # Errors
    /// [`Invalid`](model::Kind::Invalid) when it is none, or both kinds at once, so that two readers
    /// could take it for different images (CVE-2021-41190); [`Unsupported`](model::Kind::Unsupported)
    /// when it is one of Docker's before 2017.
    pub fn read(bytes: &[u8], kind: Option<&str>) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("this is no image manifest: {why}"));
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LONGEST {
            return Err(bad("it is longer than 4 MiB"));
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| {
            match bytes.windows(8).any(|part| part == b"fsLayers") {
                true => old(),
                false => bad("its JSON is not one's").because(file::no_json(bytes, error)),
            }
        })?;
        if wire.schema_version == 1 {
            return Err(old());
        }
        let given = kind.map(media_type).filter(|kind| is_known(kind));
        let own = wire.media_type.as_deref();
        if let (Some(given), Some(own)) = (given, own)
            && given != own
        {
            return Err(bad(&format!("it says that it is {own:?}, but was given as {given:?}")));
        }
        let is_index = own.or(given).map(|kind| matches!(kind, OCI_INDEX | DOCKER_INDEX));
        match (wire.manifests, wire.config, wire.layers) {
            (Some(images), None, None) if is_index != Some(false) => index(images),
            (None, Some(config), Some(layers)) if is_index != Some(true) => {
                manifest(config, layers, wire.annotations)
            }
            (Some(_), _, Some(_)) => Err(bad("it is an index, too")),
            _ => Err(bad("it has no config and layers, and no manifests")),
        }
    }
}

impl Platform {
    /// That of this host.
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", Some("v8")),
            "arm" => ("arm", Some("v7")),
            "loongarch64" => ("loong64", None),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", None),
            "powerpc64" => ("ppc64", None),
            "mips64" if cfg!(target_endian = "little") => ("mips64le", None),
            other => (other, None),
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(ToOwned::to_owned),
        }
    }

    /// How well an image for `other` runs here: 0 is best, none is not at all.
    pub fn rank(&self, other: &Self) -> Option<u32> {
        if self.os != other.os || self.architecture != other.architecture {
            return None;
        }
        let least = match self.architecture.as_str() {
            "amd64" => 1,
            "arm64" => 8,
            "arm" => 5,
            _ => 0,
        };
        // Without a variant it runs on each of them, except on arm, where it was v7 for most.
        let own = version(self.variant.as_deref()).unwrap_or(least);
        let usual = if self.architecture == "arm" { own.min(7) } else { least };
        let wanted = match other.variant.as_deref() {
            None | Some("") => usual,
            variant => version(variant)?,
        };
        own.checked_sub(wanted)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

/// Which of these images runs on `platform`, and best.
///
/// # Errors
/// [`NotFound`](model::Kind::NotFound) when none does, with those that there are.
pub fn choose<'a>(images: &'a [Descriptor], platform: &Platform) -> Result<&'a Descriptor> {
    let ranked = images.iter().filter_map(|image| {
        let rank = platform.rank(image.platform.as_ref()?)?;
        Some((rank, image))
    });
    if let Some((_, image)) = ranked.min_by_key(|(rank, _)| *rank) {
        return Ok(image);
    }
    match images {
        [only] if only.platform.is_none() => Ok(only),
        _ => {
            let there: Vec<String> = images
                .iter()
                .filter_map(|image| image.platform.as_ref())
                .take(20)
                .map(ToString::to_string)
                .collect();
            Err(Error::not_found(format!(
                "there is no image for {platform}, only for: {}",
                there.join(", ")
            )))
        }
    }
}

fn index(images: Vec<Descriptor>) -> Result<Document> {
    match images.len() {
        0..=MOST_IMAGES => Ok(Document::Index(images)),
        count => Err(Error::invalid(format!("the index has {count} images, which are too many"))),
    }
}

fn manifest(
    config: Descriptor,
    layers: Vec<Descriptor>,
    annotations: BTreeMap<String, String>,
) -> Result<Document> {
    if layers.len() > MOST_LAYERS {
        let count = layers.len();
        return Err(Error::invalid(format!(
            "the image has {count} layers; {MOST_LAYERS} are possible"
        )));
    }
    if config.size > LONGEST {
        return Err(Error::invalid("the image's configuration is longer than 4 MiB"));
    }
    if let Some(foreign) = layers.iter().find(|layer| !layer.urls.is_empty()) {
        return Err(Error::unsupported(format!(
            "the layer {} is to be fetched from another server than the image's",
            foreign.digest
        )));
    }
    Ok(Document::Manifest(Box::new(Manifest { config, layers, annotations })))
}

fn old() -> Error {
    Error::unsupported(
        "the image is in Docker's schema 1, which is no longer in use: push it again with a newer \
         Docker",
    )
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Without parameters.
fn media_type(header: &str) -> &str {
    header.split(';').next().unwrap_or(header).trim()
}

fn is_known(kind: &str) -> bool {
    [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX].contains(&kind)
}

/// `v8` is 8.
fn version(variant: Option<&str>) -> Option<u32> {
    variant?.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
