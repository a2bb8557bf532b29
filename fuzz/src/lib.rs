//! Fuzzing on the stable compiler: inputs are made from real ones (`corpus/`) by changing them
//! without knowing what they mean, and nothing may panic, hang, or break what its target says.
//!
//! A target takes bytes and panics where a property does not hold, so that any fuzzer can drive it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cloud;
mod dhcp;
mod distribution;
mod docker;
mod engine_api;
mod image_archive;
mod kuryr;
mod mutate;
mod names;
mod nothing;
mod packet;
mod place;
mod plugin;
mod plugin_answers;
mod podman;
mod records;
mod run;
mod runtime;
mod server;
mod wire;

pub use cloud::{cloud, cloud_settings, database};
pub use dhcp::{dhcp_call, dhcp_packet};
pub use distribution::{image_challenge, image_discovery, image_document};
pub use docker::docker;
pub use engine_api::engine_api;
pub use image_archive::{image_archive, image_signature};
pub use kuryr::kuryr;
pub use names::{fence, names};
pub use packet::packet;
pub use plugin::plugin;
pub use plugin_answers::plugin_answers;
pub use podman::podman;
pub use records::{backup, journal, record};
pub use run::{corpus, run};
pub use runtime::{cached, list};
pub use wire::{arguments, netlink, result};

/// What is fuzzed: returns when everything is as it should be.
pub type Target = fn(&[u8]);
