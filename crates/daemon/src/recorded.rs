//! Networks that commands declared, and the bridges that records name.

use std::collections::{BTreeMap, BTreeSet};

use engine::port::Key;
use model::{IfName, NetworkName};

/// The networks that commands declared.
#[derive(Debug, Default)]
pub(super) struct Declared(BTreeSet<NetworkName>);

impl Declared {
    /// A record is there, or gone. Whether that is news of a declared network.
    pub(super) fn note(&mut self, key: &Key, is_there: bool) -> bool {
        match key {
            Key::Network(name) if is_there => self.0.insert(name.clone()),
            Key::Network(name) => self.0.remove(name),
            _ => false,
        }
    }
}

/// What holds for each bridge: as a command declared it, or else a configuration or an attachment. What a network has that
/// was declared without it, as a configuration said on this boot, does not hold any more.
pub(super) fn by_bridge<T: Clone>(
    (recorded, declared): (&BTreeMap<Key, T>, &Declared),
    of: impl Fn(&T) -> (&NetworkName, &IfName),
) -> BTreeMap<IfName, T> {
    let mut all = BTreeMap::new();
    for (key, value) in recorded {
        let (network, bridge) = of(value);
        let is_declared = matches!(key, Key::Network(_));
        if is_declared || !declared.0.contains(network) {
            all.entry(bridge.clone()).or_insert_with(|| value.clone());
        }
    }
    all
}
