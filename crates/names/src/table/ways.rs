//! The way out of what a sandbox asks. The networks need not have names: what a sandbox asks at another network
//! leaves by its way all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use model::{Attachment, AttachmentId, IfName, Network, NetworkName, Stage, Wiring};

use super::index::drop_member;

/// By what one attachment leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Led {
    sandbox: PathBuf,
    inode: u64,
    /// As its own record says: a command may have changed its network's since.
    way: Leaving,
}

/// How packets leave that come in by a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leaving {
    bridge: IfName,
    /// The mark that leads to the way of its own, where there is one.
    mark: Option<u32>,
}

/// All of them, by sandbox.
#[derive(Debug, Default)]
pub(super) struct Ways {
    all: BTreeMap<AttachmentId, Led>,
    by_sandbox: HashMap<PathBuf, BTreeSet<AttachmentId>>,
    /// As a command declared each network, and as a runtime's configuration describes it.
    networks: HashMap<NetworkName, [Option<Leaving>; 2]>,
}

impl Ways {
    /// A network is as it says now, or gone. Whether anything has changed.
    pub(super) fn put_network(
        &mut self,
        name: &NetworkName,
        declared: bool,
        now: Option<&Network>,
    ) -> bool {
        // A template has no bridge.
        let now = now.filter(|now| now.stage != Stage::Template);
        let now = now.and_then(|now| Leaving::of(&now.wiring));
        let both = self.networks.entry(name.clone()).or_default();
        let before = std::mem::replace(&mut both[usize::from(!declared)], now.clone());
        if both.iter().all(Option::is_none) {
            self.networks.remove(name);
        }
        before != now
    }

    /// An attachment is as it says now, or gone. It counts from when its sandbox is recorded, which is before it
    /// has a link. Whether the way of anything has changed.
    pub(super) fn put(&mut self, id: &AttachmentId, now: Option<&Attachment>) -> bool {
        let led = now.and_then(Led::of);
        if self.all.get(id) == led.as_ref() {
            return false;
        }
        let mut has_way = false;
        if let Some(before) = self.all.remove(id) {
            has_way |= self.mark_of(&id.network, &before).is_some();
            drop_member(&mut self.by_sandbox, &before.sandbox, id);
        }
        if let Some(led) = led {
            has_way |= self.mark_of(&id.network, &led).is_some();
            self.by_sandbox.entry(led.sandbox.clone()).or_default().insert(id.clone());
            self.all.insert(id.clone(), led);
        }
        has_way
    }

    /// The mark that leads to the way of a sandbox: of several the first by the network's name.
    pub(super) fn of(&self, sandbox: &Path, inode: u64) -> Option<u32> {
        let ids = self.by_sandbox.get(sandbox)?;
        let all = ids.iter().filter_map(|id| Some((id, self.all.get(id)?)));
        let mut own = all.filter(|(_, led)| super::is_same(led.inode, inode));
        own.find_map(|(id, led)| self.mark_of(&id.network, led))
    }

    /// What the network's record says of its bridge holds for all that are on it.
    fn mark_of(&self, network: &NetworkName, led: &Led) -> Option<u32> {
        let recorded = self.networks.get(network).and_then(|both| both.iter().flatten().next());
        let way = recorded.filter(|it| it.bridge == led.way.bridge).unwrap_or(&led.way);
        way.mark
    }
}

impl Led {
    fn of(attachment: &Attachment) -> Option<Self> {
        let sandbox = attachment.sandbox.as_ref()?;
        let way = Leaving::of(&attachment.wiring)?;
        Some(Self { sandbox: sandbox.path.clone(), inode: sandbox.inode, way })
    }
}

impl Leaving {
    fn of(wiring: &Wiring) -> Option<Self> {
        let bridge = wiring.link.as_ref()?.kind.bridge()?.name.clone();
        Some(Self { bridge, mark: super::served::way_of(wiring) })
    }
}

#[cfg(test)]
mod tests {
    use model::{Attached, Layer, Phase, Runtime, Sandbox, Timestamp};

    use super::*;
    use crate::fixture;

    fn wiring(via: Option<&str>) -> Wiring {
        let via = via.map(|via| via.parse().unwrap());
        Wiring { link: Some(fixture::bridge()), via, ..Wiring::default() }
    }

    fn network(via: Option<&str>) -> Network {
        let name: NetworkName = "vpn".parse().unwrap();
        let ipam = fixture::pools(&name, &["10.80.0.9/24".parse().unwrap()]);
        Network::new(name, Runtime::Spoke, Timestamp(0), wiring(via), ipam)
    }

    fn attachment(via: Option<&str>) -> Attachment {
        let id = AttachmentId {
            network: "vpn".parse().unwrap(),
            container: "web".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let phase = Phase::Attached(Attached::default());
        let mut record = Attachment::new(id, Layer::Link, Runtime::Spoke, Timestamp(0), phase);
        record.wiring = wiring(via);
        record.sandbox = Some(Sandbox { path: "/run/netns/web".into(), inode: 7 });
        record
    }

    /// The record of an attachment has the way of before until it has followed.
    #[test]
    fn what_a_network_s_record_says_holds_for_its_attachments() {
        let mark = Some(model::way_table(&"br0".parse().unwrap()));
        let name = "vpn".parse().unwrap();
        for made in [None, Some("wg0")] {
            let mut ways = Ways::default();
            let record = attachment(made);
            assert_eq!(ways.put(&record.id, Some(&record)), made.is_some());
            let of = |ways: &Ways| ways.of(Path::new("/run/netns/web"), 7);
            for (via, expected) in [(Some("wg1"), mark), (None, None), (Some("wg0"), mark)] {
                assert!(ways.put_network(&name, true, Some(&network(via))));
                assert!(!ways.put_network(&name, true, Some(&network(via))));
                assert_eq!(of(&ways), expected);
            }
            // A configuration is asked only where no command declared the network.
            assert!(ways.put_network(&name, false, Some(&network(None))));
            assert_eq!(of(&ways), mark);
            ways.put_network(&name, true, None);
            assert_eq!(of(&ways), None);
            ways.put_network(&name, false, None);
            assert_eq!(of(&ways), made.and(mark));
            assert!(ways.networks.is_empty());
        }
    }
}
