//! The front end over the real engine and a store in memory, with a dataplane that only records.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod life;
mod refusal;
mod replay;
mod rig;
mod share;
mod storm;
