//! The kernel's counters at containers' links, and the places of those links.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{
    Attachment, AttachmentId, Error, Handoff, IfName, Interface, InterfaceNamespace, Kind, Layer,
    LinkKind, Phase, Result, Sandbox,
};
use netlink::{At, Counters, Link, Links, Netns, Socket};

use crate::identity::Identity;
use crate::{facts, plan};

/// Those of these records that have a link of their own. Where CNI plugins of others made it, and one of
/// them is Spoke's, that one stands for all.
pub fn links<'a>(records: impl IntoIterator<Item = &'a Attachment>) -> Vec<&'a Attachment> {
    let has_link = |record: &&Attachment| {
        let kind = record.wiring.link.as_ref().map(|link| &link.kind);
        record.layer == Layer::Link && !matches!(kind, Some(LinkKind::Loopback) | None)
    };
    let mut links: Vec<&Attachment> = records.into_iter().filter(has_link).collect();
    let is_chain = |record: &Attachment| {
        let kind = record.wiring.link.as_ref().map(|link| &link.kind);
        matches!(kind, Some(LinkKind::Chain(_)))
    };
    if links.iter().any(|link| is_chain(link)) {
        let ours = links.iter().filter(|link| !is_chain(link));
        let ours: BTreeSet<_> = ours.map(|link| (&link.id.container, &link.id.ifname)).collect();
        links.retain(|link| {
            !is_chain(link) || !ours.contains(&(&link.id.container, &link.id.ifname))
        });
    }
    links
}

/// The attachments among these records whose published ports the packet filter counts, each once. Docker's ports,
/// and those beside a link of others' CNI plugins, have a record of their own: that of the link stands for both,
/// since it knows what the container is called.
pub fn published<'a>(records: impl IntoIterator<Item = &'a Attachment>) -> Vec<&'a Attachment> {
    let records: Vec<&Attachment> = records.into_iter().collect();
    let with_ports = records.iter().filter(|record| record.wiring.publish.is_some());
    let mut all: BTreeMap<&AttachmentId, &Attachment> =
        with_ports.map(|record| (&record.id, *record)).collect();
    for link in records.into_iter().filter(|record| record.layer == Layer::Link) {
        all.entry(&link.id).and_modify(|known| *known = link);
    }
    all.into_values().collect()
}

/// Where the counters of some attachments are. It holds no namespace, and is made anew when attachments or
/// their links came or went.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    places: Vec<Where>,
}

/// Where one attachment's counters are.
#[derive(Clone, Debug)]
enum Where {
    /// At the host's end of its pair, with this index.
    HostEnd(u32),
    /// In its own namespace only.
    Inside(Box<Attachment>),
    /// It has no link.
    Nowhere,
}

impl Meter {
    /// Of these attachments, in this order; [`links`] says which have counters.
    ///
    /// # Errors
    /// Where the kernel does not list the host's links.
    pub fn new(attachments: &[&Attachment]) -> Result<Self> {
        let links = Socket::route()?.links(Links::default())?;
        let by_name: HashMap<&str, &Link> =
            links.iter().map(|link| (link.name.as_str(), link)).collect();
        let place = |record: &&Attachment| place(record, &by_name);
        Ok(Self { places: attachments.iter().map(place).collect() })
    }

    /// The counters of each, from the container's side: what it received, and what it sent. `None` where
    /// there is no link now, or its namespace cannot be entered. Those with an end in the host are read in
    /// one dump, however many they are.
    ///
    /// # Errors
    /// Where the kernel does not list the host's counters.
    pub fn read(&self) -> Result<Vec<Option<Counters>>> {
        let has_ends = self.places.iter().any(|place| matches!(place, Where::HostEnd(_)));
        let listed = if has_ends { Socket::route()?.counters()? } else { Vec::new() };
        let listed: HashMap<u32, Counters> = listed.into_iter().collect();
        let read = |place: &Where| match place {
            Where::HostEnd(index) => listed.get(index).map(|counters| counters.of_peer()),
            Where::Inside(record) => inside(record),
            Where::Nowhere => None,
        };
        Ok(self.places.iter().map(read).collect())
    }
}

fn place(record: &Attachment, links: &HashMap<&str, &Link>) -> Where {
    if !matches!(record.phase, Phase::Attached(_)) {
        return Where::Nowhere;
    }
    let end = plan::host_end(record).ok().and_then(|name| links.get(name.as_str()).copied());
    match end.filter(|link| facts::is_host_end(record, link)) {
        Some(link) => Where::HostEnd(link.index),
        None if record.sandbox.is_some() => Where::Inside(Box::new(record.clone())),
        None => Where::Nowhere,
    }
}

/// What is read every second of many is no failure where one has just ended.
fn inside(record: &Attachment) -> Option<Counters> {
    let (netns, link) = interface(record).ok()?;
    netns.enter(|| Socket::route()?.counters_of(link.index)).ok()?.ok()?
}

/// The container's namespace, and its interface there.
///
/// # Errors
/// [`model::Kind::NotFound`] where either is gone, or another namespace is at its path;
/// [`model::Kind::Denied`] without the right to enter it.
pub fn interface(record: &Attachment) -> Result<(Netns, Link)> {
    let id = &record.id;
    let gone = || Error::not_found(format!("{id} is not connected"));
    if record.tap().is_some() {
        let device = crate::guest::device_name(record)?;
        let link = Socket::route()?.link(At::Name(&device))?.ok_or_else(gone)?;
        return Ok((Netns::current()?, link));
    }
    let netns = namespace(record.sandbox.as_ref().ok_or_else(gone)?)?;
    let end = host_end(record)?;
    let link = netns.enter(|| find(record, end.as_ref()))??.ok_or_else(gone)?;
    Ok((netns, link))
}

/// What its runtime calls the container's interface, which the record does not have: Docker asks for `eth` and makes
/// it `eth0` later. `None` where Spoke gave the name, and where the namespace cannot be entered.
pub fn named_by_runtime(record: &Attachment) -> Option<IfName> {
    let is_its = record.handoff == Handoff::Caller && record.layer == Layer::Link;
    if !is_its || !matches!(record.phase, Phase::Attached(_)) {
        return None;
    }
    interface(record).ok().map(|(_, link)| link.name)
}

/// The namespace of a container that is there.
///
/// # Errors
/// [`model::Kind::NotFound`] where it is gone; [`model::Kind::Denied`] where it may not be opened.
pub fn namespace(sandbox: &Sandbox) -> Result<Netns> {
    let path = sandbox.path.display();
    let gone = || Error::not_found(format!("the network namespace {path} is gone"));
    let netns = Netns::open(&sandbox.path).map_err(|error| match error.kind() {
        Kind::Denied => error,
        _ => gone().because(error),
    })?;
    // Its runtime may have named the path before the namespace was there.
    match sandbox.inode {
        0 => Ok(netns),
        inode if inode == netns.inode() => Ok(netns),
        _ => Err(gone()),
    }
}

fn host_end(record: &Attachment) -> Result<Option<Link>> {
    let there = Socket::route()?.link(At::Name(&plan::host_end(record)?))?;
    Ok(there.filter(|link| facts::is_host_end(record, link)))
}

/// In the calling thread's namespace: the other end of a pair, or what has the attachment's mark, or its
/// name, or its hardware address.
fn find(record: &Attachment, end: Option<&Link>) -> Result<Option<Link>> {
    let mut socket = Socket::route()?;
    if let Some(index) = end.and_then(|end| end.peer) {
        return socket.link(At::Index(index));
    }
    let reported = reported(record);
    let name = reported.map_or_else(|| plan::device(record), |interface| &interface.name);
    if record.handoff == Handoff::Finish {
        return socket.link(At::Name(name));
    }
    // Its runtime chose the name.
    let (group, made) = (Identity::of(&record.id).group(), record.wiring.link.as_ref());
    let mac = reported.and_then(|it| it.mac).or(made.and_then(|link| link.mac));
    let links = socket.links(Links::default())?;
    let find = |is: &dyn Fn(&Link) -> bool| links.iter().find(|link| is(link)).cloned();
    let marked = find(&|link| link.group == group);
    let marked = marked.or_else(|| find(&|link| mac.is_some() && link.mac == mac));
    Ok(marked.or_else(|| find(&|link| link.name == *name)))
}

/// The interface in the container, as its maker reported it.
fn reported(record: &Attachment) -> Option<&Interface> {
    match &record.phase {
        Phase::Attached(attached) => {
            attached.interfaces.iter().find(|it| it.place == InterfaceNamespace::Sandbox)
        }
        Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => None,
    }
}
