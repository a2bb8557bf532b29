//! What a bridge lets in by a port, and out of one: VLANs, hardware addresses that it has to know, broadcast.

use std::net::IpAddr;

use model::Mac;
use netlink::Link;

use super::{Hop, Site, Walked, Walker};
use crate::rules::Author;

/// The VLANs of a port as (number, whether untagged).
type Vlans = [(u16, bool)];

/// What becomes of a frame without a tag that comes in by one port and is for another one.
#[derive(Debug, PartialEq, Eq)]
enum Passage {
    /// It passes.
    Free,
    /// The port by which it comes is in no VLAN.
    NoneFrom,
    /// The other port is in none.
    NoneTo,
    /// They are in different ones.
    Apart(u16, u16),
    /// That depends on tags.
    Tagged,
}

impl Walker<'_> {
    /// That what comes in by one port may go out of another one, where the bridge separates VLANs. The bridge itself is
    /// this host's port.
    pub(super) fn is_in_vlan(&mut self, bridge: &Link, (from, to): (&Link, &Link)) -> Walked<()> {
        let settings = self.ask(|kernel| kernel.bridge(bridge.index))?.unwrap_or_default();
        if !settings.filters_vlans {
            return Ok(());
        }
        let sent = self.ask(|kernel| kernel.vlans(from.index))?;
        let taken = self.ask(|kernel| kernel.vlans(to.index))?;
        let in_none =
            |link: &Link| format!("{} is in no VLAN of bridge {}", link.name, bridge.name);
        let (link, what, right) = match passage(&sent, &taken) {
            Passage::Free => return Ok(()),
            Passage::NoneFrom => (from, in_none(from), untagged(&taken)),
            Passage::NoneTo => (to, in_none(to), untagged(&sent)),
            Passage::Apart(one, other) => {
                let what = format!("{} is in VLAN {one}, and {} in {other}", from.name, to.name);
                // Others are in the VLAN of the bridge.
                let is_hosts = from.index == bridge.index;
                let (link, right) = if is_hosts { (to, one) } else { (from, other) };
                (link, what, Some(right))
            }
            Passage::Tagged => {
                let what = format!("{} and {} are in VLANs with tags", from.name, to.name);
                return Err(self.unknown("vlan", what));
            }
        };
        let own = if link.index == bridge.index { " self" } else { "" };
        let name = &link.name;
        let fix =
            right.map(|right| format!("bridge vlan add vid {right} dev {name}{own} pvid untagged"));
        Err(self.fail(Hop::new("vlan", what).by(Author::Operator).fixed_if(fix)))
    }

    /// That a locked port takes what a container sends: the bridge has to know its hardware address there (IEEE 802.1X).
    pub(super) fn is_let_in(&mut self, end: &Link, bridge: &Link, mac: Option<Mac>) -> Walked<()> {
        let (Some(mac), true) = (mac, end.port.is_some_and(|port| port.locked)) else {
            return Ok(());
        };
        let known = self.ask(|kernel| kernel.forwarded(bridge.index, mac))?;
        if known.is_some_and(|entry| entry.port == end.index) {
            return Ok(());
        }
        let (name, bridge) = (&end.name, &bridge.name);
        let what = format!(
            "{name} is a locked port of bridge {bridge}, which takes nothing from {mac} there"
        );
        let fix = format!("bridge fdb replace {mac} dev {name} master static");
        Err(self.fail(Hop::new("bridge", what).by(Author::Operator).fixed(fix)))
    }

    /// That the bridge sends questions of ARP out of a port.
    pub(super) fn is_asked(
        &mut self,
        (bridge, port): (&Link, &Link),
        site: &Site,
        address: IpAddr,
    ) -> Walked<()> {
        if port.port.is_none_or(|port| port.floods_broadcast) {
            return Ok(());
        }
        let (name, bridge) = (&port.name, &bridge.name);
        let what = format!(
            "bridge {bridge} sends no broadcast out of {name}: {} is not asked who has {address}",
            site.name
        );
        let fix = format!("bridge link set dev {name} bcast_flood on");
        Err(self.fail(Hop::new("neighbour", what).by(Author::Operator).fixed(fix)))
    }
}

fn passage(sent: &Vlans, taken: &Vlans) -> Passage {
    match (untagged(sent), untagged(taken)) {
        _ if sent.is_empty() => Passage::NoneFrom,
        _ if taken.is_empty() => Passage::NoneTo,
        (Some(one), Some(other)) if one == other => Passage::Free,
        (Some(one), Some(other)) if !taken.iter().any(|(vlan, _)| *vlan == one) => {
            Passage::Apart(one, other)
        }
        _ => Passage::Tagged,
    }
}

/// The VLAN of what has no tag.
fn untagged(vlans: &Vlans) -> Option<u16> {
    vlans.iter().find(|(_, untagged)| *untagged).map(|(vlan, _)| *vlan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_tag_passes_within_one_vlan() {
        let (one, seven, tagged) = ([(1, true)], [(7, true)], [(7, false), (9, true)]);
        for (sent, taken, passage_of) in [
            (&one[..], &one[..], Passage::Free),
            (&seven, &one, Passage::Apart(7, 1)),
            (&[], &one, Passage::NoneFrom),
            (&one, &[], Passage::NoneTo),
            (&seven, &tagged, Passage::Tagged),
            (&tagged, &one, Passage::Apart(9, 1)),
        ] {
            assert_eq!(passage(sent, taken), passage_of, "{sent:?} {taken:?}");
        }
    }
}
