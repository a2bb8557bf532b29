//! Fetching an image with all that it lies on.

use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use model::{Error, Kind, Result};

use super::received::{Received, check_name, mismatch, open};
use super::trust::Trust;
use super::{Images, key, stamp};
use crate::aci::{self, Dependency, Manifest};
use crate::cache::{LocatorRecord, Record, Staging};
use crate::discover::{self, ImageUrls};
use crate::image::{Contents, Pulled};
use crate::layout::{self, Pull};
use crate::locator::Source;
use crate::registry::{self, Credentials};
use crate::signature::LONGEST_SIGNATURE;
use crate::transport::Call;
use crate::{Algorithm, AppName, Digest, ImageId, Locator, Url, archive};

/// How many images may lie below each other.
const DEEPEST: usize = 16;

/// One image, and those that it needs.
pub(super) struct Fetch<'a> {
    images: &'a Images,
    /// The images on the path from the image, and their names. Images of one name may differ in their labels.
    above: Vec<(ImageId, String)>,
}

impl<'a> Fetch<'a> {
    pub(super) fn new(images: &'a Images) -> Self {
        Self { images, above: Vec::new() }
    }

    /// Fetches what `locator` names, whatever is in the cache.
    pub(super) fn get(&mut self, locator: &Locator) -> Result<Record> {
        let stamp = stamp(locator);
        let staging = self.images.cache.begin()?;
        let trust = Trust::new(self.images)?;
        let record = match locator.source() {
            Source::File(path) => self.file(locator, path, &staging, &trust),
            Source::Http(url) => self.web(locator, url, &staging, &trust),
            Source::Discover(name) => self.discovered(locator, name, &staging, &trust),
            Source::Docker(_) | Source::Layout { .. } | Source::Archive { .. } => {
                trust.check_pinned(locator)?;
                self.oci(locator, &staging)
            }
        }?;
        let found = LocatorRecord { key: key(locator)?, id: record.id.clone(), stamp };
        self.images.cache.remember(&found)?;
        Ok(record)
    }

    fn file(
        &mut self,
        locator: &Locator,
        path: &Path,
        staging: &Staging,
        trust: &Trust,
    ) -> Result<Record> {
        let file = open(path)?;
        let signature = || {
            let mut path = path.as_os_str().to_owned();
            path.push(".asc");
            let mut bytes = Vec::new();
            let read = open(Path::new(&path))?.take(LONGEST_SIGNATURE).read_to_end(&mut bytes);
            read.map_err(|error| Error::os("reading its signature", error))?;
            Ok(bytes)
        };
        let received = Received { file, name: None, signature: &signature };
        self.aci(locator, received, staging, trust)
    }

    fn web(
        &mut self,
        locator: &Locator,
        url: &Url,
        staging: &Staging,
        trust: &Trust,
    ) -> Result<Record> {
        let place = ImageUrls { image: url.clone(), signature: url.with_suffix(".asc") };
        let asked = WebImage { place: &place, page: None, name: None };
        self.place(locator, &asked, staging, trust)
    }

    /// The error with what to do, where the cache has an image that only calls itself so: until that counted no
    /// more, it was found by this name.
    fn hinted(&self, error: Error, name: &AppName) -> Result<Error> {
        if error.kind() != Kind::NotFound || !self.images.has_unnamed(name)? {
            return Ok(error);
        }
        let what = format!(
            "{error}; an image in the cache calls itself so, but was not found by that name: \
             \"spoke kurma pull --as {name} LOCATOR\" takes it for that"
        );
        Ok(Error::not_found(what))
    }

    /// Asks each place of the name, until one has the image.
    fn discovered(
        &mut self,
        locator: &Locator,
        name: &AppName,
        staging: &Staging,
        trust: &Trust,
    ) -> Result<Record> {
        let mut why = None;
        let discovered = discover::discover(&self.images.transport, name);
        let (page, places) = discovered.or_else(|error| Err(self.hinted(error, name)?))?;
        for place in places {
            let asked = WebImage { place: &place, page: Some(&page), name: Some(name) };
            match self.place(locator, &asked, staging, trust) {
                Ok(record) => return Ok(record),
                Err(error) => why = Some(error.context(&place.image)),
            }
        }
        Err(why.unwrap_or_else(|| Error::not_found("discovery returned no URL of an image")))
    }

    fn place(
        &mut self,
        locator: &Locator,
        &WebImage { place, page, name }: &WebImage<'_>,
        staging: &Staging,
        trust: &Trust,
    ) -> Result<Record> {
        let (transport, limits) = (&self.images.transport, &self.images.policy.limits);
        let missing = |url: &Url| Error::not_found(format!("HTTP 404 on retrieving {url}"));
        let call = |url| Call { from: page, ..Call::get(url) };
        let (_, mut file) = staging.file()?;
        if !transport.download(&call(&place.image), &mut file, limits.compressed)? {
            return Err(missing(&place.image));
        }
        file.rewind().map_err(|error| Error::os("reading what was fetched", error))?;
        let signature = || {
            let bytes = transport.bytes(&call(&place.signature), LONGEST_SIGNATURE)?;
            bytes.ok_or_else(|| missing(&place.signature))
        };
        self.aci(locator, Received { file, name, signature: &signature }, staging, trust)
    }

    /// An image of a registry, a layout or an archive: one directory, on nothing else.
    fn oci(&self, locator: &Locator, staging: &Staging) -> Result<Record> {
        let Images { cache, policy, transport, .. } = self.images;
        let pull = Pull { pin: locator.pin(), staging, limits: &policy.limits };
        let pulled = match locator.source() {
            Source::Layout { path, tag } => layout::pull(&pull, path, tag.as_deref()),
            Source::Archive { path, tag } => archive::pull(&pull, path, tag.as_deref()),
            Source::Docker(reference) => {
                let credentials = Credentials::new(policy.auth.clone());
                registry::pull(&pull, transport, &credentials, reference)
            }
            _ => Err(Error::bug("it is no OCI image")),
        }?;
        let Contents { id, name, labels, app, directory } = match pulled {
            Pulled::New(contents) => contents,
            Pulled::Known(image) => {
                let gone = || Error::try_again("it was removed from the cache meanwhile");
                return cache.image(&image.id)?.ok_or_else(gone);
            }
        };
        let (layer, signers) = (id.to_string(), BTreeSet::new());
        let layers = vec![layer.clone()];
        let record = Record { id, name, labels, app, layers, signers, is_named: false };
        cache.publish(record, &layer, &directory)
    }

    /// Checks, unpacks and publishes an App Container image.
    fn aci(
        &mut self,
        locator: &Locator,
        received: Received<'_>,
        staging: &Staging,
        trust: &Trust,
    ) -> Result<Record> {
        let limits = &self.images.policy.limits;
        let directory = staging.directory()?;
        let name = received.name;
        let is_named = name.is_some();
        let (unpacked, signers) = received.unpack(locator, &directory, limits, trust)?;
        let manifest = unpacked.manifest;
        check_name(name, &manifest)?;
        if locator.pin().is_some_and(|pin| !unpacked.digests.contains(pin)) {
            let found = unpacked.digests.iter().map(ToString::to_string).collect::<Vec<_>>();
            return Err(mismatch(&found.join(" and ")));
        }
        let id = ImageId::new(unpacked.digest);
        let below = self.below(&id, &manifest)?;
        let made = self.assemble(&id, &manifest, below, (&directory, staging))?;
        let Manifest { name, labels, app, .. } = manifest;
        let record = Record { id, name, labels, app, layers: made.layers, signers, is_named };
        self.images.cache.publish(record, &made.layer, &made.directory)
    }

    /// The layers of the images that this one lies on, the highest first: depth-first, each once.
    fn below(&mut self, id: &ImageId, manifest: &Manifest) -> Result<Vec<String>> {
        if self.above.iter().any(|(above, _)| above == id) || self.above.len() >= DEEPEST {
            let path =
                self.above.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(format!(
                "image {} lies on itself, or on too many: {path}",
                manifest.name
            )));
        }
        self.above.push((id.clone(), manifest.name.clone()));
        let mut layers: Vec<String> = Vec::new();
        for dependency in &manifest.dependencies {
            let named = |error: Error| error.context(format!("its dependency {}", dependency.name));
            let record = self.dependency(dependency).map_err(named)?;
            for layer in record.layers.into_iter().rev() {
                if !layers.contains(&layer) {
                    layers.push(layer);
                }
            }
        }
        self.above.pop();
        Ok(layers)
    }

    fn dependency(&mut self, dependency: &Dependency) -> Result<Record> {
        let locator = Locator::discover(dependency.name.clone());
        let wanted = |record: &Record| dependency.id.as_ref().is_none_or(|id| *id == record.id);
        if let Some(id) = &dependency.id
            && let Some(record) = self.images.cache.image(id)?
            && record.name == dependency.name.name()
            && Trust::new(self.images)?.accepts(&locator, &record)
        {
            return Ok(record);
        }
        let record = match self.images.known(&locator)?.filter(wanted) {
            Some(record) => record,
            None => self.get(&locator)?,
        };
        match wanted(&record) {
            true => Ok(record),
            false => Err(mismatch(&record.id.to_string())),
        }
    }

    /// The parts of the image: its own layer over the others, or one directory with those of all
    /// wanted paths.
    fn assemble(
        &self,
        id: &ImageId,
        manifest: &Manifest,
        below: Vec<String>,
        (directory, staging): (&Path, &Staging),
    ) -> Result<Assembled> {
        let layer = id.to_string();
        if manifest.whitelist.is_empty() {
            let layers = std::iter::once(layer.clone()).chain(below).rev().collect();
            return Ok(Assembled { layer, layers, directory: directory.to_owned() });
        }
        let paths = below.iter().map(|layer| self.images.cache.layer(layer));
        let paths: Vec<PathBuf> = std::iter::once(directory.to_owned()).chain(paths).collect();
        let into = staging.directory()?;
        aci::flatten(&manifest.whitelist, &paths, &into)?;
        // It depends on what is below, which is not always the same for one image.
        let parts = [vec![layer], below].concat().join(" ");
        let digest = Digest::of(Algorithm::Sha256, parts.as_bytes());
        let layer = format!("assembled-{}", digest.hex());
        Ok(Assembled { layers: vec![layer.clone()], layer, directory: into })
    }
}

/// What is asked for on the web.
struct WebImage<'a> {
    place: &'a ImageUrls,
    /// The page that named it; none where the operator did.
    page: Option<&'a Url>,
    /// The name that the image must have.
    name: Option<&'a AppName>,
}

/// The layers below an image.
struct Assembled {
    /// The layer that is new.
    layer: String,
    /// All of them, the lowest first.
    layers: Vec<String>,
    /// Where the new one is for now.
    directory: PathBuf,
}
