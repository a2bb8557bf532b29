//! The older output of `docker save`, without an OCI layout: `manifest.json`, and tar archives of
//! layers.

use std::collections::BTreeMap;
use std::io::Read;

use model::{Error, Result};
use serde::Deserialize;

use super::table::Table;
use crate::layout::{Blobs, Config, bounded};
use crate::manifest::{Descriptor, Manifest};
use crate::{Algorithm, Digest};

/// An image in such an archive.
pub(super) struct Saved<'a> {
    table: &'a Table,
    /// Its name there.
    pub(super) name: Option<String>,
    /// Its configuration.
    pub(super) config: Descriptor,
    /// The digests of the unpacked layers, lowest first.
    layers: Vec<Descriptor>,
    paths: BTreeMap<Digest, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Wire {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl<'a> Saved<'a> {
    /// The image that is called `tag`, or that is the only one.
    pub(super) fn read(table: &'a Table, tag: Option<&str>) -> Result<Self> {
        let text = bounded(table.open("manifest.json")?)?;
        let images: Vec<Wire> = serde_json::from_slice(&text).map_err(|error| {
            Error::invalid("its manifest.json is not valid").because(file::no_json(&text, error))
        })?;
        let wire = select(&images, tag)?;
        let config = bounded(table.open(&wire.config)?)?;
        let known = Config::read(&config, &BTreeMap::new())?;
        if known.layers.len() != wire.layers.len() {
            return Err(Error::invalid(
                "its configuration has other layers than its manifest.json",
            ));
        }
        let digest = Digest::of(Algorithm::Sha256, &config);
        let mut paths: BTreeMap<Digest, String> =
            known.layers.iter().cloned().zip(wire.layers.iter().cloned()).collect();
        paths.insert(digest.clone(), wire.config.clone());
        let blob = |digest: Digest, path: &str| {
            Ok::<_, Error>(Descriptor::new("", digest, table.size(path)?))
        };
        let layers = known.layers.into_iter().zip(&wire.layers);
        Ok(Self {
            table,
            name: wire.repo_tags.iter().flatten().next().cloned(),
            config: blob(digest, &wire.config)?,
            layers: layers.map(|(digest, path)| blob(digest, path)).collect::<Result<_>>()?,
            paths,
        })
    }

    /// The equivalent manifest, which is not in the archive.
    pub(super) fn manifest(&self) -> Manifest {
        Manifest {
            config: self.config.clone(),
            layers: self.layers.clone(),
            annotations: BTreeMap::new(),
        }
    }
}

impl Blobs for Saved<'_> {
    fn document(&self, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)> {
        Err(Error::bug(format!("an archive of docker save has no manifest {}", blob.digest)))
    }

    fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + '_>> {
        let path = self.paths.get(&blob.digest).map(String::as_str).unwrap_or_default();
        Ok(Box::new(self.table.open(path)?))
    }

    fn hashes_unpacked(&self) -> bool {
        true
    }
}

fn select<'a>(images: &'a [Wire], tag: Option<&str>) -> Result<&'a Wire> {
    let is_called = |image: &&Wire| match tag {
        Some(tag) => image.repo_tags.iter().flatten().any(|name| {
            let rest = name.strip_suffix(tag);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with([':', '/']))
        }),
        None => true,
    };
    let found: Vec<&Wire> = images.iter().filter(is_called).collect();
    match found.as_slice() {
        [only] => Ok(only),
        _ => {
            let names = images.iter().filter_map(|image| image.repo_tags.as_ref()).flatten();
            let names: Vec<&str> = names.map(String::as_str).collect();
            Err(Error::not_found(format!(
                "it has no such image, or several; there are: {}",
                names.join(", ")
            )))
        }
    }
}
