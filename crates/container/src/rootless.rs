//! For a caller that is not root.

use std::path::Path;

use model::{Error, Result};

/// Moves the calling process into a user, mount and network namespace of its user's own, in which
/// it is root. The namespaces are made if missing and kept by a process of which `runtime` holds
/// the record, so that whoever calls with the same directory comes to the same place.
///
/// # Errors
/// [`model::Kind::Invalid`] if the process has more than one thread: the kernel moves only such
/// ones; [`model::Kind::Denied`] where users may not have namespaces.
pub fn enter(runtime: &Path) -> Result<()> {
    let _ = runtime;
    Err(Error::unsupported("entering namespaces of a user's own"))
}
