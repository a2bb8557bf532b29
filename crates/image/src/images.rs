//! Getting images.

mod fetch;
mod received;
mod trust;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::{Error, Kind, Result};

use crate::cache::{Cache, LocatorRecord, Record, Stamp};
use crate::locator::Source;
use crate::transport::Transport;
use crate::{AppName, Image, ImageId, Locator, Policy};
use fetch::Fetch;
use trust::Trust;

/// The images of a host: the cache, and where what is not in it comes from.
///
/// Several processes can use the same cache at the same time, and each can end at any moment.
#[derive(Clone)]
pub struct Images {
    cache: Cache,
    policy: Policy,
    transport: Arc<Transport>,
    /// Keys of which one must have signed every image, besides the policy's.
    keys: Vec<PathBuf>,
}

impl Images {
    /// Keeps images in the directory `root`, which is made if it is missing.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(root: &Path, policy: Policy) -> Result<Self> {
        let transport = Arc::new(Transport::new(&policy.insecure, policy.proxies.clone()));
        Ok(Self { cache: Cache::open(root)?, policy, transport, keys: Vec::new() })
    }

    /// Where they are kept.
    pub fn directory(&self) -> &Path {
        self.cache.directory()
    }

    /// The same, for images that one of the keys in `files` must have signed, in addition to the
    /// policy.
    #[must_use]
    pub fn requiring(&self, files: &[PathBuf]) -> Self {
        Self { keys: files.to_vec(), ..self.clone() }
    }

    /// The image at `locator`: out of the cache if it exists (a file that changed is not), else
    /// fetched, checked and unpacked. What is given holds what was unpacked once.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is none, [`Kind::Denied`] if it is not signed, not what its
    /// locator pins, or was changed in the cache, [`Kind::Invalid`] if it is broken, [`Kind::TryAgain`] if its host does not answer.
    pub fn get(&self, locator: &Locator) -> Result<Image> {
        let Some(record) = self.known(locator)? else { return self.pull(locator) };
        match self.cache.changed(&record)?.first() {
            None => Ok(self.cache.ready(record)),
            Some(layer) => Err(Error::new(
                Kind::Denied,
                format!(
                    "image {locator}: layer {layer} in {} was changed after it was unpacked: \
                     \"spoke kurma pull {locator}\" fetches it again",
                    self.directory().display()
                ),
            )),
        }
    }

    /// The image at `locator`, fetched and checked now; what is in the cache already, and was not
    /// changed there, is not unpacked again.
    ///
    /// # Errors
    /// As of [`Images::get`].
    pub fn pull(&self, locator: &Locator) -> Result<Image> {
        // Its layers may have been removed at that moment.
        let again = |error: Error| match error.kind() {
            Kind::TryAgain if error.status().is_none() => Fetch::new(self).get(locator),
            _ => Err(error),
        };
        let named = |error: Error| error.context(format!("image {:?}", locator.to_string()));
        let fetched = || Fetch::new(self).get(locator).or_else(again).map_err(named);
        let record = fetched()?;
        let changed = self.cache.changed(&record)?;
        if changed.is_empty() {
            return Ok(self.cache.ready(record));
        }
        changed.iter().try_for_each(|layer| self.cache.forget(layer))?;
        Ok(self.cache.ready(fetched()?))
    }

    /// Fetches as [`Images::pull`] does, and takes the image for the one called `name` from now on,
    /// as if discovery had found it: where no server says where `name` is.
    ///
    /// # Errors
    /// As of [`Images::get`]; [`Kind::Denied`] if it calls itself otherwise.
    pub fn pull_as(&self, locator: &Locator, name: &AppName) -> Result<Image> {
        let image = self.pull(locator)?;
        if image.name != name.name() || !name.fits(&image.labels) {
            let what = format!("image {locator} is {}, not {name}", image.name);
            return Err(Error::new(Kind::Denied, what));
        }
        self.cache.name(&image.id)?;
        // Its labels may leave open what the name selects by.
        let key = key(&Locator::discover(name.clone()))?;
        self.cache.remember(&LocatorRecord { key, id: image.id.clone(), stamp: None })?;
        Ok(image)
    }

    /// The image at `locator`, if it is available without a request.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn cached(&self, locator: &Locator) -> Result<Option<Image>> {
        Ok(self.known(locator)?.map(|record| self.cache.ready(record)))
    }

    /// Every image in the cache.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn list(&self) -> Result<Vec<Image>> {
        let records = self.cache.images()?;
        Ok(records.into_iter().map(|record| self.cache.seen(record)).collect())
    }

    /// Removes all images but those in `keep` and those that were asked for during the last `unused`;
    /// gives the ids of the removed ones. Layers stay as long as one image lies on them.
    ///
    /// # Errors
    /// The cache cannot be changed.
    pub fn gc(&self, keep: &BTreeSet<ImageId>, unused: Duration) -> Result<Vec<ImageId>> {
        self.cache.gc(keep, unused)
    }

    /// The cached record of `locator`, if it may be used.
    fn known(&self, locator: &Locator) -> Result<Option<Record>> {
        let key = key(locator)?;
        let trust = Trust::new(self)?;
        let found = self.cache.found(&key)?.filter(|found| is_current(locator, found));
        let record = match found {
            Some(found) => self.cache.image(&found.id)?,
            None => None,
        };
        if let Some(record) = record.filter(|record| trust.accepts(locator, record)) {
            return Ok(Some(record));
        }
        match (locator.source(), locator.pin()) {
            (Source::Discover(name), None) => self.named(name, locator, &trust),
            _ => Ok(None),
        }
    }

    /// An image that is known under that name: by another discovery, by the operator, or by a
    /// signature that a rule asks for. Any image can call itself so.
    fn named(&self, name: &AppName, locator: &Locator, trust: &Trust) -> Result<Option<Record>> {
        let mut records = self.cache.images()?.into_iter();
        let is_known = |record: &Record| record.is_named || trust.is_needed_for(&record.name);
        Ok(records.find(|record| {
            fits(record, name) && is_known(record) && trust.accepts(locator, record)
        }))
    }

    /// Whether an image in the cache calls itself so, and is not known under that name.
    pub(crate) fn has_unnamed(&self, name: &AppName) -> Result<bool> {
        let records = self.cache.images()?;
        Ok(records.iter().any(|record| fits(record, name) && !record.is_named))
    }
}

/// Whether an image calls itself so.
fn fits(record: &Record, name: &AppName) -> bool {
    record.name == name.name() && name.is_stated_by(&record.labels)
}

/// A locator as it is remembered: a relative path means another file elsewhere.
fn key(locator: &Locator) -> Result<String> {
    let written = locator.to_string();
    match locator.source() {
        Source::Discover(name) if locator.pin().is_none() => Ok(name.to_string()),
        Source::File(path) | Source::Layout { path, .. } | Source::Archive { path, .. }
            if path.is_relative() =>
        {
            let here = std::path::absolute("")
                .or_else(|_| std::env::current_dir())
                .map_err(|error| Error::os("asking for the working directory", error))?;
            Ok(format!("{written} in {}", here.display()))
        }
        _ => Ok(written),
    }
}

/// Whether the file that an image was read from is still the same one.
fn is_current(locator: &Locator, found: &LocatorRecord) -> bool {
    stamp(locator) == found.stamp
}

/// The file that `locator` names, as it is now.
fn stamp(locator: &Locator) -> Option<Stamp> {
    let path = match locator.source() {
        Source::File(path) | Source::Archive { path, .. } => path.clone(),
        Source::Layout { path, .. } => path.join("index.json"),
        _ => return None,
    };
    fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}
