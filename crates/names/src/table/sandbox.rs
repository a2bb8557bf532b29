//! Sandboxes in which queries come in.

use std::path::PathBuf;

/// A sandbox whose runtime has a server in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sandbox {
    /// Its network namespace.
    pub path: PathBuf,
    /// The inode of that; 0 where it is not known.
    pub inode: u64,
    /// Whether one of its networks has a fence or a way out of its own.
    pub is_shut: bool,
}
