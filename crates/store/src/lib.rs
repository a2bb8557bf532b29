//! Where records are kept: embedded files for one host, memory for tests.
//!
//! Both are an [`engine::port::Store`] and pass the same conformance suite (`tests/`).

pub mod archive;
mod boot;
mod embedded;
mod memory;

pub use boot::boot_id;
pub use embedded::{Changed, Embedded, Roots, Watch};
pub use memory::Memory;
