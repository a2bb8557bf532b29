//! Real runtimes on the plugins under test, each in a world of its own: that containers get their
//! network, and that nothing stays when they go.
//!
//! `SPOKE_TEST_PLUGINS=reference` runs the same with the reference plugins.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containerd;
mod cri;
mod crowd;
mod firewalld;
mod firewalld_policies;
mod podman;
mod rootless;
mod stage;
