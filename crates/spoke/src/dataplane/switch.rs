//! Attachments on segments of Open vSwitch: the kernel's pair, and its place on the switch.

use std::borrow::Cow;

use engine::port::Driver;
use linux::Linux;
use linux::identity::Identity;
use model::{
    Attached, Attachment, AttachmentId, Error, Layer, Link, LinkKind, Network, NetworkName, Ovs,
    Plug, Result, Tunnel,
};
use neutron::ovsdb::{Ovsdb, SegmentPort};

use super::link_driver::LinkDriver;

/// Whether the record is that of a link on a switch.
pub(super) fn is_port(attachment: &Attachment) -> bool {
    attachment.layer == Layer::Link && of(attachment.wiring.link.as_ref()).is_some()
}

/// The segment of such a link.
pub(super) fn of(link: Option<&Link>) -> Option<&Ovs> {
    match link.map(|link| &link.kind) {
        Some(LinkKind::Ovs(ovs)) => Some(ovs.as_ref()),
        Some(_) | None => None,
    }
}

/// The kernel's part of the attachment: a pair whose end in the host is the switch's.
fn on_host(attachment: &Attachment) -> Result<Attachment> {
    let mut made = attachment.clone();
    let ovs = segment(attachment)?;
    let end = Identity::of(&attachment.id).host_link()?;
    let plug = Plug { end, offload: ovs.offload };
    if let Some(link) = &mut made.wiring.link {
        link.kind = LinkKind::Plug(plug);
    }
    Ok(made)
}

/// Open vSwitch, by the database that each network names.
pub(super) struct Switch;

impl LinkDriver for Switch {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        on_host(attachment).map(Cow::Owned)
    }

    /// The tunnels, which all attachments share, the pair, and then the switch.
    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        let ovs = segment(attachment)?;
        let mut database = Ovsdb::connect(&ovs.database)?;
        each_tunnel(&attachment.id.network, ovs, |port| database.add(port))?;
        let attached = linux.attach(&on_host(attachment)?)?;
        let end = Identity::of(&attachment.id).host_link()?;
        let owner = owner(&attachment.id);
        database.add(&port(ovs, &end, &owner))?;
        Ok(attached)
    }

    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        unplug(attachment, |made| linux.withdraw(made))
    }

    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        unplug(attachment, |made| linux.detach(made))
    }

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()> {
        linux.check(&on_host(attachment)?, attached)?;
        let ovs = segment(attachment)?;
        let mut database = Ovsdb::connect(&ovs.database)?;
        let end = Identity::of(&attachment.id).host_link()?;
        let owner = owner(&attachment.id);
        let mut holds = database.has(&port(ovs, &end, &owner))?;
        each_tunnel(&attachment.id.network, ovs, |tunnel| {
            holds = holds && database.has(tunnel)?;
            Ok(())
        })?;
        match holds {
            true => Ok(()),
            false => Err(Error::not_found(format!(
                "{end} or a tunnel of network {} is not on bridge {} any more",
                attachment.id.network, ovs.bridge
            ))),
        }
    }

    /// Whether the switch answers, and has the bridge.
    fn status(&self, _linux: &Linux, network: &Network) -> Result<()> {
        let Some(ovs) = of(network.wiring.link.as_ref()) else { return Ok(()) };
        bridge(ovs).map(|_| ())
    }

    /// The tunnels end with their network.
    fn remove(&self, _linux: &Linux, network: &Network) -> Result<()> {
        let with_tunnel = of(network.wiring.link.as_ref()).filter(|ovs| ovs.tunnel.is_some());
        let Some(ovs) = with_tunnel else { return Ok(()) };
        let mut database = Ovsdb::connect(&ovs.database)?;
        each_tunnel(&network.name, ovs, |port| database.remove(port.end, port.owner).map(drop))
    }
}

/// The switch first, then the pair. Both are tried, whatever the first result.
fn unplug(attachment: &Attachment, undo: impl FnOnce(&Attachment) -> Result<()>) -> Result<()> {
    let ovs = segment(attachment)?;
    let end = Identity::of(&attachment.id).host_link()?;
    let owner = owner(&attachment.id);
    let remaining = Ovsdb::connect(&ovs.database).and_then(|mut it| it.remove(&end, &owner));
    let undone = undo(&on_host(attachment)?);
    undone.and(remaining.map(drop))
}

/// The bridge, as the switch's database describes it.
pub(crate) fn bridge(ovs: &Ovs) -> Result<neutron::ovsdb::Bridge> {
    Ovsdb::connect(&ovs.database)?.bridge(&ovs.bridge)?.ok_or_else(|| {
        Error::not_found(format!(
            "Open vSwitch has no bridge {}: make it with `ovs-vsctl add-br {}`",
            ovs.bridge, ovs.bridge
        ))
    })
}

fn segment(attachment: &Attachment) -> Result<&Ovs> {
    of(attachment.wiring.link.as_ref())
        .ok_or_else(|| Error::bug(format!("{} is on no switch", attachment.id)))
}

fn port<'a>(ovs: &'a Ovs, end: &'a model::IfName, owner: &'a str) -> SegmentPort<'a> {
    SegmentPort { bridge: &ovs.bridge, end, vlan: ovs.vlan, owner, tunnel: None }
}

fn owner(id: &AttachmentId) -> String {
    format!("{}/{}/{}", id.network, id.container, id.ifname)
}

/// Each of the network's tunnels, as a port.
fn each_tunnel(
    network: &NetworkName,
    ovs: &Ovs,
    mut work: impl FnMut(&SegmentPort<'_>) -> Result<()>,
) -> Result<()> {
    let owner = format!("network {network}");
    let Some(Tunnel { vni, remotes }) = &ovs.tunnel else { return Ok(()) };
    remotes.iter().try_for_each(|remote| {
        let end = Tunnel::device(network, remote)?;
        work(&SegmentPort { tunnel: Some((*vni, *remote)), ..port(ovs, &end, &owner) })
    })
}
