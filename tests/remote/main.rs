//! Network drivers and IPAM drivers of Docker's, called by Spoke.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod driver;
