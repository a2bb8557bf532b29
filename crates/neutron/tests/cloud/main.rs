//! Networks, pools and addresses on a real Neutron, asked for as an engine asks: one row or more of
//! everything that kuryr-libnetwork gets wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod attached;
mod bed;
mod borrowed;
mod existing;
mod faults;
mod identity;
mod nested;
mod networks;
mod pools;
mod stock;
