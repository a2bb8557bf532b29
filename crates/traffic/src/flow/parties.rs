//! The parties of connections, as they were when these began.

use std::collections::BTreeMap;

use netlink::conntrack::tracked::{Change, Tracked, Tuple};

use super::Flow;
use crate::address::{Addresses, Party};

/// More connections are not remembered: their ends are named by who has the addresses when they end.
const MOST: usize = 65_536;

/// The ends of connections that have begun. When one ends its container may be gone, and another one may
/// have the address.
#[derive(Debug, Default)]
pub struct FlowParties(BTreeMap<Key, [Party; 2]>);

/// The zone, the protocol and the first packet's addresses.
type Key = (u16, u8, Tuple);

fn key(entry: &Tracked) -> Key {
    (entry.zone, entry.protocol, entry.original)
}

impl FlowParties {
    /// Remembers a connection that is there.
    pub fn remember(&mut self, entry: &Tracked, known: &Addresses) -> Flow {
        let flow = Flow::of(entry, known);
        // An earlier connection with the same addresses is over.
        self.0.remove(&key(entry));
        if flow.is_of_container() && self.0.len() < MOST {
            let parties = [flow.source.party.clone(), flow.destination.party.clone()];
            self.0.insert(key(entry), parties);
        }
        flow
    }

    /// A connection that began or ended, with the ends that it began with.
    pub fn flow(&mut self, change: Change, entry: &Tracked, known: &Addresses) -> Flow {
        if change == Change::Opened {
            return self.remember(entry, known);
        }
        let mut flow = Flow::of(entry, known);
        if let Some([source, destination]) = self.0.remove(&key(entry)) {
            (flow.source.party, flow.destination.party) = (source, destination);
        }
        flow
    }
}
