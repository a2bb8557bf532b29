//! What tests of several crates put in the place of the engine's ports, and the records that they begin with.
//! A double that one crate uses stands in that crate's tests.

#![expect(clippy::unwrap_used, reason = "only tests call this")]

mod memory;
mod ports;
mod records;

pub use memory::Memory;
pub use ports::{BookOnly, OneProcess};
pub use records::{address, alias, attachment_id, bridge, network, pool, request};
