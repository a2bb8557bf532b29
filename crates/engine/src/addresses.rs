//! Addresses and ports of the host: chosen, claimed, reserved, shared with other hosts.

pub(crate) mod choose;
pub(crate) mod claim;
mod endpoint;
pub(crate) mod free;
pub(crate) mod overlap;
mod reservation;
pub(crate) mod search;
pub(crate) mod shared;

use crate::Records;
use crate::engine::Ports;
use crate::port::{Host, Store};

/// Chooses what an attachment holds, and adds it to the transaction that takes it.
pub struct Addresses<'a> {
    store: &'a dyn Store,
    host: &'a dyn Host,
    records: Records<'a>,
}

impl<'a> Addresses<'a> {
    pub(crate) fn new(ports: &Ports<'a>) -> Self {
        Self { store: ports.store, host: ports.host, records: Records::new(ports) }
    }
}
