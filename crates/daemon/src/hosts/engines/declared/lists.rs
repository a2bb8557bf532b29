//! The lists of Docker's engines.

use std::time::Duration;

use docker::api::{self, Api};

use crate::Daemon;

/// How long an engine may take to list its networks.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The networks of every engine.
pub(super) struct Lists {
    pub(super) all: Vec<api::Network>,
    /// Whether every engine that is configured has answered.
    pub(super) are_whole: bool,
}

impl Lists {
    pub(super) fn ask(daemon: &Daemon) -> Self {
        let config = &daemon.context_pool.config().docker;
        let mut lists = Self { all: Vec::new(), are_whole: true };
        for socket in config.api.iter().filter(|_| config.enabled) {
            match Api::new(socket, TIMEOUT).networks() {
                Ok(networks) => lists.all.extend(networks),
                Err(_) => lists.are_whole = false,
            }
        }
        lists
    }
}
