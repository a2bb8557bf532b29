//! Which layouts of the cluster's records this program knows.

/// The latest version that this program reads and writes.
pub(crate) const LATEST: u32 = 2;
/// The oldest one.
pub(crate) const OLDEST: u32 = LATEST - 1;
