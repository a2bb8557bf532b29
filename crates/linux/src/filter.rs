//! The packet filter: tables of our own, and per container nothing but elements in their sets.
//!
//! `filter/ruleset.nft` is what is to be read; `filter/ruleset.rs` and `filter/rules.rs` build the same.

pub mod counted;
mod elements;
mod entry;
pub mod fence;
mod forwarding;
mod lan;
pub(crate) mod loopback;
mod names;
mod neighbours;
mod owner;
pub(crate) mod quota;
mod rules;
mod ruleset;
mod sandbox_names;
mod shared;
pub(crate) mod spoof;
pub(crate) mod transit;
pub(crate) mod via;

pub(crate) use elements::remove_same;
pub use elements::{Elements, find_owned, holder, install, list_owners, remove, restore, verify};
pub use entry::Entry;
pub(crate) use forwarding::{CHAINS as FORWARDING_CHAINS, forget_policy};
pub use forwarding::{
    Dropping, Forwarding, Open, allow_forwarding, disallow_forwarding, dropping_chains, left_open,
};
pub use lan::set_lan;
pub use names::{NameServer, keep as keep_names, unload as unload_names};
pub use owner::Owner;
pub(crate) use ruleset::{HAIRPIN, TABLE};
pub use ruleset::{
    ensure, is_loaded, mend, reload, unload, unload_unowned, verify as verify_ruleset,
};
pub use sandbox_names::{
    SANDBOX_SERVER, SandboxNames, lead as lead_sandbox, lead_again as lead_sandbox_again,
    unlead as unlead_sandbox,
};
pub use shared::{Guard, forget_bridge, guard_bridge, make_internal, police};

use model::IfName;

/// The name of an interface in a key, which the kernel fills with zeros.
pub(crate) fn name_of(bytes: &[u8]) -> Option<IfName> {
    str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests;
