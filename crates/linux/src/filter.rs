//! The packet filter: one table, and per container nothing but elements in its sets.
//!
//! `filter/ruleset.nft` is what is to be read; `filter/ruleset.rs` and `filter/rules.rs` build the same.

mod elements;
mod entry;
mod forwarding;
mod rules;
mod ruleset;

pub use elements::{
    Elements, Owner, find_owned, forget_bridge, holder, install, list_owners, remove, verify,
};
pub use entry::Entry;
pub use forwarding::{Forwarding, allow_forwarding, disallow_forwarding, dropping_chains};
pub use ruleset::{ensure, reload, unload, unload_unowned, verify as verify_ruleset};

#[cfg(test)]
mod tests;
