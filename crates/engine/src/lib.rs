//! The verbs of Spoke.
//!
//! [`Engine`] is the only entry: every front end turns a runtime's call into a [`Request`] and
//! calls it. The engine decides (which address, which holder of a port, what is to be undone) and
//! does no I/O itself: the dataplane, third-party address sources and the store are behind the
//! ports in [`port`], which the binary wires.

mod alias;
mod amend;
mod attach;
mod backup;
mod begin;
mod bind;
mod book;
mod check;
mod choose;
mod claim;
mod closing;
mod detach;
mod endpoint;
mod engine;
mod fence;
mod free;
mod gc;
mod guest;
mod heal;
mod kept;
mod label;
mod naming;
mod neighbours;
mod network;
mod overlap;
mod owner;
pub mod port;
mod probe;
mod provision;
mod publish;
mod rename;
mod renamed;
mod request;
mod returning;
mod sandbox;
mod search;
mod serving;
mod settings;
mod several;
mod shared;
mod strays;
mod subnet;
mod title;
mod unlisted;
mod view;

pub use amend::{HostPort, Noting, UsedUp};
pub use backup::{RestoreMode, Restored, describe};
pub use endpoint::Joining;
pub use engine::Engine;
pub use free::{Occupancy, check_subnet};
pub use gc::{Finding, Garbage, Mode, Reconciled, Remedy};
pub use guest::GUEST;
pub use heal::{AtOnce, Backoff, Healed};
pub use kept::{APART, ENDPOINT, Entering};
pub use naming::Connecting;
pub use publish::{OpenPort, Publishing, Siblings};
pub use request::{Members, Request};
pub use sandbox::GATEWAY_NETWORK;
pub use shared::InUse;
pub use subnet::{
    AUXILIARY, AddressRequest, GATEWAY, Purpose, SubnetRequest, SubnetSpec, name_of as subnet_name,
};
pub use unlisted::Live;
