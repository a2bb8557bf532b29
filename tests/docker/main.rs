//! Real Docker Engines, each in a world of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
