//! Behind which bridges there are containers whose records cannot be read: which rules these have is unknown.

use std::collections::{BTreeMap, BTreeSet};

use engine::port::{Prefix, Record, Store};
use model::{IfName, NetworkName, Result};

/// What cannot be read, by the bridges that it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
    bridges: BTreeMap<IfName, String>,
    /// Of a network whose bridge no record says: it may be any.
    anywhere: Option<String>,
}

impl Unread {
    /// What a store says of attachments. A damaged record is below its network's name, and concerns the bridge that
    /// others say of that.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn of(store: &impl Store) -> Result<Self> {
        let mut left = store.damaged(Some(&Prefix::Attachments))?;
        if left.is_empty() {
            return Ok(Self::default());
        }
        let mut unread = Self::default();
        for (network, bridges) in bridges(store)? {
            for damaged in store.damaged(Some(&Prefix::AttachmentsOf(network)))? {
                left.retain(|it| it.path != damaged.path);
                let all = bridges.iter().map(|bridge| (bridge.clone(), damaged.why.clone()));
                unread.bridges.extend(all);
            }
        }
        unread.anywhere = left.into_iter().next().map(|damaged| damaged.why);
        Ok(unread)
    }

    /// A record says what cannot be.
    pub(super) fn add(&mut self, bridge: &IfName, why: String) {
        self.bridges.entry(bridge.clone()).or_insert(why);
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.bridges.is_empty() && self.anywhere.is_none()
    }

    /// Whether one may be behind any bridge.
    pub(super) fn is_anywhere(&self) -> bool {
        self.anywhere.is_some()
    }

    /// Whether one may be behind a bridge.
    pub(super) fn has(&self, bridge: &IfName) -> bool {
        self.why(bridge).is_some()
    }

    /// Which record that is, and what to do.
    pub(super) fn why(&self, bridge: &IfName) -> Option<&str> {
        self.bridges.get(bridge).or(self.anywhere.as_ref()).map(String::as_str)
    }
}

/// The bridges of each network, as networks and attachments say that can be read.
fn bridges(store: &impl Store) -> Result<BTreeMap<NetworkName, BTreeSet<IfName>>> {
    let mut all: BTreeMap<NetworkName, BTreeSet<IfName>> = BTreeMap::new();
    for prefix in [Prefix::Networks, Prefix::Configured, Prefix::Attachments] {
        for (_, held) in store.list(&prefix)? {
            let (network, wiring) = match &held.record {
                Record::Network(network) => (&network.name, &network.wiring),
                Record::Attachment(attachment) => (&attachment.id.network, &attachment.wiring),
                _ => continue,
            };
            if let Some(bridge) = wiring.bridge() {
                all.entry(network.clone()).or_default().insert(bridge.name.clone());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::port::{Key, Txn};
    use model::{Attachment, Gateway, Layer, Link, Phase, Process, Runtime, Timestamp};
    use store::{Embedded, Roots};

    use super::*;

    /// An attachment of a container to a network with this bridge.
    fn attachment(network: &str, container: &str, bridge: &str) -> (Key, Option<Record>) {
        let kind = doubles::bridge(bridge, Gateway::Address);
        let mut attachment = Attachment::new(
            doubles::attachment_id(network, container),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        );
        attachment.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        let key = Key::Attachment(attachment.id.clone(), Layer::Link);
        (key, Some(Record::Attachment(Box::new(attachment))))
    }

    #[test]
    fn a_damaged_record_concerns_the_bridge_of_its_network() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let roots = Roots { runtime: at("run"), state: at("state") };
        let store = Embedded::open(roots, &store::boot_id().unwrap()).unwrap();
        let all = [("front", "one", "br0"), ("front", "two", "br0"), ("back", "one", "br1")];
        let changes =
            all.map(|(network, container, bridge)| attachment(network, container, bridge));
        store.commit(&Txn { changes: changes.into(), ..Txn::default() }).unwrap();
        let has = |bridge: &str| Unread::of(&store).unwrap().has(&bridge.parse().unwrap());
        assert!(Unread::of(&store).unwrap().is_empty());

        let damage = |network: &str| {
            let boots = fs::read_dir(at("run")).unwrap().flatten();
            let of = boots.map(|boot| boot.path().join("attachments").join(network));
            let directory = of.into_iter().find(|it| it.is_dir()).unwrap();
            let file = fs::read_dir(directory).unwrap().flatten().next().unwrap().path();
            fs::write(&file, "").unwrap();
            file
        };
        let path = damage("front");
        assert!(has("br0") && !has("br1"));
        let unread = Unread::of(&store).unwrap();
        let why = unread.why(&"br0".parse().unwrap()).unwrap();
        assert!(why.contains(&path.display().to_string()), "{why}");
        // Of the other network no record says any more which bridge it has.
        damage("back");
        assert!(has("br0") && has("br1") && has("br2"));
    }
}
