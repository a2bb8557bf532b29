//! The lifetime of the process that uses the driver.

/// The lifetime of the process that uses the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It answers and exits: what would make it wait for the kernel is left to a child, where that is
    /// known to be reaped.
    Short,
    /// The same for one that never leaves a child behind: it waits for the kernel itself.
    Childless,
    /// It stays: what would make it wait for the kernel is left to a thread.
    Long,
}
