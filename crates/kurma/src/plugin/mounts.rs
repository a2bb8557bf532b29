//! The parts of the host in a plugin container.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use container::{Mount, Propagation};
use image::{App, MountPoint};
use model::{Error, Kind, Result};

use super::{NetworkingPod, PluginSpec, StoreDirectories};
use crate::config::Grant;
use crate::volume;

/// Where what a plugin keeps is mounted.
const STATE: &str = "/var/lib/cni";

/// The size of the empty directory that lies over what no plugin sees, in bytes.
const EMPTY: u64 = 4096;

impl StoreDirectories {
    /// The directory that is shared at a mount point, and whether it is read-only. The store exists
    /// from now on: a plugin that came first must not begin one of its own.
    fn shared(&self, point: &MountPoint) -> Option<(&PathBuf, bool)> {
        let (source, read_only) = match Grant::of_mount_point(&point.name)? {
            Grant::Runtime => (&self.runtime, point.read_only),
            Grant::State => (&self.state, point.read_only),
            Grant::Config => return self.config.exists().then_some((&self.config, true)),
            Grant::Capability(_) => return None,
        };
        // It exists mostly; the mount fails without it.
        let _ = DirBuilder::new().recursive(true).mode(0o755).create(source);
        Some((source, read_only))
    }
}

/// All of them, in their order. The image's rights to them were checked before.
///
/// # Errors
/// [`Kind::Denied`] where a part of the host is requested that no plugin may see.
pub(super) fn mounts(
    pod: &NetworkingPod,
    wanted: &PluginSpec,
    app: &App,
    state: &Path,
) -> Result<Vec<Mount>> {
    let mut mounts = vec![bind(state, Path::new(STATE), false)];
    let hidden = Hidden::of(pod, wanted.sandboxing.privileged);
    let mut share = |source: &Path, target: &Path, read_only| {
        mounts.push(bind(source, target, read_only));
        hidden.below(source, target, read_only).map(|over| mounts.extend(over))
    };
    for point in &app.mount_points {
        let Some((source, read_only)) = pod.book.as_ref().and_then(|book| book.shared(point))
        else {
            continue;
        };
        share(source, &point.path, read_only)?;
        // The configuration that is shared with it names the store's own places.
        let is_config = Grant::of_mount_point(&point.name) == Some(Grant::Config);
        if *source != point.path && !is_config {
            share(source, source, read_only)?;
        }
    }
    for mount in &wanted.sandboxing.mounts {
        share(&mount.host, &mount.container, mount.read_only)?;
    }
    // The last, so that nothing can lie over it. What is mounted there later appears also where it
    // is read-only.
    let read_only = !wanted.sandboxing.privileged;
    mounts.push(volume_at(&pod.directories.netns, volume::INSIDE.into(), read_only));
    Ok(mounts)
}

fn bind(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount::Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only,
        propagation: Propagation::Private,
    }
}

/// Directories of the host that decide what runs: images, and the records of plugin containers. A
/// plugin that writes there could become any other plugin.
struct Hidden {
    parts: Vec<PathBuf>,
    /// The volume of namespaces, where the plugin may only read it.
    volume: Option<PathBuf>,
}

impl Hidden {
    fn of(pod: &NetworkingPod, is_privileged: bool) -> Self {
        let images = pod.images.directory().map(Path::to_owned);
        let all = images.into_iter().chain([pod.directories.runtime.clone()]);
        let volume = (!is_privileged).then(|| fs::canonicalize(&pod.directories.netns));
        Self {
            parts: all.filter_map(|path| fs::canonicalize(path).ok()).collect(),
            volume: volume.and_then(std::io::Result::ok),
        }
    }

    /// The mounts over the hidden parts of `source`, where it is mounted at `target`. Where it can be
    /// written, each directory between is a mount, too: it could be renamed, and another one with
    /// other content put in its place.
    fn below(&self, source: &Path, target: &Path, read_only: bool) -> Result<Vec<Mount>> {
        // Where there is nothing, mounting it says so.
        let Ok(whole) = fs::canonicalize(source) else { return Ok(Vec::new()) };
        if let Some(hidden) = self.parts.iter().find(|hidden| whole.starts_with(hidden)) {
            let (source, hidden) = (source.display(), hidden.display());
            let what = format!(
                "{source} cannot be mounted: what is in {hidden} decides what plugins run; \
                 mount another directory"
            );
            return Err(Error::new(Kind::Denied, what));
        }
        let inside = |path: &PathBuf| path.strip_prefix(&whole).ok().map(Path::to_owned);
        let parts: Vec<PathBuf> = self.parts.iter().filter_map(inside).collect();
        let volume = self.volume.as_ref().filter(|_| !read_only);
        let volume = volume.and_then(|path| Some((path, inside(path)?)));
        let volume = volume.filter(|(_, part)| !part.as_os_str().is_empty());
        let kept = parts.iter().chain(volume.as_ref().map(|(_, part)| part));
        // Those above come first.
        let between: BTreeSet<&Path> = kept.flat_map(|part| part.ancestors().skip(1)).collect();
        let between = between.into_iter().filter(|part| !read_only && !part.as_os_str().is_empty());
        let held = |part: &Path| bind(&whole.join(part), &target.join(part), false);
        let empty = |part: &PathBuf| Mount::Tmpfs { target: target.join(part), size: EMPTY };
        let mut mounts: Vec<Mount> = between.map(held).collect();
        mounts.extend(parts.iter().map(empty));
        mounts.extend(volume.map(|(path, part)| volume_at(path, target.join(part), true)));
        Ok(mounts)
    }
}

/// The volume of namespaces, in which later ones appear.
fn volume_at(source: &Path, target: PathBuf, read_only: bool) -> Mount {
    let propagation = Propagation::Slave;
    Mount::Bind { source: source.to_owned(), target, read_only, propagation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_what_runs_is_in_no_mount() {
        let lab = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(lab.path()).unwrap();
        let images = root.join("state/images");
        fs::create_dir_all(images.join("layers")).unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        std::os::unix::fs::symlink(&images, root.join("link")).unwrap();
        let volume = Some(root.join("state/netns"));
        let hidden = Hidden { parts: vec![images.clone()], volume };
        let below =
            |source: &str, read_only| hidden.below(&root.join(source), Path::new("/x"), read_only);
        let over = |source: &str| below(source, true);
        let empty = |target: &str| Mount::Tmpfs { target: target.into(), size: EMPTY };
        assert_eq!(over("other").unwrap(), []);
        assert_eq!(over("missing").unwrap(), []);
        assert_eq!(over("state").unwrap(), [empty("/x/images")]);
        assert_eq!(over("").unwrap(), [empty("/x/state/images")]);
        // What can be written can be renamed.
        let volume = |target: &str| volume_at(&root.join("state/netns"), target.into(), true);
        assert_eq!(below("other", false).unwrap(), []);
        let all = [empty("/x/images"), volume("/x/netns")];
        assert_eq!(below("state", false).unwrap(), all);
        let between = bind(&root.join("state"), Path::new("/x/state"), false);
        let all = [between, empty("/x/state/images"), volume("/x/state/netns")];
        assert_eq!(below("", false).unwrap(), all);
        for source in ["state/images", "state/images/layers", "link", "link/layers"] {
            assert_eq!(over(source).unwrap_err().kind(), Kind::Denied, "{source}");
        }
    }
}
