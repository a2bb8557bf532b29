//! One at a time works on an address that goes from host to host: who asks for it, or who gives it away.
//!
//! A process of this host may ask for an address in the moment in which the keeper hands it over: without turns its
//! note that this host has the address could be written after the other host has it.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use model::NetworkName;

use super::Hosts;

/// An address, and of which network.
pub(super) type Place = (NetworkName, IpAddr);

/// The right to work on an address, until it is dropped.
pub(super) struct Turn<'h> {
    hosts: &'h Hosts,
    place: Place,
}

impl Hosts {
    /// The right to work on an address, once nobody else has it; none where that takes longer than `limit`.
    pub(super) fn turn(&self, place: &Place, limit: Duration) -> Option<Turn<'_>> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while !state.turns.insert(place.clone()) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(Turn { hosts: self, place: place.clone() })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.hosts.set(|state| {
            state.turns.remove(&self.place);
        });
    }
}
