//! Kurma's network plugins, both ends: the executables of a plugin, and the networking pod that runs
//! plugins out of their images.

pub mod call;
pub mod config;
mod directories;
mod disk;
pub mod exec_cni;
pub mod metadata;
mod name;
pub mod plugin;
pub mod pod;
pub mod reply;
mod supervise;
pub mod template;
mod users;
pub mod volume;

pub use config::PodNetworks;
pub use directories::Directories;
pub use name::{Name, PodId};
pub use plugin::NetworkingPod;
pub use pod::Pods;
pub use supervise::{Event, supervise};
