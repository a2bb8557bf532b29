//! This host, for the command line, the daemon and the plugins: the engine over its ports, and what several of them
//! know or ask of the host.
//!
//! [`host_context`] opens the store and wires the engine; [`dataplane`] chooses who makes a link.

pub mod cloud;
pub mod cluster_health;
pub mod dataplane;
pub mod denied;
pub mod described;
pub mod engines;
pub mod event;
pub mod exit;
pub mod facts;
pub mod follow;
mod host;
pub mod host_context;
pub mod hosts;
pub mod kurma;
pub mod neighbours;
pub mod podman_networks;
pub mod replaced;
pub mod rivals;
pub mod sandbox;
pub mod serving;
pub mod shared;
mod sources;
#[cfg(test)]
mod test_file;
pub mod time;
pub mod views;
pub mod web;

pub use self::host::site;
