//! Networks, the sandboxes that Spoke connects to them, and the default gateways of these.

mod alias;
mod closing;
mod fence;
pub(crate) mod kept;
pub(crate) mod naming;
mod network;
mod provision;
mod rename;
pub(crate) mod sandbox;
mod settings;

use crate::engine::Ports;
use crate::port::{Driver, Host, Ipam, Store};
use crate::{Addresses, Attachments, Links, Records, Subnets};

/// Makes, changes, renames and removes networks; connects sandboxes; joins endpoints.
pub struct Networks<'a> {
    store: &'a dyn Store,
    driver: &'a dyn Driver,
    ipam: &'a dyn Ipam,
    host: &'a dyn Host,
    records: Records<'a>,
    addresses: Addresses<'a>,
    links: Links<'a>,
    subnets: Subnets<'a>,
    attachments: Attachments<'a>,
}

impl<'a> Networks<'a> {
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
        }
    }
}
