//! Many hosts: each is a world of its own, on one segment with a real etcd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bed;
mod check;
mod encrypt;
mod failure;
mod guard;
mod member;
mod network;
mod pins;
mod runtimes;
mod tls;
