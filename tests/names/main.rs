//! Names over DNS: who resolves whom, and what becomes of the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod between;
mod churn;
mod cni;
mod docker;
mod host;
mod kurma;
mod life;
mod podman;
mod podmans;
mod sandbox;
