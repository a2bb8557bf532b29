//! The client against servers that misbehave.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod exchange;
mod live;
mod server;
mod sign_on;
mod tls;

use std::path::Path;
use std::time::Duration;

use neutron::Neutron;
use neutron::config::{Access, Identity, Settings};
use neutron::contract::HostId;

/// A client without Keystone.
fn open(endpoint: &str, directory: &Path) -> Neutron {
    let access = Access {
        endpoint: Some(endpoint.to_owned()),
        timeout: Duration::from_secs(5),
        ..Access::of(Identity::None { project: Some("p".to_owned()) })
    };
    connect(access, directory)
}

fn connect(access: Access, directory: &Path) -> Neutron {
    let host = HostId::try_from("host".to_owned()).unwrap();
    Neutron::connect(Settings::new(access, host).unwrap(), directory.to_owned()).unwrap()
}
