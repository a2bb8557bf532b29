//! Kurma's network plugins, both ends: the executables of a plugin, and the networking pod that runs
//! plugins out of their images.

pub mod call;
pub mod config;
mod directories;
mod name;
pub mod reply;
pub mod template;

pub use directories::Directories;
pub use name::{Name, PodId};
