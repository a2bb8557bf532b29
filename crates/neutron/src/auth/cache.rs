//! The files that processes of this host share: a process that lives five milliseconds does not
//! authenticate itself again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A larger file is not Spoke's, in bytes.
const LARGEST: u64 = 1 << 20;

/// Files in a directory that only we may read, each for one cloud and one the account there.
///
/// Nothing here is an error: what cannot be read is asked for again, what cannot be written is asked
/// for by the next process.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    key: String,
}

impl Cache {
    /// A cache below this directory, which is made where it is missing. `key` distinguishes clouds.
    pub(super) fn new(directory: &Path, key: String) -> Self {
        Self { directory: directory.join("cache"), key }
    }

    /// The value under this name.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits();
        let flags = i32::try_from(nofollow).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path(name)).ok()?;
        let metadata = file.metadata().ok()?;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || metadata.mode() & 0o077 != 0 || !metadata.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Keeps it under this name: whole, or not at all.
    pub(crate) fn write(&self, name: &str, what: &impl Serialize) {
        let Ok(bytes) = serde_json::to_vec(what) else { return };
        let path = self.path(name);
        let new = path.with_extension(std::process::id().to_string());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        // Of a process that was killed and had our number.
        let _ = fs::remove_file(&new);
        // The cache only saves requests.
        let _ = made.and_then(|()| file::replace(&path, &new, &bytes));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keeps_for_us_alone() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(&directory.path().join("neutron"), "k".to_owned());
        assert_eq!(cache.read::<String>("token"), None);
        cache.write("token", &"t");
        assert_eq!(cache.read::<String>("token").as_deref(), Some("t"));
        let path = cache.path("token");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(cache.read::<String>("token"), None);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(cache.read::<String>("token"), None);
    }

    #[test]
    fn damage_is_absence() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path(), "k".to_owned());
        cache.write("token", &"t");
        fs::write(cache.path("token"), b"\xff{").unwrap();
        assert_eq!(cache.read::<String>("token"), None);
        let nowhere = Cache::new(Path::new("/proc/nowhere"), "k".to_owned());
        nowhere.write("token", &"t");
        assert_eq!(nowhere.read::<String>("token"), None);
    }
}
