//! Network drivers and IPAM drivers of Docker's, called by Spoke.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod discovery;
mod driver;
mod endpoint;
mod failure;
mod gateways;
mod ipam;
mod kuryr;
mod life;
mod lost;
mod ours;
mod ovn;
