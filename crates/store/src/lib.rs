//! Where records are kept: embedded files for one host.
//!
//! They are an [`engine::port::Store`], and pass the same conformance suite as the one of tests in memory (`tests/`).

pub mod archive;
mod boot;
mod embedded;

pub use boot::boot_id;
pub use embedded::{Changed, Embedded, Roots, Watch};
