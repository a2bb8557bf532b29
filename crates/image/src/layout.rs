//! OCI image layouts (OCI image specification 1.1, image-layout.md), and what all OCI images have
//! in common.

mod config;

pub use config::{Config, MOUNTS, PRIVILEGED};
