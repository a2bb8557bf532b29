//! A cgroup for the containers of one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, process};

const TOP: &str = "/sys/fs/cgroup";
const PREFIX: &str = "spoke-test-";

/// The name of an unused cgroup; removed from every hierarchy in the end.
///
/// Declared after the world in its owner, so that no process is left in it by then.
#[derive(Debug)]
pub struct Cgroup(String);

impl Cgroup {
    /// A new name. What tests that were killed have left is removed.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        each(|path, name| {
            if abandoned(name) {
                remove(path);
            }
        });
        Self(format!("{PREFIX}{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The name, below the top of each hierarchy.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        each(|path, name| {
            if name == self.0 {
                remove(path);
            }
        });
    }
}

/// Whether it is of a process that is no more.
fn abandoned(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

/// Every cgroup at the top of a hierarchy, where there may be one of version 2 or many of version 1, and
/// every one in the caller's own: engines put those that they make into theirs.
fn each(mut visit: impl FnMut(&Path, &str)) {
    let hierarchies = fs::read_dir(TOP).into_iter().flatten().flatten().map(|entry| entry.path());
    for top in hierarchies.chain([TOP.into()]).chain(own()) {
        for entry in fs::read_dir(top).into_iter().flatten().flatten() {
            visit(&entry.path(), &entry.file_name().to_string_lossy());
        }
    }
}

/// The caller's own cgroups (cgroups(7)) that are not at the top.
fn own() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let top = Path::new(TOP).join(controllers.trim_start_matches("name="));
        (!path.is_empty()).then(|| top.join(path))
    };
    text.lines().filter_map(path).collect()
}

/// A cgroup is removed from below; its files go with it.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}
