//! `Engine`, the one type through which front ends call.

use crate::port::{Driver, Host, Ipam, Store};
use crate::service::Ports;
use crate::{Addresses, Attachments, Links, Networks, Records, Repair, Subnets};

/// Every verb, by the service that has it. A service calls those above it in this list, and never
/// one below it.
pub struct Engine<'a> {
    /// Reads records, and replaces one where it is unchanged.
    pub records: Records<'a>,
    /// Chooses what an attachment holds, and adds it to the transaction that takes it.
    pub addresses: Addresses<'a>,
    /// Undoes an attachment from every state, and keeps what it has as its record says.
    pub links: Links<'a>,
    /// Allocates subnets and addresses by request (libnetwork's IPAM driver).
    pub subnets: Subnets<'a>,
    /// Makes attachments and endpoints, checks them, and changes their ports, names and limits.
    pub attachments: Attachments<'a>,
    /// Makes, changes, renames and removes networks; connects sandboxes; joins endpoints.
    pub networks: Networks<'a>,
    /// Collects what is left over, restores what is missing, backs up.
    pub repair: Repair<'a>,
}

impl<'a> Engine<'a> {
    /// An engine over these ports.
    pub fn new(
        store: &'a dyn Store,
        driver: &'a dyn Driver,
        ipam: &'a dyn Ipam,
        host: &'a dyn Host,
    ) -> Self {
        let ports = &Ports { store, driver, ipam, host };
        Self {
            records: Records::new(ports),
            addresses: Addresses::new(ports),
            links: Links::new(ports),
            subnets: Subnets::new(ports),
            attachments: Attachments::new(ports),
            networks: Networks::new(ports),
            repair: Repair::new(ports),
        }
    }
}
