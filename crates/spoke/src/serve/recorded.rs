//! What records say of bridges.

use std::collections::BTreeMap;

use engine::port::Key;
use model::{IfName, NetworkName};

/// What holds for each bridge: as a command declared it, or else a configuration or an attachment.
pub(super) fn by_bridge<T: Clone>(
    recorded: &BTreeMap<Key, T>,
    of: impl Fn(&T) -> (&NetworkName, &IfName),
) -> BTreeMap<IfName, T> {
    let mut all = BTreeMap::new();
    for (key, value) in recorded {
        let (network, bridge) = of(value);
        let is_declared = matches!(key, Key::Network(_));
        if is_declared || !recorded.contains_key(&Key::Network(network.clone())) {
            all.entry(bridge.clone()).or_insert_with(|| value.clone());
        }
    }
    all
}
