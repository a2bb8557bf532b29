//! OCI image layouts (OCI image specification 1.1, image-layout.md), and what all OCI images have
//! in common.

mod config;
mod index;
mod pull;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use model::{Error, Result};

pub use config::{Config, MOUNTS, PRIVILEGED};
pub(crate) use index::{Index, select};
pub(crate) use pull::{Blobs, Parts, Pull};

use crate::image::Pulled;
use crate::manifest::{Descriptor, LONGEST};

/// Takes an image out of the layout in a directory.
///
/// # Errors
/// When it is no layout, or has no such image, or not only one.
pub(crate) fn pull(pull: &Pull<'_>, path: &Path, tag: Option<&str>) -> Result<Pulled> {
    let layout = Layout { path };
    let doing = |error: Error| error.context(path.display());
    layout.pull(pull, tag).map_err(doing)
}

struct Layout<'a> {
    path: &'a Path,
}

impl Layout<'_> {
    fn pull(&self, pull: &Pull<'_>, tag: Option<&str>) -> Result<Pulled> {
        let index = bounded(self.file(Path::new("index.json"))?)?;
        let Index { images } = Index::read(&index)?;
        let image = select(&images, tag, pull.pin)?;
        let (id, manifest) = pull.listed(self, image)?;
        let name = self.path.display().to_string();
        pull.assemble(self, Parts { id, name, tag: tag.map(ToOwned::to_owned), manifest })
    }

    fn file(&self, path: &Path) -> Result<File> {
        file::open(&self.path.join(path))
            .map_err(|error| file::failed(format!("opening its {}", path.display()), error))
    }
}

impl Blobs for Layout<'_> {
    fn document(&self, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)> {
        let kind = Some(blob.media_type.clone()).filter(|kind| !kind.is_empty());
        Ok((bounded(self.open(blob)?)?, kind))
    }

    fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.file(&path(blob))?))
    }
}

/// Where a layout has content.
pub(crate) fn path(blob: &Descriptor) -> PathBuf {
    ["blobs", blob.digest.algorithm().name(), blob.digest.hex()].iter().collect()
}

/// The whole of a document.
pub(crate) fn bounded(reader: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::os("reading a manifest", error))?;
    Ok(bytes)
}
