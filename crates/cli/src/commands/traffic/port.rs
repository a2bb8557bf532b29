//! The interfaces of a container that are captured.

use linux::meter;
use model::{Attachment, Error, IfName, Result};
use netlink::capture::Capture;
use netlink::{At, Link, Netns, Socket};
use traffic::capture::Form;
use traffic::capture::pcapng::Interface;

use crate::output::table::clean;
use crate::titles::Titles;

/// One interface.
pub(super) struct Port {
    pub(super) capture: Capture,
    pub(super) described: Interface,
    /// Whether it is the device of a virtual machine: what this host receives by it, the machine sends.
    pub(super) is_device: bool,
}

impl Port {
    /// Of a link in this namespace.
    pub(super) fn open(netns: &Netns, link: &Link, comment: String, snap: u32) -> Result<Self> {
        let capture = netns.enter(|| Capture::open(link.index))??;
        let has_header = link.mac.is_some() || link.flags.is_loopback();
        let form = if has_header { Form::Ethernet } else { Form::Network };
        let name = clean(link.name.as_str());
        let described = Interface { name, comment, form, snap };
        Ok(Self { capture, described, is_device: false })
    }
}

/// The interfaces that Spoke made, each with a sentence about it.
pub(super) fn made(records: &[&Attachment], titles: &Titles) -> Result<Vec<(Link, String)>> {
    let made = |record: &&Attachment| Ok((meter::interface(record)?.1, about(record, titles)));
    records.iter().map(made).collect()
}

/// Those of these names, whatever made them.
pub(super) fn named(
    names: &[IfName],
    (records, titles): (&[&Attachment], &Titles),
    first: &Attachment,
    netns: &Netns,
) -> Result<Vec<(Link, String)>> {
    let look = |name: &IfName| {
        let link = netns.enter(|| Socket::route()?.link(At::Name(name)))??;
        let missing = || format!("container {} has no interface {name}", first.container_name());
        let link = link.ok_or_else(|| Error::not_found(missing()))?;
        // Which network it is on; one that Spoke did not make is described by the container's first.
        let is_its = |record: &&Attachment| {
            meter::interface(record).is_ok_and(|it| it.1.index == link.index)
        };
        let record = records.iter().copied().find(is_its).unwrap_or(first);
        Ok((link, about(record, titles)))
    };
    names.iter().map(look).collect()
}

fn about(record: &Attachment, titles: &Titles) -> String {
    let (id, name, runtime) = (&record.id, record.container_name(), record.runtime);
    clean(&format!(
        "container {name} ({}), runtime {runtime}, network {}",
        id.container,
        titles.shown(record)
    ))
}
