//! The namespace in `CNI_NETNS`, checked before any change.

use std::path::Path;

use model::{Error, Kind, Result};
use netlink::Netns;

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS: i64 = 0x6e73_6673;

/// The kind of what is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Another namespace than Spoke's own, with its inode.
    Other(u64),
    /// The namespace of this process, with its inode.
    Own(u64),
    /// Something that is no namespace, and what it is instead.
    Nothing(String),
}

/// Opens namespaces.
pub trait Namespaces {
    /// Checks what is at `path`.
    fn inspect(&self, path: &Path) -> Result<NamespaceKind>;
}

/// The kernel's own answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Namespaces for Kernel {
    fn inspect(&self, path: &Path) -> Result<NamespaceKind> {
        let found = match Netns::open(path) {
            Ok(found) => found,
            Err(error) if error.kind() == Kind::Invalid => {
                return Ok(NamespaceKind::Nothing(instead(path, &error)));
            }
            Err(error) => return Err(error),
        };
        let own = Netns::current()?;
        Ok(match found.is_same(&own) {
            true => NamespaceKind::Own(own.inode()),
            false => NamespaceKind::Other(found.inode()),
        })
    }
}

/// The kind of a file that is no namespace, in the words of the reference.
fn instead(path: &Path, error: &Error) -> String {
    match rustix::fs::statfs(path) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
            format!("failed to Statfs {path:?}: no such file or directory")
        }
        Ok(system) if system.f_type != NSFS => {
            format!("unknown FS magic on {path:?}: {:x}", system.f_type)
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_namespaces_from_files() {
        let inspect = |path: &str| Kernel.inspect(Path::new(path)).unwrap();
        assert!(matches!(inspect("/proc/self/ns/net"), NamespaceKind::Own(_)));
        for nothing in ["/proc/self/ns/mnt", "/nonexistent", "/proc/version/x", "/proc/version"] {
            assert!(matches!(inspect(nothing), NamespaceKind::Nothing(_)), "{nothing}");
        }
    }
}
