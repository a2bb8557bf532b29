//! Makes what exists agree with the records, and the records with what exists.

pub(crate) mod backup;
mod evict;
mod gc;
pub(crate) mod heal;
mod strays;
pub(crate) mod unlisted;

use crate::engine::Ports;
use crate::port::{Driver, Host, Ipam, Store};
use crate::{Addresses, Attachments, Links, Networks, Records, Subnets};

/// Collects what is left over, restores what is missing, backs up.
pub struct Repair<'a> {
    store: &'a dyn Store,
    driver: &'a dyn Driver,
    ipam: &'a dyn Ipam,
    host: &'a dyn Host,
    records: Records<'a>,
    addresses: Addresses<'a>,
    links: Links<'a>,
    subnets: Subnets<'a>,
    attachments: Attachments<'a>,
    networks: Networks<'a>,
}

impl<'a> Repair<'a> {
    pub(crate) fn new(ports: &Ports<'a>) -> Self {
        Self {
            store: ports.store,
            driver: ports.driver,
            ipam: ports.ipam,
            host: ports.host,
            records: Records::new(ports),
            addresses: Addresses::new(ports),
            links: Links::new(ports),
            subnets: Subnets::new(ports),
            attachments: Attachments::new(ports),
            networks: Networks::new(ports),
        }
    }
}
