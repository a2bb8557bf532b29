//! Real Docker Engines, each in a world of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod fixture;
mod ipam;
mod life;
mod neighbours;
mod options;
mod ports;
