//! The way out of a network: what leaves by it, and that nothing leaves by another one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod changed;
mod forged;
mod gateway;
mod itself;
mod life;
mod removed;
mod runtimes;
mod source;
mod switched;
mod twice;
