//! Networks, the sandboxes that Spoke connects to them, and the default gateways of these.

mod adopt;
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

use crate::port::{Driver, Host, Ipam, Store};
use crate::service::service;
use crate::{Addresses, Attachments, Links, Records, Subnets};

service! {
    /// Makes, changes, renames and removes networks; connects sandboxes; joins endpoints.
    pub struct Networks<'a> { store: Store, driver: Driver, ipam: Ipam, host: Host }
    over {
        records: Records, addresses: Addresses, links: Links, subnets: Subnets,
        attachments: Attachments
    }
}
