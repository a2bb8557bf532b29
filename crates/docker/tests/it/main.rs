//! The protocol as engines speak it, and as no client should.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod any_call;
mod faults;
mod outward;
mod plugin;
mod serving;
mod tls;
mod traces;
mod wire;
