//! Networks that were renamed while containers were on them.

use std::collections::BTreeSet;

use model::{
    Attachment, Bandwidth, Firewall, InterfaceAddress, Ipam, Layer, LinkKind, NetworkName, Range,
    Result, SourceRouting, Tuning, Wiring, bridge_name,
};

use crate::links::detach::Meaning;
use crate::port::Prefix;
use crate::records::book::Read;
use crate::{Links, Request};

impl Links<'_> {
    /// The attachment that `request` means, where its network was called otherwise when it was made.
    ///
    /// A container has one interface of a name, but one that another network made is not for this
    /// one to remove: a runtime also asks for the end of what it could not begin. Hence it counts
    /// only where both describe the same link with the same addresses, or ask the same of a chained plugin
    /// in the same sandbox, and no command declared the other network.
    pub(crate) fn renamed(&self, request: &Request) -> Result<Option<Read<Box<Attachment>>>> {
        if request.layer == Layer::Address {
            return Ok(None);
        }
        let container = request.container.clone();
        let records =
            self.records.attachments_in(&Prefix::AttachmentsOfContainer(container))?.into_iter();
        let mut alike = records.filter(|read| {
            let (record, id) = (&read.value, &read.value.id);
            record.layer == request.layer
                && id.ifname == request.ifname
                && id.network != request.network.name
                && record.alias.is_none()
                && record.origin.is_none()
                && is_alike(record, request)
        });
        match alike.next() {
            // Of a network whose link is there, it is that network's; its own end takes all layers away.
            Some(read)
                if request.layer != Layer::Link
                    && self.records.record_of(&read.value.id, Layer::Link)?.is_some() =>
            {
                Ok(None)
            }
            Some(read) if self.records.declared(&read.value.id.network)?.is_none() => {
                Ok(Some(read))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Detaches what was attached under the network's earlier name: with a link every layer of it.
    pub(super) fn detach_renamed(&self, old: Read<Box<Attachment>>) -> Result<()> {
        match old.value.layer {
            Layer::Link => self.detach_layers(&old.value.id),
            _ => self.detach_record(old, Meaning::Classified).map(|_| ()),
        }
    }
}

fn is_alike(record: &Attachment, request: &Request) -> bool {
    if request.layer != Layer::Link {
        return is_same_work(record, request);
    }
    let kinds = (record.wiring.link.as_ref(), request.wiring.link.as_ref());
    let (Some(made), Some(meant)) = kinds else { return false };
    let (was, is) = (&record.id.network, &request.network.name);
    let is_same_device = matches!(made.kind, LinkKind::Device(_)) && made.kind == meant.kind;
    let has_none = record.ipam == Ipam::None && request.ipam == Ipam::None;
    // A device is in one container at a time.
    is_same_link(&made.kind, was, &meant.kind, is)
        && (is_same_source(&record.ipam, &request.ipam) || (is_same_device && has_none))
}

/// A request without a sandbox is the end of one: it ends every list's work. In a sandbox that goes on,
/// two lists may ask the same of a plugin that gets no request, and the end of one that could not begin is
/// not the other's: then the addresses of the result before it say whose end it is.
fn is_same_work(record: &Attachment, request: &Request) -> bool {
    let (was, is) = (asked(&record.wiring), asked(&request.wiring));
    if was == Wiring::default() || was != is {
        return false;
    }
    let at = |held: &[InterfaceAddress]| held.iter().map(|it| it.address).collect::<BTreeSet<_>>();
    let (held, previous) = (at(&record.addresses), at(&request.addresses));
    match &request.sandbox {
        None => true,
        Some(_) if record.sandbox != request.sandbox => false,
        Some(_) if held.is_empty() || previous.is_empty() => is_telling(&was),
        // The result is the whole list's, to which plugins behind this one may have added.
        Some(_) => previous.is_superset(&held),
    }
}

/// Whether a chained plugin was asked for more than it does for every container.
fn is_telling(asked: &Wiring) -> bool {
    let is_usual =
        |tuning: &Tuning| *tuning == Tuning { backup: tuning.backup.clone(), ..Tuning::default() };
    asked.publish.as_ref().is_some_and(|publish| !publish.ports.is_empty())
        || asked
            .firewall
            .as_ref()
            .is_some_and(|firewall| *firewall != Firewall::open(firewall.backend))
        || asked.tuning.as_ref().is_some_and(|tuning| !is_usual(tuning))
        || asked.bandwidth.as_ref().is_some_and(Bandwidth::is_any)
        || asked.vrf.is_some()
        || asked.source_routing.as_ref().is_some_and(|routing| *routing != SourceRouting::default())
}

/// What the configuration asks of a chained plugin, without what the result before it tells, which a runtime
/// keeps under the network's name, and without what commands added.
fn asked(wiring: &Wiring) -> Wiring {
    let mut asked = wiring.clone();
    if let Some(publish) = &mut asked.publish {
        publish.behind = None;
        publish.leaving.clear();
        let added = std::mem::take(&mut publish.added);
        publish.ports.retain(|port| !added.contains(port));
    }
    if let Some(firewall) = &mut asked.firewall {
        firewall.bridge = None;
    }
    if let Some(bandwidth) = &mut asked.bandwidth {
        bandwidth.device = None;
    }
    asked
}

/// A bridge without a configured name is called after its network.
fn is_same_link(made: &LinkKind, was: &NetworkName, meant: &LinkKind, is: &NetworkName) -> bool {
    match (made.bridge(), meant.bridge()) {
        (Some(old), Some(new)) => {
            let is_usual = |bridge: &model::IfName, network| {
                bridge_name(network).is_ok_and(|usual| usual == *bridge)
            };
            old.name == new.name || (is_usual(&old.name, was) && is_usual(&new.name, is))
        }
        (_, _) => made == meant,
    }
}

/// Without addresses two networks on one bridge cannot be distinguished.
fn is_same_source(made: &Ipam, meant: &Ipam) -> bool {
    match (made, meant) {
        (Ipam::None, _) => false,
        (Ipam::Book { .. } | Ipam::HostLocal { .. }, _) => ranges(made) == ranges(meant),
        (Ipam::Fixed { leases: made }, Ipam::Fixed { leases: meant }) => {
            made.iter().map(|it| it.address).eq(meant.iter().map(|it| it.address))
        }
        (Ipam::Foreign(made), Ipam::Foreign(meant)) => made.plugin == meant.plugin,
        (Ipam::Dhcp(made), Ipam::Dhcp(meant)) => made == meant,
        (_, _) => false,
    }
}

fn ranges(ipam: &Ipam) -> Vec<&Vec<Range>> {
    ipam.pools().iter().map(|pool| &pool.ranges).collect()
}
