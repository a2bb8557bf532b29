//! Images of registries, discovery, layouts and archives, from a real server over real connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archives;
mod credentials;
mod discovery;
mod faults;
mod registry;
mod support;
mod tools;
