//! Files of the reference plugin `host-local` and of the runtimes' library.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use model::{Error, Result, Timestamp};
use rustix::fs::FlockOperation;

use crate::list::read_object;
use crate::wire::Object;

/// Where `host-local` keeps a directory for each network, by default.
pub const NETWORKS: &str = "/var/lib/cni/networks";

/// Where libcni keeps each result until its DEL.
pub const RESULTS: &str = "/var/lib/cni/results";

/// A file holds a container's id and an interface's name; none is longer, in bytes.
const LONGEST: u64 = 4096;

/// An address that a file holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldFile {
    /// The file's name.
    pub address: IpAddr,
    /// Where it is.
    pub path: PathBuf,
    /// The directory's name, which is the network's.
    pub network: String,
    /// The holder; empty where a crash left a file without one.
    pub container: String,
    /// The container's interface; old versions did not write it.
    pub interface: Option<String>,
    /// When it was written.
    pub modified: Timestamp,
}

impl HeldFile {
    /// The files of a network's directory, in no order. What cannot be read is none.
    pub fn all_in(directory: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        entries.flatten().filter_map(|entry| Self::read(&entry.path())).collect()
    }

    fn read(path: &Path) -> Option<Self> {
        let address = path.file_name()?.to_str()?.parse().ok()?;
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let text = content(path)?;
        let mut lines = text.lines().map(str::trim);
        Some(Self {
            address,
            path: path.to_owned(),
            network: path.parent()?.file_name()?.to_str()?.to_owned(),
            container: lines.next().unwrap_or_default().to_owned(),
            interface: lines.next().filter(|line| !line.is_empty()).map(str::to_owned),
            modified: modified(path)?,
        })
    }

    /// Removes it, under the directory's lock and only if it is still as it was read.
    pub fn remove(&self) -> Result<bool> {
        let failed = |cause| Error::os(format!("removing {}", self.path.display()), cause);
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let _lock = lock(directory).map_err(failed)?;
        if Self::read(&self.path).as_ref() != Some(self) {
            return Ok(false);
        }
        fs::remove_file(&self.path).map(|()| true).map_err(failed)
    }

    /// The namespaces in the result that libcni keeps in the directory `results` for the
    /// attachment.
    pub fn sandboxes(&self, results: &Path) -> Vec<PathBuf> {
        let interface = self.interface.as_deref().unwrap_or("eth0");
        let name = format!("{}-{}-{interface}", self.network, self.container);
        if name.contains('/') {
            return Vec::new();
        }
        let Some(kept) = read_object(&results.join(name)) else { return Vec::new() };
        let kept = Object::new("", &kept);
        let path = |object: &Object<'_>, key| object.text(key).ok().flatten().map(PathBuf::from);
        let result = kept.object("result").ok().flatten();
        let interfaces = result.and_then(|result| result.list("interfaces").ok());
        let named = interfaces.unwrap_or_default();
        let named = named.iter().filter_map(|node| path(&node.object().ok()?, "sandbox"));
        named.chain(path(&kept, "netns")).filter(|path| path.is_absolute()).collect()
    }
}

/// When this boot began; unknown where the kernel does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot(Option<Timestamp>);

impl Boot {
    /// As the file `/proc/stat`, given as `stat`, says (proc_stat(5)). That moves with the clock:
    /// where the clock was set forward since, the directory `/dev`, given as `devices`, still bears
    /// the time that was thought to be then.
    pub fn read(stat: &Path, devices: &Path) -> Self {
        let text = fs::read_to_string(stat).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("btime "));
        let reported = line.and_then(|line| line.trim().parse().ok()).map(Timestamp);
        let born = fs::metadata(devices).and_then(|metadata| metadata.created()).ok();
        Self(reported.map(|reported| born.map_or(reported, |born| reported.min(since_epoch(born)))))
    }

    /// Whether a file of this time dates from before the boot, so that its writer's namespace is
    /// gone.
    pub fn outdates(self, modified: Timestamp) -> bool {
        self.0.is_some_and(|began| modified < began)
    }
}

/// When a file was written.
pub(crate) fn modified(file: &Path) -> Option<Timestamp> {
    let modified = fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
    Some(since_epoch(modified))
}

fn since_epoch(time: SystemTime) -> Timestamp {
    Timestamp(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The owner in the file; none where it cannot be read.
pub(crate) fn content(file: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(file).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// The directory's lock, held until the file is dropped.
pub(crate) fn lock(directory: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o750)
        .open(directory.join("lock"))?;
    file::lock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_and_removes_only_what_it_read() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("net");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("10.9.0.2"), "c1\r\neth0").unwrap();
        fs::write(directory.join("last_reserved_ip.0"), "10.9.0.2").unwrap();
        std::os::unix::fs::symlink("10.9.0.2", directory.join("10.9.0.3")).unwrap();
        let files = HeldFile::all_in(&directory);
        let [file] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!((file.network.as_str(), file.container.as_str()), ("net", "c1"));
        assert_eq!(file.interface.as_deref(), Some("eth0"));
        fs::write(&file.path, "c2\r\neth0").unwrap();
        assert!(!file.remove().unwrap());
        assert!(HeldFile::all_in(&directory)[0].remove().unwrap());
        assert!(HeldFile::all_in(&directory).is_empty());
    }

    #[test]
    fn finds_the_namespaces_that_libcni_remembers() {
        let root = tempfile::tempdir().unwrap();
        let file = HeldFile {
            address: "10.9.0.2".parse().unwrap(),
            path: root.path().join("net/10.9.0.2"),
            network: "net".into(),
            container: "c1".into(),
            interface: None,
            modified: Timestamp(0),
        };
        assert!(file.sandboxes(root.path()).is_empty());
        let kept = r#"{"netns":"/a","result":{"interfaces":[{"sandbox":""},{"sandbox":"/b"}]}}"#;
        fs::write(root.path().join("net-c1-eth0"), kept).unwrap();
        assert_eq!(file.sandboxes(root.path()), [Path::new("/b"), Path::new("/a")]);
    }

    #[test]
    fn an_unknown_boot_outdates_nothing() {
        let root = tempfile::tempdir().unwrap();
        let stat = root.path().join("stat");
        let none = root.path().join("dev");
        assert!(!Boot::read(&stat, &none).outdates(Timestamp(0)));
        fs::write(&stat, "cpu 1\nbtime 1000\n").unwrap();
        assert!(Boot::read(&stat, &none).outdates(Timestamp(999)));
        assert!(!Boot::read(&stat, &none).outdates(Timestamp(1000)));
        fs::write(&stat, "btime 99999999999\n").unwrap();
        let now = since_epoch(SystemTime::now());
        assert!(Boot::read(&stat, &none).outdates(now));
        assert!(!Boot::read(&stat, root.path()).outdates(now), "the clock was set forward");
    }
}
