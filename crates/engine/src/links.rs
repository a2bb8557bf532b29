//! What one attachment has in the kernel: served, counted, restored, undone.

pub(crate) mod detach;
pub(crate) mod fence;
pub(crate) mod gateway_choice;
pub(crate) mod quota;
mod renamed;
mod restore;
pub(crate) mod rewind;
pub(crate) mod sandbox;
pub(crate) mod sandbox_ports;
mod serving;

use crate::engine::Ports;
use crate::port::{Driver, Host, Ipam, Store};
use crate::{Addresses, Records};

/// Undoes an attachment from every state, and keeps what it has as its record says.
pub struct Links<'a> {
    store: &'a dyn Store,
    driver: &'a dyn Driver,
    ipam: &'a dyn Ipam,
    host: &'a dyn Host,
    records: Records<'a>,
    addresses: Addresses<'a>,
}

impl<'a> Links<'a> {
    pub(crate) fn new(ports: &Ports<'a>) -> Self {
        Self {
            store: ports.store,
            driver: ports.driver,
            ipam: ports.ipam,
            host: ports.host,
            records: Records::new(ports),
            addresses: Addresses::new(ports),
        }
    }
}
