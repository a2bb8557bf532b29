//! Putting an OCI image together, wherever its parts are.

use std::collections::BTreeMap;
use std::io::Read;

use model::{Error, Result};

use super::Config;
use crate::cache::Staging;
use crate::digest::Hashing;
use crate::image::{Contents, Pulled};
use crate::manifest::{Descriptor, Document, LONGEST, Manifest, Platform, choose};
use crate::unpack::{Budget, inflate, layer};
use crate::{Algorithm, Digest, ImageId, Limits};

/// An index may hold indexes so deep.
const DEEPEST: u32 = 3;

/// The requested image, and its destination.
pub(crate) struct Pull<'a> {
    /// Where it is unpacked.
    pub(crate) staging: &'a Staging,
    /// How much is too much.
    pub(crate) limits: &'a Limits,
    /// The digest that its manifest, or the index with it, must have.
    pub(crate) pin: Option<&'a Digest>,
}

/// Where the parts of an image are.
pub(crate) trait Blobs {
    /// A manifest or an index, and its media type, if that was sent.
    fn document(&self, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)>;

    /// Unverified content.
    fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + '_>>;

    /// Whether digests of layers are those of what they are once they are unpacked, as in Docker's
    /// archives.
    fn hashes_unpacked(&self) -> bool {
        false
    }
}

/// An image whose parts are known.
pub(crate) struct Parts {
    /// Its id.
    pub(crate) id: Digest,
    /// Where it is from.
    pub(crate) name: String,
    /// Which of those there it is.
    pub(crate) tag: Option<String>,
    /// Its manifest.
    pub(crate) manifest: Manifest,
}

impl Pull<'_> {
    /// The image that is listed as `blob`, which may be an index.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest), and when it is not what its digest says.
    pub(crate) fn listed(
        &self,
        blobs: &dyn Blobs,
        blob: &Descriptor,
    ) -> Result<(Digest, Manifest)> {
        self.manifest(blobs, verified(blobs, blob)?)
    }

    /// The image in `top`, which may be an index.
    ///
    /// # Errors
    /// When there is none for this host, or it is not the one that is pinned.
    pub(crate) fn manifest(
        &self,
        blobs: &dyn Blobs,
        top: (Vec<u8>, Option<String>),
    ) -> Result<(Digest, Manifest)> {
        let (mut bytes, mut kind) = top;
        let mut is_pinned = self.pin.is_none();
        for _ in 0..DEEPEST {
            is_pinned |= self.pin.is_some_and(|pin| *pin == Digest::of(pin.algorithm(), &bytes));
            match Document::read(&bytes, kind.as_deref())? {
                Document::Manifest(_) if !is_pinned => return Err(self.unpinned(&bytes)),
                Document::Manifest(manifest) => {
                    return Ok((Digest::of(Algorithm::Sha256, &bytes), *manifest));
                }
                Document::Index(images) => {
                    let image = choose(&images, &Platform::host())?;
                    (bytes, kind) = verified(blobs, image)?;
                }
            }
        }
        Err(Error::invalid("the index is one of indexes of indexes"))
    }

    /// Fetches what there is not, and unpacks it.
    ///
    /// # Errors
    /// When a part is missing, is not what its digest says, or cannot be unpacked.
    pub(crate) fn assemble(&self, blobs: &dyn Blobs, parts: Parts) -> Result<Pulled> {
        let id = ImageId::new(parts.id);
        if let Some(image) = self.staging.known(&id)? {
            return Ok(Pulled::Known(image));
        }
        let config = self.config(blobs, &parts.manifest)?;
        let directory = self.staging.directory()?;
        let mut budget = Budget::new(self.limits);
        for blob in &parts.manifest.layers {
            let reader = blobs.open(blob)?;
            let doing = |error: Error| error.context(format!("layer {}", blob.digest));
            let digest = match blobs.hashes_unpacked() {
                false => self.packed(reader, blob, |reader| layer(reader, &directory, &mut budget)),
                true => {
                    self.unpacked(reader, blob, |reader| layer(reader, &directory, &mut budget))
                }
            };
            verify(&blob.digest, &digest.map_err(doing)?)?;
        }
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        labels.insert("os".to_owned(), config.platform.os);
        labels.insert("arch".to_owned(), config.platform.architecture);
        labels.extend(parts.tag.map(|tag| ("version".to_owned(), tag)));
        Ok(Pulled::New(Contents { id, name: parts.name, labels, app: config.app, directory }))
    }

    fn config(&self, blobs: &dyn Blobs, manifest: &Manifest) -> Result<Config> {
        let blob = &manifest.config;
        let mut bytes = Vec::new();
        blobs.open(blob)?.take(LONGEST.min(blob.size) + 1).read_to_end(&mut bytes).map_err(
            |error| Error::try_again("the image's configuration breaks off").because(error),
        )?;
        verify(&blob.digest, &Digest::of(blob.digest.algorithm(), &bytes))?;
        let config = Config::read(&bytes, &manifest.annotations)?;
        let host = Platform::host();
        match host.rank(&config.platform) {
            Some(_) => Ok(config),
            None => Err(Error::not_found(format!(
                "the image is for {}, and this host is {host}",
                config.platform
            ))),
        }
    }

    /// Unpacks, and hashes what is read.
    fn packed(
        &self,
        reader: Box<dyn Read + '_>,
        blob: &Descriptor,
        unpack: impl FnOnce(&mut dyn Read) -> Result<()>,
    ) -> Result<Digest> {
        let bounded = reader.take(blob.size.saturating_add(1));
        let mut hashing = Hashing::new(bounded, &[blob.digest.algorithm()]);
        let unpacked =
            inflate(Box::new(&mut hashing), self.limits).and_then(|mut plain| unpack(&mut plain));
        // A damaged file can seldom be unpacked; that it is damaged explains more.
        match (unpacked, digest(hashing)) {
            (Err(_), Ok(digest)) if digest != blob.digest => Ok(digest),
            (Err(error), _) => Err(error),
            (Ok(()), digest) => digest,
        }
    }

    /// Unpacks, and hashes what came out.
    fn unpacked(
        &self,
        reader: Box<dyn Read + '_>,
        blob: &Descriptor,
        unpack: impl FnOnce(&mut dyn Read) -> Result<()>,
    ) -> Result<Digest> {
        let plain = inflate(reader, self.limits)?;
        let mut hashing = Hashing::new(plain, &[blob.digest.algorithm()]);
        unpack(&mut hashing)?;
        digest(hashing)
    }

    fn unpinned(&self, bytes: &[u8]) -> Error {
        let found = Digest::of(self.pin.map_or(Algorithm::Sha256, Digest::algorithm), bytes);
        let pin = self.pin.map(ToString::to_string).unwrap_or_default();
        Error::new(
            model::Kind::Denied,
            format!("the image is not the one that is pinned: {found}, not {pin}"),
        )
    }
}

/// A document that is what its digest says.
fn verified(blobs: &dyn Blobs, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)> {
    let (bytes, kind) = blobs.document(blob)?;
    verify(&blob.digest, &Digest::of(blob.digest.algorithm(), &bytes))?;
    Ok((bytes, kind))
}

/// The digest of the whole.
fn digest(hashing: Hashing<impl Read>) -> Result<Digest> {
    let mut digests =
        hashing.finish().map_err(|error| Error::invalid("it cannot be read").because(error))?;
    digests.pop().ok_or_else(|| Error::bug("nothing was hashed"))
}

fn verify(expected: &Digest, found: &Digest) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "what was got as {expected} is {found}: it is damaged, or was changed"
        ))),
    }
}
