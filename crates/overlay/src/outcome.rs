//! The result of making the kernel's state what it should be.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Error, PublicKey};

/// What was done.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many devices, entries and rules were changed.
    pub changed: usize,
    /// What could not be done, each on a network of its own.
    pub failures: Vec<Error>,
    /// The public keys of this host's tunnels, by turn.
    pub keys: BTreeMap<u32, PublicKey>,
    /// The hosts that have agreed with this one on keys, by turn.
    pub known: BTreeMap<u32, BTreeSet<IpAddr>>,
}
