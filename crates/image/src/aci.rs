//! App Container images (App Container specification 0.8, "App Container Image"): a tar archive with
//! `manifest` and `rootfs`, plain or compressed, and nothing else.

mod isolator;
mod manifest;
mod whitelist;

use std::io::Read;
use std::path::{Path, PathBuf};

use model::{Error, Result};

pub(crate) use manifest::{Dependency, Manifest};
pub(crate) use whitelist::flatten;

use crate::digest::Hashing;
use crate::unpack::{Archive, Budget, Entry, Kind, Tree, Twice, clean, inflate};
use crate::{Algorithm, Digest, Limits};

/// An image whose root file system is unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) manifest: Manifest,
    /// Of the uncompressed tar, as SHA-512: the image's id.
    pub(crate) digest: Digest,
    /// The digests that may pin it: of its tar and of its file, in the requested algorithm.
    pub(crate) digests: Vec<Digest>,
}

/// Unpacks the image that `reader` gives into the empty directory `into`, while it hashes it; with
/// `pin` also in that algorithm.
///
/// # Errors
/// It is broken, holds what no image may, or exceeds `limits`; what is in `into` is of no use then.
pub(crate) fn unpack(
    reader: &mut dyn Read,
    into: &Path,
    limits: &Limits,
    pin: Option<Algorithm>,
) -> Result<Unpacked> {
    let unreadable = |error| Error::invalid("it cannot be unpacked").because(error);
    let outer: Vec<_> = pin.into_iter().collect();
    let mut inner = vec![Algorithm::Sha512];
    inner.extend(pin.filter(|pin| *pin != Algorithm::Sha512));
    let mut file = Hashing::new(reader, &outer);
    let mut tar = Hashing::new(inflate(Box::new(&mut file), limits)?, &inner);
    let manifest = archive(&mut tar, into, limits)?;
    let mut digests = tar.finish().map_err(unreadable)?;
    digests.extend(file.finish().map_err(unreadable)?);
    let manifest = Manifest::parse(&manifest)?;
    let digest = digests.first().cloned();
    let digest = digest.ok_or_else(|| Error::bug("an image was unpacked without its hash"))?;
    Ok(Unpacked { manifest, digest, digests })
}

/// Unpacks the tar; gives its manifest.
fn archive(reader: &mut dyn Read, into: &Path, limits: &Limits) -> Result<Vec<u8>> {
    let mut budget = Budget::new(limits);
    let mut tree = Tree::open(into, Twice::Refused, &mut budget)?;
    let mut archive = Archive::new(reader);
    let (mut manifest, mut has_root) = (None, false);
    while let Some(entry) = archive.next()? {
        tree.budget.take(&entry)?;
        match part(&entry)? {
            AciPart::Nothing => {}
            AciPart::Manifest if manifest.is_some() => return Err(twice("manifest")),
            AciPart::Manifest => manifest = Some(content(&entry, &mut archive, limits.manifest)?),
            AciPart::Root if has_root => return Err(twice("rootfs")),
            AciPart::Root => has_root = true,
            AciPart::Below(path) => {
                tree.budget.check(&path)?;
                let link = linked(&entry)?;
                let at =
                    |error: Error| error.context(format!("{:?}", Path::new("rootfs").join(&path)));
                tree.put(&path, &entry, link.as_deref(), &mut archive).map_err(at)?;
                has_root = true;
            }
        }
    }
    archive.finish()?;
    let manifest = manifest.ok_or_else(|| missing("manifest"))?;
    if has_root { Ok(manifest) } else { Err(missing("rootfs")) }
}

/// The part of an image to which an entry belongs.
enum AciPart {
    /// The archive's own directory.
    Nothing,
    Manifest,
    Root,
    Below(PathBuf),
}

fn part(entry: &Entry) -> Result<AciPart> {
    let Some(path) = clean(&entry.path)? else { return Ok(AciPart::Nothing) };
    match below_root(&path) {
        Some(below) if below.as_os_str().is_empty() => match entry.kind {
            Kind::Directory => Ok(AciPart::Root),
            _ => Err(Error::invalid("its rootfs is no directory")),
        },
        Some(below) => Ok(AciPart::Below(below.to_owned())),
        None if path == Path::new("manifest") && entry.kind == Kind::File => Ok(AciPart::Manifest),
        None => Err(Error::invalid(format!(
            "it holds {path:?}: an App Container image holds manifest and rootfs only"
        ))),
    }
}

/// The target of a hard link.
fn linked(entry: &Entry) -> Result<Option<PathBuf>> {
    if entry.kind != Kind::Hard {
        return Ok(None);
    }
    let to = clean(&entry.link)?;
    let below = to.as_deref().and_then(below_root).map(Path::to_owned);
    below.map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "\"{}\" is a link to \"{}\", which is not in the rootfs",
            entry.path.escape_ascii(),
            entry.link.escape_ascii()
        ))
    })
}

fn below_root(path: &Path) -> Option<&Path> {
    path.strip_prefix("rootfs").ok()
}

fn content(entry: &Entry, archive: &mut Archive<'_>, limit: u64) -> Result<Vec<u8>> {
    if entry.size > limit {
        return Err(Error::invalid(format!("its manifest is longer than {limit} bytes")));
    }
    let mut bytes = Vec::new();
    let read = archive.read_to_end(&mut bytes);
    read.map_err(|error| Error::invalid("its manifest is cut off").because(error))?;
    Ok(bytes)
}

fn twice(what: &str) -> Error {
    Error::invalid(format!("it holds {what} twice"))
}

fn missing(what: &str) -> Error {
    Error::invalid(format!("it holds no {what}: is it an App Container image?"))
}

#[cfg(test)]
mod tests;
