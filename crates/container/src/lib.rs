//! The engine of plugin containers: namespaces, file systems, supervised processes.
//!
//! A container is a directory with its records, and a process, its init, with which everything in
//! it ends. A process that knows the directory can find the container again, call into it and end
//! it: no other process has to stay.

mod bundle;
mod capability;
mod cgroup;
mod copy;
mod directory;
mod ending;
mod engine;
mod exec;
mod fault;
pub mod host;
mod idle;
mod init;
mod inside;
mod line;
mod privileges;
mod program;
mod rootfs;
pub mod rootless;
mod runtime;
mod seccomp;
mod spec;
mod start;
mod sys;
mod traces;
mod tree;

pub use capability::{Capabilities, Capability};
pub use ending::{Ended, Ending, LastEnd};
pub use engine::{Engine, Running};
pub use spec::{
    Bounds, ContainerName, Devices, Mount, Process, Propagation, Resources, Root, Spec,
};
