//! Addresses and ports of the host: chosen, claimed, reserved, shared with other hosts.

mod apart;
pub(crate) mod choose;
pub(crate) mod claim;
mod endpoint;
pub(crate) mod free;
pub(crate) mod kept;
pub(crate) mod overlap;
mod reservation;
pub(crate) mod search;
pub(crate) mod shared;

use crate::Records;
use crate::port::{Host, Store};
use crate::service::service;

service! {
    /// Chooses what an attachment holds, and adds it to the transaction that takes it.
    pub struct Addresses<'a> { store: Store, host: Host }
    over { records: Records }
}
