//! The lock of an address that goes from host to host: who asks for it has it, or who gives it away.
//!
//! A process of this host may ask for an address in the moment in which the keeper hands it over: without the lock its
//! note that this host has the address could be written after the other host has it.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use model::NetworkName;

use crate::hosts::Hosts;

/// An address, and of which network.
pub(in crate::hosts) type NetworkAddress = (NetworkName, IpAddr);

/// The lock, until it is dropped.
pub(in crate::hosts) struct AddressLock<'h> {
    hosts: &'h Hosts,
    place: NetworkAddress,
}

impl Hosts {
    /// Locks an address, once no other thread has the lock; none where that takes longer than `limit`.
    pub(in crate::hosts) fn lock_address(
        &self,
        place: &NetworkAddress,
        limit: Duration,
    ) -> Option<AddressLock<'_>> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while !state.locked_addresses.insert(place.clone()) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(AddressLock { hosts: self, place: place.clone() })
    }
}

impl Drop for AddressLock<'_> {
    fn drop(&mut self) {
        self.hosts.set(|state| {
            state.locked_addresses.remove(&self.place);
        });
    }
}
