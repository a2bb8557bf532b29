//! The verbs of Spoke.
//!
//! [`Engine`] is the only entry: every front end turns a runtime's call into a [`Request`] and
//! calls it. The engine decides (which address, which holder of a port, what is to be undone) and
//! does no I/O itself: the dataplane, third-party address sources and the store are behind the
//! ports in [`port`], which the binary wires.

mod addresses;
mod attachments;
mod contention;
mod engine;
mod failures;
mod finding;
mod links;
mod live;
mod networks;
pub mod port;
mod records;
mod repair;
mod request;
mod service;
mod subnets;

pub use addresses::Addresses;
pub use addresses::free::{CHOSEN_FIRST, Occupancy, check_subnet};
pub use addresses::shared::{InUse, Shared};
pub use attachments::Attachments;
pub use attachments::amend::withdraw::HostPort;
pub use attachments::endpoint::Joining;
pub use attachments::guest::GUEST;
pub use attachments::publish::{OpenPort, Publishing, Siblings};
pub use engine::Engine;
pub use finding::{Finding, Garbage, Mode, Reconciled, Remedy};
pub use links::Links;
pub use links::gateway_choice::GATEWAY_NETWORK;
pub use links::quota::{Noting, UsedUp};
pub use live::Live;
pub use networks::Networks;
pub use networks::kept::{APART, Entering};
pub use records::Records;
pub use records::reservation::{AUXILIARY, ENDPOINT, GATEWAY};
pub use repair::Repair;
pub use repair::backup::{RestoreMode, Restored, describe};
pub use repair::heal::{AtOnce, Backoff, Healed};
pub use request::{Connecting, Members, Request};
pub use subnets::allocation::name_of as subnet_name;
pub use subnets::{AddressRequest, Purpose, SubnetRequest, SubnetSpec, Subnets};
