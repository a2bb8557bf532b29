//! What containers of every runtime send and receive: counters, connections, packets, metrics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod capture;
mod dashboard;
mod flows;
mod podman;
mod runtimes;
mod top;
