//! `spoke explain`: what it says of a fault is so, and what it says to work does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bed;
mod beyond;
mod faults;
mod filter;
mod fixes;
mod hosts;
mod runtimes;
