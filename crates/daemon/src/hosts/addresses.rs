//! Addresses of networks of many hosts: the blocks and single addresses of this host, and the containers that have
//! them.

pub(super) mod address_lock;
pub(super) mod announce;
pub(super) mod attached;
pub(super) mod blocks;
pub(super) mod called;
pub(super) mod named_addresses;
pub(super) mod pins;
pub(super) mod resting;
