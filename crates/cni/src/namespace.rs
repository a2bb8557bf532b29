//! What `CNI_NETNS` names, found out before anything is done.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::{Error, Result};

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS: i64 = 0x6e73_6673;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A namespace that is not ours, with its inode.
    Other(u64),
    /// The namespace of this process, with its inode.
    Own(u64),
    /// Something that is no namespace, and what it is instead.
    Nothing(String),
}

/// Looks at namespaces.
pub trait Namespaces {
    /// What is at `path`.
    fn look(&self, path: &Path) -> Result<Found>;
}

/// The kernel's own answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Namespaces for Kernel {
    fn look(&self, path: &Path) -> Result<Found> {
        let failed = |cause| Error::os(format!("looking at {}", path.display()), cause);
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    return Ok(Found::Nothing("no such file or directory".into()));
                }
                _ => return Err(failed(error)),
            },
        };
        let system = rustix::fs::statfs(path).map_err(|errno| failed(errno.into()))?;
        if system.f_type != NSFS {
            let magic = format!("unknown FS magic on {path:?}: {:x}", system.f_type);
            return Ok(Found::Nothing(magic));
        }
        if let Some(kind) = other_kind(path) {
            return Ok(Found::Nothing(format!("it is a namespace of the kind {kind:?}")));
        }
        let own = fs::metadata("/proc/thread-self/ns/net").map_err(failed)?;
        let same = own.dev() == metadata.dev() && own.ino() == metadata.ino();
        Ok(if same { Found::Own(own.ino()) } else { Found::Other(metadata.ino()) })
    }
}

/// The kind of a namespace that is not for networks, where procfs tells it. What is mounted
/// elsewhere does not; entering it fails.
fn other_kind(path: &Path) -> Option<String> {
    let link = fs::read_link(path).ok()?;
    let (kind, _) = link.to_str()?.split_once(":[")?;
    (kind != "net").then(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_namespaces_from_files() {
        let look = |path: &str| Kernel.look(Path::new(path)).unwrap();
        assert!(matches!(look("/proc/self/ns/net"), Found::Own(_)));
        for nothing in ["/proc/self/ns/mnt", "/nonexistent", "/proc/version/x", "/proc/version"] {
            assert!(matches!(look(nothing), Found::Nothing(_)), "{nothing}");
        }
    }
}
