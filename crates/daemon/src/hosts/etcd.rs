//! The cluster's etcd: the one of its own with its certificates and servers, and how a host of any cluster
//! keeps its lease there.

pub(super) mod authority;
pub(super) mod etcd_upkeep;
pub(super) mod join_server;
pub(super) mod lease;
pub(super) mod older;
pub(super) mod own;
pub(super) mod server;
