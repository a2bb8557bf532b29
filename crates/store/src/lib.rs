//! Where records are kept: embedded files for one host, memory for tests.
//!
//! Both are an [`engine::port::Store`] and pass the same conformance suite (`tests/`).

mod boot;
mod embedded;
mod memory;

pub use boot::boot_id;
pub use embedded::{Embedded, Roots};
pub use memory::Memory;
