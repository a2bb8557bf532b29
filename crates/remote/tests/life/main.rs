//! The back end for remote drivers against a plugin in memory: the order of calls, the way back from
//! every failure, and what the ledger remembers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod model;
mod order;
mod pools;
mod rig;
mod undo_log;
mod wrong;
