//! Images on disk.
//!
//! ```text
//! lock                  shared: publishing; exclusive: removing
//! images/<id>.json      what an image is, and which layers it lies on
//! layers/<name>/        unpacked directories, complete since the moment they are there
//! trees/<name>.json     what a layer held when it was unpacked
//! names/<hash>.json     which image a locator gave
//! staging/<…>/          what is being fetched and unpacked; locked by who does so
//! ```
//!
//! Everything appears by one rename. Who dies leaves a directory in `staging` whose lock is free: the
//! next one that begins removes it.

mod record;
mod staging;
mod tree;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{Error, Result};
use rustix::fs::FlockOperation;

pub(crate) use record::{LocatorRecord, Record, Stamp};
pub(crate) use staging::Staging;
use tree::Tree;

use crate::{Image, ImageId};

/// The directory in which images are kept.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Uses `root`, and makes it, for root only, where it is missing.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        for part in ["images", "layers", "trees", "names", "staging"] {
            let path = root.join(part);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| Error::os(format!("making {}", path.display()), error))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.root
    }

    /// A place to fetch and unpack into.
    pub(crate) fn begin(&self) -> Result<Staging> {
        self.sweep();
        let _lock = self.lock(FlockOperation::LockShared)?;
        Staging::new(self)
    }

    /// The image `id`, if it exists as a whole.
    pub(crate) fn image(&self, id: &ImageId) -> Result<Option<Record>> {
        let Some(record) = Record::read(&self.record(id))? else { return Ok(None) };
        let is_whole = |layer: &String| self.layer(layer).is_dir() && self.tree(layer).is_file();
        let whole = record.layers.iter().all(is_whole);
        Ok((whole && record.id == *id).then_some(record))
    }

    /// Every image.
    pub(crate) fn images(&self) -> Result<Vec<Record>> {
        let names = names(&self.root.join("images"))?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok());
        ids.filter_map(|id: ImageId| self.image(&id).transpose()).collect()
    }

    /// The last result of a locator, written as `key`.
    pub(crate) fn found(&self, key: &str) -> Result<Option<LocatorRecord>> {
        Ok(LocatorRecord::read(&self.found_path(key))?.filter(|found| found.key == key))
    }

    /// Remembers what a locator gave.
    pub(crate) fn remember(&self, found: &LocatorRecord) -> Result<()> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        found.write(&self.found_path(&found.key), &self.staging())
    }

    /// Makes `record` known, after what was unpacked into `directory` became its layer `layer`; a
    /// layer that exists already stays. Who verified or named the image before is kept.
    ///
    /// # Errors
    /// A layer that it shares with another image was removed meanwhile.
    pub(crate) fn publish(
        &self,
        mut record: Record,
        layer: &str,
        directory: &Path,
    ) -> Result<Record> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        self.place(layer, directory)?;
        if let Some(gone) = record.layers.iter().find(|layer| !self.layer(layer).is_dir()) {
            let what = format!("layer {gone} of image {} was removed meanwhile", record.id);
            return Err(Error::try_again(what));
        }
        let path = self.record(&record.id);
        if let Some(there) = Record::read(&path)? {
            record.signers.extend(there.signers);
            record.is_named |= there.is_named;
        }
        record.write(&path, &self.staging())?;
        Ok(record)
    }

    /// Records that the image `id` is known under its name.
    pub(crate) fn name(&self, id: &ImageId) -> Result<()> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        let gone = || Error::try_again(format!("image {id} was removed from the cache meanwhile"));
        let record = self.image(id)?.ok_or_else(gone)?;
        Record { is_named: true, ..record }.write(&self.record(id), &self.staging())
    }

    /// Makes what was unpacked into `directory` the layer `layer`, unless that holds the same already.
    fn place(&self, layer: &str, directory: &Path) -> Result<()> {
        let (to, tree) = (self.layer(layer), self.tree(layer));
        let content = tree::content(directory)?;
        if to.is_dir() && tree::content(&to).ok().as_ref() != Some(&content) {
            // It was changed, or is half a layer.
            let aside = directory.with_extension("changed");
            let moved = fs::rename(&to, aside);
            moved.map_err(|error| Error::os(format!("moving {}", to.display()), error))?;
        }
        match fs::rename(directory, &to) {
            Ok(()) => {}
            Err(_) if to.is_dir() => {}
            Err(error) => return Err(Error::os(format!("making {}", to.display()), error)),
        }
        Tree { content, stamp: tree::stamp(&to)? }.write(&tree, &self.staging())
    }

    /// The layers of `record` that do not hold any more what was unpacked into them.
    pub(crate) fn changed<'r>(&self, record: &'r Record) -> Result<Vec<&'r str>> {
        let mut changed = Vec::new();
        for layer in &record.layers {
            if !self.holds(layer)? {
                changed.push(layer.as_str());
            }
        }
        Ok(changed)
    }

    /// Whether a layer is as it was unpacked. Where no file's time of change differs from the last
    /// time, no file is read.
    fn holds(&self, layer: &str) -> Result<bool> {
        let (directory, path) = (self.layer(layer), self.tree(layer));
        let Some(known) = Tree::read(&path)? else { return Ok(false) };
        let stamp = tree::stamp(&directory)?;
        if stamp == known.stamp {
            return Ok(true);
        }
        if tree::content(&directory)? != known.content {
            return Ok(false);
        }
        // Copied, or linked into another layer: the same, with other times.
        let _lock = self.lock(FlockOperation::LockShared)?;
        Tree { stamp, ..known }.write(&path, &self.staging()).map(|()| true)
    }

    /// Deletes the layer `layer`, so that its images are fetched again.
    pub(crate) fn forget(&self, layer: &str) -> Result<()> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        removed(&self.tree(layer)).map(drop)
    }

    /// The image of `record`, for use.
    pub(crate) fn ready(&self, record: Record) -> Image {
        // Whether it is in use is what `gc` asks; not knowing it is no reason to fail.
        let touched = File::options().append(true).open(self.record(&record.id));
        let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
        self.seen(record)
    }

    /// `record` with where its layers are.
    pub(crate) fn seen(&self, record: Record) -> Image {
        let layers = record.layers.iter().map(|layer| self.layer(layer)).collect();
        let Record { id, name, labels, app, .. } = record;
        Image { id, name, labels, app, layers }
    }

    /// Removes the images that are not in `keep` and that were not requested for `unused`; returns
    /// their ids.
    pub(crate) fn gc(&self, keep: &BTreeSet<ImageId>, unused: Duration) -> Result<Vec<ImageId>> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        let mut gone = Vec::new();
        for name in names(&self.root.join("images"))? {
            let path = self.root.join("images").join(&name);
            let id: Option<ImageId> = name.strip_suffix(".json").and_then(|name| name.parse().ok());
            if id.as_ref().is_some_and(|id| keep.contains(id)) || is_younger(&path, unused) {
                continue;
            }
            removed(&path)?;
            gone.extend(id);
        }
        self.sweep_unused()?;
        Ok(gone)
    }

    /// Every record that can be read, also of an image that is not whole: a container may run on its layers.
    fn records(&self) -> Result<Vec<Record>> {
        let directory = self.root.join("images");
        let paths = names(&directory)?.into_iter().map(|name| directory.join(name));
        paths.filter_map(|path| Record::read(&path).transpose()).collect()
    }

    /// Removes layers without images, and names of images that are gone.
    fn sweep_unused(&self) -> Result<()> {
        let images = self.records()?;
        let used: BTreeSet<&str> =
            images.iter().flat_map(|image| &image.layers).map(String::as_str).collect();
        let layers = self.root.join("layers");
        for name in names(&layers)?.iter().filter(|name| !used.contains(name.as_str())) {
            // A half-removed layer must not look like a whole one.
            let trash = self.staging().join(format!("trash-{name}"));
            let path = layers.join(name);
            let moved = netlink::remove_tree(&trash)
                .and_then(|()| fs::rename(&path, &trash))
                .and_then(|()| netlink::remove_tree(&trash));
            moved.map_err(|error| Error::os(format!("removing {}", path.display()), error))?;
        }
        let trees = self.root.join("trees");
        for name in names(&trees)? {
            if name.strip_suffix(".json").is_none_or(|layer| !used.contains(layer)) {
                removed(&trees.join(name))?;
            }
        }
        let known: BTreeSet<_> = images.iter().map(|image| &image.id).collect();
        let found = self.root.join("names");
        for name in names(&found)? {
            let path = found.join(name);
            if !LocatorRecord::read(&path)?.is_some_and(|found| known.contains(&found.id)) {
                removed(&path)?;
            }
        }
        Ok(())
    }

    /// Removes what dead processes left, unless another process is busy: the next one does it then.
    fn sweep(&self) {
        let directory = self.staging();
        let Ok(remaining) = names(&directory) else { return };
        if remaining.is_empty() {
            return;
        }
        let Ok(_lock) = self.lock(FlockOperation::NonBlockingLockExclusive) else { return };
        for name in remaining {
            let path = directory.join(name);
            let free = File::open(&path).is_ok_and(|file| {
                rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            });
            if free {
                // The next process tries again.
                let _ = netlink::remove_tree(&path);
            }
        }
    }

    fn lock(&self, operation: FlockOperation) -> Result<File> {
        let path = self.root.join("lock");
        let failed = |error| Error::os(format!("locking {}", path.display()), error);
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(failed)?;
        file::lock(&file, operation).map_err(failed)?;
        Ok(file)
    }

    fn record(&self, id: &ImageId) -> PathBuf {
        self.root.join("images").join(format!("{id}.json"))
    }

    /// The directory `name` among the layers.
    pub(crate) fn layer(&self, name: &str) -> PathBuf {
        self.root.join("layers").join(name)
    }

    /// The file with the digest of the layer `name`.
    fn tree(&self, name: &str) -> PathBuf {
        self.root.join("trees").join(format!("{name}.json"))
    }

    fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    fn found_path(&self, key: &str) -> PathBuf {
        let digest = crate::Digest::of(crate::Algorithm::Sha256, key.as_bytes());
        self.root.join("names").join(format!("{}.json", digest.hex()))
    }
}

/// The names in a directory that are text and no temporary file.
fn names(directory: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::os(format!("reading {}", directory.display()), error);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.into_string().ok().filter(|name| !name.starts_with('.')));
    }
    names.sort();
    Ok(names)
}

fn is_younger(path: &Path, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|elapsed| elapsed < age))
}

/// Removes a file; whether it was there.
fn removed(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::os(format!("removing {}", path.display()), error)),
    }
}

#[cfg(test)]
mod tests;
