//! The parts of one attachment in the kernel: served, counted, restored, undone.

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
pub(crate) mod settings;

use crate::port::{Driver, Host, Ipam, Store};
use crate::service::service;
use crate::{Addresses, Records};

service! {
    /// Undoes an attachment from every state, and keeps what it has as its record says.
    pub struct Links<'a> { store: Store, driver: Driver, ipam: Ipam, host: Host }
    over { records: Records, addresses: Addresses }
}
