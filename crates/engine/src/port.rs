//! The engine's ports to the outside world.

mod cloud;
mod driver;
mod host;
mod ipam;
mod outline;
mod store;

pub use cloud::{
    AddressSpec, AddressUse, Cloud, CloudNetwork, CloudPool, ExposedPort, PoolSpec, PortStatus,
    Records, SubnetPlan,
};
pub use driver::{Driver, HostDataplane, Metered, Near, Neighbours, Note, Presence, Still, Stray};
pub use host::{AttachmentLock, Described, Host, Occupied};
pub use ipam::{Granted, Ipam, Offer};
pub use outline::Outline;
pub(crate) use outline::spans;
pub use store::{Damaged, Expect, Key, Outcome, Prefix, Record, Revision, Store, Txn, Versioned};
