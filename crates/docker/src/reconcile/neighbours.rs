//! Networks of other drivers: their addresses are theirs, and they have names.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::AliasId;

use super::Settings;
use super::snapshot::Snapshot;
use super::store_view::StoreView;
use crate::api::{Network, Reach};

/// Entries of an older list may be gone.
const LASTING: Duration = Duration::from_secs(600);

/// The last list.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    listed: Vec<Network>,
    seen: Option<Instant>,
}

impl Neighbours {
    /// Takes over a complete snapshot. The store has the networks that got their addresses from
    /// Spoke.
    pub(super) fn replace(
        &mut self,
        snapshot: &Snapshot,
        settings: &Settings,
        book: &dyn StoreView,
    ) {
        let is_foreign = |network: &&Network| {
            network.reach != Reach::Template
                && !network.subnets.is_empty()
                && ![&network.driver, &network.ipam].iter().any(|name| settings.has(name))
        };
        let networks = snapshot.networks.values().map(|sighting| &sighting.network);
        self.seen = Some(Instant::now());
        self.set(networks.filter(is_foreign).cloned().collect(), book);
    }

    /// Leaves out what was removed.
    pub(super) fn forget(&mut self, removed: &BTreeSet<AliasId>, book: &dyn StoreView) {
        let stay = |network: &&Network| !removed.contains(&network.id);
        self.set(self.listed.iter().filter(stay).cloned().collect(), book);
    }

    /// Drops everything if the last snapshot is old.
    pub(super) fn expire(&mut self, now: Instant, book: &dyn StoreView) {
        if self.seen.is_some_and(|seen| now.saturating_duration_since(seen) >= LASTING) {
            self.set(Vec::new(), book);
        }
    }

    fn set(&mut self, networks: Vec<Network>, book: &dyn StoreView) {
        if self.listed != networks {
            self.listed = networks;
            book.see(&self.listed);
        }
    }
}
