//! `Engine`, the one type through which front ends call.

use crate::port::{Driver, Host, Ipam, Store};

/// Every verb, over the ports that the binary wired. The verbs stand in the modules that are
/// named after them.
pub struct Engine<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) driver: &'a dyn Driver,
    pub(crate) ipam: &'a dyn Ipam,
    pub(crate) host: &'a dyn Host,
}

impl<'a> Engine<'a> {
    /// An engine over these ports.
    pub fn new(
        store: &'a dyn Store,
        driver: &'a dyn Driver,
        ipam: &'a dyn Ipam,
        host: &'a dyn Host,
    ) -> Self {
        Self { store, driver, ipam, host }
    }
}
