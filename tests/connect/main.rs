//! `spoke network connect`: what a namespace has besides its interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bed;
mod chain;
mod completion;
mod endpoint;
mod killed;
mod killed_endpoint;
mod link_local;
mod names;
mod ovs;
mod ovs_cni;
mod ovs_kernel;
mod ovs_lost;
mod ready;
mod refused;
mod tenant;
