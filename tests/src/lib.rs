//! Fixtures for tests with real plugins, real runtimes and the real kernel.
//!
//! A [`World`] is a whole private host: its own processes, network and file system, thrown away
//! with the value. [`Cni`] plays the runtime's part towards the plugins of a world, [`Snapshot`]
//! says what a world holds, and [`Snapshot::changes`] what became different.
//!
//! A fixture that cannot do its work panics with the reason: a missing tool fails a test, it never
//! skips one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cni;
mod names;
mod plugins;
mod remains;
mod running;
mod snapshot;
mod trace;
mod world;

pub use cni::{Answer, Cni};
pub use names::Names;
pub use plugins::Plugins;
pub use remains::Remains;
pub use running::Running;
pub use snapshot::{Snapshot, report};
pub use trace::Trace;
pub use world::{Output, World};
