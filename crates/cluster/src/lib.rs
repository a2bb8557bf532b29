//! The port [`Cluster`]: what the hosts of a cluster share, and etcd behind it.
//!
//! A host's own store stays the truth about that host. What is here is the truth between hosts: who is
//! a member, which networks many hosts have, which host has which block of addresses, and where each
//! address is. Only the daemon opens it. An attach asks the daemon only for an exact address outside the
//! host's blocks; a detach asks no process.
//!
//! [`Cluster`] is keys, records and transactions, as `engine::port::Store` is; [`layout`] says what they
//! are in etcd, [`Etcd`] carries them, [`View`] is all of it in memory, and [`book`] has the operations.
//! Everything that is read was written by another host: it is bounded, and what is not valid is left
//! out and named.

pub mod book;
pub mod enrollment;
mod etcd;
pub mod layout;
mod layout_version;
mod port;
mod reach;
mod record;
mod token;
pub mod trust;
mod view;

pub use etcd::{Access, Etcd, EtcdServer, Url};
pub use port::{Cluster, Expect, LeaseId, Listener, Outcome, Txn, WatchEnd, Write, is_refusal};
pub use reach::Reached;
pub use record::{
    AliveRecord, Change, HostRecord, Key, Record, Revision, ServerRecord, TokenId, TokenRecord,
    TokenUse, UnknownFields,
};
pub use token::{Door, JoinToken, Secret};
pub use view::View;
