//! Containers on a real Neutron: its API alone, or (make test-neutron) all of it with OVN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adopted;
mod bed;
mod better;
mod busy;
mod calls;
mod container;
mod crowd;
mod damaged;
mod endpoint;
mod figures;
mod fixture;
mod floating;
mod front;
mod front_runtimes;
mod held;
mod hosts;
mod ipam;
mod leaks;
mod lost;
mod named;
mod naming;
mod network;
mod ovn;
mod port;
mod refused;
mod repeated;
mod rival;
mod runtimes;
mod stock;
mod stock_reported;
mod vif;
