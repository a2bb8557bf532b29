//! What changes while containers run: ports of the host, limits, settings of networks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod at_once;
mod bed;
mod cli;
mod cni;
mod counted;
mod docker;
mod firewall;
mod firewall_reported;
mod flowing;
mod guest;
mod killed;
mod limit;
mod network;
mod podman;
mod quota;
mod rename;
mod renamed;
mod renamed_docker;
mod titles;
