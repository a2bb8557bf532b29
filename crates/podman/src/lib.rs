//! Front end: netavark's plugin interface, version 1.0.0 (`plugin-API.md` of netavark).
//!
//! Podman executes a plugin with `create` when a network is made; netavark executes it with `setup`
//! and `teardown` when a container comes and goes. Nothing tells a plugin that a network is removed:
//! Podman's file of the network is the network, and each call brings its contents along. So `create`
//! changes nothing, and what the others left is found by [`forgotten()`].

mod client;
mod create;
mod describe;
mod forgotten;
mod join;
mod option;
mod setup;
mod verb;
mod way_out;
mod wire;

pub use forgotten::forgotten;
pub use verb::{Context, Declared, Output, Verb, introduce, run};

/// What the driver is called: `podman network create -d spoke`, and the name of the executable.
pub const DRIVER: &str = "spoke";
