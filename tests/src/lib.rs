//! Fixtures for tests with real plugins, real runtimes and the real kernel.
//!
//! A [`World`] is a whole private host: its own processes, network and file system, thrown away
//! with the value. [`Cni`] plays the runtime's part towards the plugins of a world, [`Snapshot`]
//! says what a world holds, and [`Snapshot::changes`] what became different.
//!
//! An [`Engine`] is a real Docker Engine in a world of its own, [`Serve`] the daemon `spoke serve`
//! beside it, and [`Host`] says that the real host did not notice.
//!
//! A fixture that cannot do its work panics with the reason: a missing tool fails a test, it never
//! skips one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ask;
mod cgroup;
mod cni;
mod containerd;
mod daemon;
mod docker;
mod etcd;
pub mod fault_proxy;
mod glance;
pub mod grpc;
mod host;
pub mod http;
mod inside;
pub mod kernel;
pub mod kurma;
mod lost_answer;
mod managed;
mod moment;
mod names;
pub mod neutron;
pub mod neutron_lab;
pub mod neutron_switch;
mod observe;
mod plugin_image;
mod plugins;
mod podman;
mod podman5;
pub mod proxy;
pub mod registry;
mod remains;
pub mod remote_driver;
mod running;
mod serve;
mod skipped;
mod snapshot;
mod trace;
mod within;
mod world;

pub use cgroup::Cgroup;
pub use cni::{Answer, Cni};
pub use containerd::Containerd;
pub use docker::{Engine, Events, Release};
pub use etcd::Etcd;
pub use glance::glance;
pub use host::{Host, Traces};
pub use kernel::Feature;
pub use lost_answer::LostAnswer;
pub use managed::Managed;
pub use moment::Moment;
pub use names::Names;
pub use plugin_image::PluginImage;
pub use plugins::{Plugins, program};
pub use podman::Podman;
pub use podman5::{Podman5, PodmanRelease};
pub use remains::Remains;
pub use running::Running;
pub use serve::{Held, Serve};
pub use skipped::skipped;
pub use snapshot::{Snapshot, report};
pub use trace::Trace;
pub use world::{Base, Output, World, output};
