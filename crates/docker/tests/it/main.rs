//! The protocol as engines speak it, and as nobody should.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod faults;
mod plugin;
mod serving;
mod tls;
mod traces;
mod wire;
