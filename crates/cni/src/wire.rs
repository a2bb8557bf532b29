//! CNI's wire format: environment, configuration, results and errors of every version.
//!
//! This module knows neither engine nor kernel, and serves both plugins and callers of plugins.
//! Nothing in it panics, whatever it reads.

mod args;
mod config;
mod environment;
mod failure;
mod node;
mod success;
mod syntax;
mod version;

pub use args::Args;
pub use config::{Configuration, Document, LONGEST};
pub use environment::{Command, Environment};
pub use failure::Failure;
pub use node::{Node, Object};
pub(crate) use success::NO_ADDRESS;
pub use success::{Interface, Ip, Success, parse_dns, parse_routes};
pub use version::Version;
