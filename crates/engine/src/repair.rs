//! Makes what exists agree with the records, and the records with what exists.

pub(crate) mod backup;
mod evict;
mod gc;
pub(crate) mod heal;
mod strays;
pub(crate) mod unlisted;

use crate::port::{Driver, Host, Ipam, Store};
use crate::service::service;
use crate::{Addresses, Attachments, Links, Networks, Records, Subnets};

service! {
    /// Collects what is left over, restores what is missing, backs up.
    pub struct Repair<'a> { store: Store, driver: Driver, ipam: Ipam, host: Host }
    over {
        records: Records, addresses: Addresses, links: Links, subnets: Subnets,
        attachments: Attachments, networks: Networks
    }
}
