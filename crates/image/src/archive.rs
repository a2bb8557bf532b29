//! Images in one file: OCI layouts in a tar archive, and what `docker save` writes.

mod docker;
mod table;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use model::{Error, Result};

use crate::image::Pulled;
use crate::layout::{self, Blobs, Index, Parts, Pull, bounded, select};
use crate::manifest::Descriptor;
use crate::unpack::inflate;
use table::Table;

/// Takes an image out of an archive, which may be compressed.
///
/// # Errors
/// When it is none, or has no such image, or not only one.
pub(crate) fn pull(pull: &Pull<'_>, path: &Path, tag: Option<&str>) -> Result<Pulled> {
    let doing = |error: Error| error.context(path.display());
    let file = file::open(path).map_err(|error| doing(file::failed("opening it", error)))?;
    take(pull, file, &path.display().to_string(), tag).map_err(doing)
}

fn take(pull: &Pull<'_>, file: File, name: &str, tag: Option<&str>) -> Result<Pulled> {
    let table = Table::read(plain(pull, file)?)?;
    let tag = tag.map(ToOwned::to_owned);
    // Docker writes both today, but the layout has the image's true digest.
    if table.has("index.json") {
        let index = Index::read(&bounded(table.open("index.json")?)?)?;
        let image = select(&index.images, tag.as_deref(), pull.pin)?;
        let (id, manifest) = pull.listed(&table, image)?;
        let parts = Parts { id, name: name.to_owned(), tag, manifest };
        return pull.assemble(&table, parts);
    }
    if !table.has("manifest.json") {
        return Err(Error::invalid("it has neither an index.json nor a manifest.json"));
    }
    let saved = docker::Saved::read(&table, tag.as_deref())?;
    if pull.pin.is_some_and(|pin| *pin != saved.config.digest) {
        let (found, pin) = (&saved.config.digest, pull.pin.map(ToString::to_string));
        let pin = pin.unwrap_or_default();
        return Err(Error::new(
            model::Kind::Denied,
            format!("the image is not the one that is pinned: {found}, not {pin}"),
        ));
    }
    let parts = Parts {
        id: saved.config.digest.clone(),
        name: saved.name.clone().unwrap_or_else(|| name.to_owned()),
        tag,
        manifest: saved.manifest(),
    };
    pull.assemble(&saved, parts)
}

/// The file itself, or what is compressed in it.
fn plain(pull: &Pull<'_>, mut file: File) -> Result<File> {
    let mut magic = [0; 262];
    let count = file.read(&mut magic).map_err(|error| Error::os("reading it", error))?;
    file.rewind().map_err(|error| Error::os("reading it", error))?;
    if magic[..count].ends_with(b"ustar") {
        return Ok(file);
    }
    let (_, mut plain) = pull.staging.file()?;
    let mut reader = inflate(Box::new(file), pull.limits)?;
    io::copy(&mut reader, &mut plain)
        .map_err(|error| Error::invalid("it cannot be unpacked").because(error))?;
    plain.rewind().map_err(|error| Error::os("reading it", error))?;
    Ok(plain)
}

impl Blobs for Table {
    fn document(&self, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)> {
        let kind = Some(blob.media_type.clone()).filter(|kind| !kind.is_empty());
        Ok((bounded(self.open_blob(blob)?)?, kind))
    }

    fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.open_blob(blob)?))
    }
}

impl Table {
    fn open_blob(&self, blob: &Descriptor) -> Result<impl Read + use<>> {
        self.open(&layout::path(blob).to_string_lossy())
    }
}
