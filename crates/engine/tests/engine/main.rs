//! The engine over a store and a dataplane in memory.

#![allow(clippy::unwrap_used)]

mod common;
mod life;
mod races;
