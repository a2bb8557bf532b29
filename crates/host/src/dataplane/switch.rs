//! Attachments on segments of Open vSwitch: the kernel's pair, and its place on the switch.

mod cache;
mod stray;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use engine::port::Driver;
use linux::Linux;
use linux::identity::Identity;
use model::{
    Attached, Attachment, AttachmentId, Error, IfName, Layer, Link, LinkKind, Network, NetworkName,
    Ovs, Plug, Result, Tunnel,
};
use netlink::{At, Socket};
use neutron::ovsdb::{Datapath, Ovsdb, SegmentPort};

use super::link_driver::LinkDriver;
pub(super) use cache::SwitchCache;
pub(super) use stray::{is_of, remove_stray, strays};

/// How long a database may take for an answer where the host's packet filter or what has no owner waits for it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the record is that of a link on a switch.
pub fn is_port(attachment: &Attachment) -> bool {
    attachment.layer == Layer::Link && of(attachment.wiring.link.as_ref()).is_some()
}

/// The segment of such a link.
pub fn of(link: Option<&Link>) -> Option<&Ovs> {
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

/// The same, as what forwards the bridge's packets takes frames: front ends that only read options do not know
/// it, and its operator may change it.
fn as_switched(
    attachment: &Attachment,
    is_by_kernel: impl FnOnce(&Ovs) -> Result<bool>,
) -> Result<Attachment> {
    let mut made = on_host(attachment)?;
    if let Some(Link { kind: LinkKind::Plug(plug), .. }) = &mut made.wiring.link
        && plug.offload
    {
        plug.offload = is_by_kernel(segment(attachment)?)?;
    }
    Ok(made)
}

/// Whether the kernel forwards the bridge's packets, rather than a program.
fn is_by_kernel(database: &mut Ovsdb, ovs: &Ovs) -> Result<bool> {
    let bridge = database.bridge(&ovs.bridge)?;
    Ok(bridge.is_some_and(|bridge| bridge.datapath == Datapath::Kernel))
}

/// Open vSwitch, by the database that each network names.
pub(super) struct Switch {
    known: Arc<SwitchCache>,
}

impl Switch {
    pub(super) fn new(known: Arc<SwitchCache>) -> Self {
        Self { known }
    }

    /// The kernel's part as [`as_switched`] says, by what was known lately. Which end limits is not known where
    /// the switch does not answer: without its limits, so that none is set where it limits nothing.
    fn as_known(&self, attachment: &Attachment) -> Result<Attachment> {
        if attachment.wiring.bandwidth.is_none() {
            return on_host(attachment);
        }
        let mut is_known = true;
        let mut made = as_switched(attachment, |ovs| {
            let datapath = self.known.datapath(&ovs.database, &ovs.bridge);
            is_known = datapath.is_some();
            Ok(datapath == Some(Datapath::Kernel))
        })?;
        if !is_known {
            made.wiring.bandwidth = None;
        }
        Ok(made)
    }

    /// Puts the attachment's port back, and the tunnels; whether any was missing. CHECK and `doctor` report what
    /// the switch refuses, and a database that does not answer.
    fn put_back(&self, attachment: &Attachment) -> Result<bool> {
        let ovs = segment(attachment)?;
        let Some(listed) = self.known.listed(&ovs.database) else { return Ok(false) };
        let mut is_whole = true;
        each_port(attachment, |port| {
            is_whole &= listed.get(port.end).is_some_and(|owner| owner == port.owner);
            Ok(())
        })?;
        // Of a container that has ended only the record is left.
        if is_whole || !has_device(&Identity::of(&attachment.id).host_link()?)? {
            return Ok(false);
        }
        let placed = Ovsdb::connect_within(&ovs.database, TIMEOUT)
            .and_then(|mut database| place(&mut database, attachment));
        Ok(placed.unwrap_or(false))
    }
}

impl LinkDriver for Switch {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        on_host(attachment).map(Cow::Owned)
    }

    /// The tunnels, which all attachments share, the pair, and then the switch.
    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        let ovs = segment(attachment)?;
        let mut database = Ovsdb::connect(&ovs.database)?;
        each_tunnel(&attachment.id.network, ovs, |port| database.add(port))?;
        let made = as_switched(attachment, |ovs| is_by_kernel(&mut database, ovs))?;
        let attached = linux.attach(&made)?;
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
        let ovs = segment(attachment)?;
        let mut database = Ovsdb::connect(&ovs.database)?;
        let made = as_switched(attachment, |ovs| is_by_kernel(&mut database, ovs))?;
        linux.check(&made, attached)?;
        match has_ports(&mut database, attachment)? {
            true => Ok(()),
            false => Err(Error::not_found(format!(
                "{} or a tunnel of network {} is not on bridge {} any more",
                Identity::of(&attachment.id).host_link()?,
                attachment.id.network,
                ovs.bridge
            ))),
        }
    }

    /// At the end that what forwards the packets lets limit.
    fn limit(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        let made =
            as_switched(attachment, |ovs| is_by_kernel(&mut Ovsdb::connect(&ovs.database)?, ovs))?;
        linux.limit(&made)
    }

    /// The packet filter first: that waits for no switch, unless the attachment has limits. A port that is put
    /// back of an attachment that ends meanwhile is a stray ([`strays`]).
    fn restore(&self, linux: &Linux, attachment: &Attachment) -> Result<bool> {
        let was_missing = linux.restore(&self.as_known(attachment)?)?;
        Ok(self.put_back(attachment)? || was_missing)
    }

    /// Whether the switch answers, and has the bridge.
    fn status(&self, _linux: &Linux, network: &Network) -> Result<()> {
        let Some(ovs) = of(network.wiring.link.as_ref()) else { return Ok(()) };
        bridge(ovs).map(|_| ())
    }

    /// The tunnels end with their network, and what an earlier boot left of its containers' ports: no other
    /// network need name this database.
    fn remove(&self, _linux: &Linux, network: &Network) -> Result<()> {
        let Some(ovs) = of(network.wiring.link.as_ref()) else { return Ok(()) };
        // They do no harm, and the switch may be gone.
        let _ = stray::remove_of(&network.name, &ovs.database);
        if ovs.tunnel.is_none() {
            return Ok(());
        }
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
pub fn bridge(ovs: &Ovs) -> Result<neutron::ovsdb::Bridge> {
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

/// Whether the bridge has the attachment's port, and the tunnels, as they were made.
fn has_ports(database: &mut Ovsdb, attachment: &Attachment) -> Result<bool> {
    let mut holds = true;
    each_port(attachment, |port| {
        holds = holds && database.has(port)?;
        Ok(())
    })?;
    Ok(holds)
}

/// Those of a segment's attachments whose port, or a tunnel, is not on the bridge as it was made.
pub fn displaced<'a>(
    ovs: &Ovs,
    attachments: impl Iterator<Item = &'a Attachment>,
) -> Result<Vec<&'a Attachment>> {
    let mut database = Ovsdb::connect(&ovs.database)?;
    let mut displaced = Vec::new();
    for attachment in attachments {
        if !has_ports(&mut database, attachment)? {
            displaced.push(attachment);
        }
    }
    Ok(displaced)
}

/// Makes what is missing of the attachment's port and the tunnels; whether anything was.
fn place(database: &mut Ovsdb, attachment: &Attachment) -> Result<bool> {
    let mut was_missing = false;
    each_port(attachment, |port| {
        if !database.has(port)? {
            database.add(port)?;
            was_missing = true;
        }
        Ok(())
    })?;
    Ok(was_missing)
}

/// The tunnels of an attachment's network, and then its own port.
fn each_port(
    attachment: &Attachment,
    mut work: impl FnMut(&SegmentPort<'_>) -> Result<()>,
) -> Result<()> {
    let ovs = segment(attachment)?;
    each_tunnel(&attachment.id.network, ovs, &mut work)?;
    let end = Identity::of(&attachment.id).host_link()?;
    let owner = owner(&attachment.id);
    work(&port(ovs, &end, &owner))
}

fn has_device(end: &IfName) -> Result<bool> {
    Ok(Socket::route()?.link(At::Name(end))?.is_some())
}

fn port<'a>(ovs: &'a Ovs, end: &'a IfName, owner: &'a str) -> SegmentPort<'a> {
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
