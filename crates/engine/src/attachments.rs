//! Attaching, and what changes of an attachment while it exists.

pub(crate) mod amend;
mod attach;
pub(crate) mod begin;
mod check;
pub(crate) mod endpoint;
pub(crate) mod guest;
mod owner;
mod probe;
pub(crate) mod publish;
mod remember;
mod several;

use crate::engine::Ports;
use crate::port::{Driver, Host, Ipam, Store};
use crate::{Addresses, Links, Records, Subnets};

/// Makes attachments and endpoints, checks them, and changes their ports, names and limits.
pub struct Attachments<'a> {
    store: &'a dyn Store,
    driver: &'a dyn Driver,
    ipam: &'a dyn Ipam,
    host: &'a dyn Host,
    records: Records<'a>,
    addresses: Addresses<'a>,
    links: Links<'a>,
    subnets: Subnets<'a>,
}

impl<'a> Attachments<'a> {
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
        }
    }
}
