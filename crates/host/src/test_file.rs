//! Files of a host in a directory of a test.

use std::path::Path;

/// Writes the file at this path below `root`, with the directories above it.
pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
