//! Attaching, and what changes of an attachment while it exists.

pub(crate) mod amend;
mod attach;
pub(crate) mod begin;
mod check;
pub(crate) mod endpoint;
pub(crate) mod guest;
mod hardware;
mod owner;
mod probe;
pub(crate) mod publish;
mod remember;
mod several;

use crate::port::{Driver, Host, Ipam, Store};
use crate::service::service;
use crate::{Addresses, Links, Records, Subnets};

service! {
    /// Makes attachments and endpoints, checks them, and changes their ports, names and limits.
    pub struct Attachments<'a> { store: Store, driver: Driver, ipam: Ipam, host: Host }
    over { records: Records, addresses: Addresses, links: Links, subnets: Subnets }
}
