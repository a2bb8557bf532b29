//! The page: what a real browser makes of it, and who does not get it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod docker;
mod refused;
mod views;
