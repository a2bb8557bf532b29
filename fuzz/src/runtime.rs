//! What a CNI runtime reads: network configuration lists, and what others left in its cache.

use cni::runtime::{CachedAttachment, NetworkList};

/// A list that is read is one when it is written as a whole, with the same plugins in the same
/// version; a single plugin makes a list of one.
pub fn list(bytes: &[u8]) {
    if let Ok(list) = NetworkList::parse(bytes)
        && !list.plugins.is_empty()
    {
        let whole = NetworkList::parse(list.whole().as_bytes()).expect("what was read is whole");
        assert_eq!((&whole.name, whole.version), (&list.name, list.version));
        assert_eq!(whole.plugins, list.plugins);
        assert!(list.plugins.iter().all(|plugin| !plugin.kind.is_empty()));
    }
    if let Ok(list) = NetworkList::parse_single(bytes) {
        assert_eq!(list.plugins.len(), 1);
    }
}

/// What names a file cannot lead out of the cache's directory.
pub fn cached(bytes: &[u8]) {
    let Some(known) = CachedAttachment::parse(bytes) else { return };
    let target = &known.target;
    let file = format!("{}-{}-{}", known.network, target.container, target.ifname);
    assert!(!file.contains('/') && !file.contains('\0'), "{file}");
    let _ = NetworkList::parse(&known.config);
}
