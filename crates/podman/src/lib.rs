//! Front end: netavark's plugin interface, version 1.0.0 (`plugin-API.md` of netavark).
//!
//! Podman executes a plugin with `create` when a network is made; netavark executes it with `setup`
//! and `teardown` when a container comes and goes. A plugin is not called when a network is
//! removed: Podman's file of the network is the network, and each call has its contents. So
//! `create` changes nothing, and [`forgotten()`] finds what removed networks left.

mod client;
mod context;
mod create;
mod default_route;
mod describe;
mod forgotten;
mod join;
mod many;
mod option;
mod setup;
mod shared;
mod verb;
mod wire;

pub use context::{Context, Declared};
pub use describe::described;
pub use forgotten::forgotten;
pub use shared::{is_joined, is_shared, shared_file};
pub use spec::ManyHosts;
pub use verb::{Output, Verb, introduce, run};

/// The name of the driver: `podman network create -d spoke`, and the name of the executable.
pub const DRIVER: &str = "spoke";
