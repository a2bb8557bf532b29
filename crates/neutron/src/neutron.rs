//! The cloud of this host.

use std::path::PathBuf;

use crate::api::{Api, Transport};
use crate::config::Settings;

/// Neutron, as this process knows it. One for all threads.
pub struct Neutron {
    pub(crate) settings: Settings,
    pub(crate) transport: Box<dyn Transport>,
    /// Where this host's processes share what goes with the boot.
    pub(crate) directory: PathBuf,
}

impl Neutron {
    /// Over this transport; processes of this host share what they must know below `directory`.
    pub fn over(transport: Box<dyn Transport>, settings: Settings, directory: PathBuf) -> Self {
        Self { settings, transport, directory }
    }

    /// The calls.
    pub fn api(&self) -> Api<'_> {
        Api::new(self.transport.as_ref())
    }

    /// What was set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
