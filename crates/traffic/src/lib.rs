//! What containers send and receive: counters and their rates, tracked connections with names at both
//! ends, captured packets. Nothing here does I/O.

pub mod address;
pub mod capture;
pub mod flow;
pub mod rate;

pub use address::{Addresses, Party};
