//! Containers on a real Neutron: its API alone, or (make test-neutron) all of it with OVN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
