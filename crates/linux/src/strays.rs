//! Parts in the kernel that Spoke made and that no record describes.

use std::collections::BTreeSet;

use engine::port::{Presence, Stray};
use model::{Attachment, IfName, Result};
use netlink::{Link, Links, Socket};

use crate::identity::{self, GROUP, Identity};

/// Interfaces and owner marks of Spoke's in the kernel.
pub(crate) struct KernelObjects {
    links: Vec<Link>,
    marks: Vec<String>,
}

impl KernelObjects {
    pub(crate) fn gather(marks: Vec<String>) -> Result<Self> {
        let links = Socket::route()?.links(Links::default())?;
        Ok(Self { links: links.into_iter().filter(is_of_container).collect(), marks })
    }

    /// A link exists as long as its container's namespace: it is garbage only where both ends of
    /// the pair are here, in no container. Elements of a link that is gone are garbage.
    pub(crate) fn strays(self, records: &[Attachment]) -> Vec<(Stray, Presence)> {
        let known: Vec<Identity> = records.iter().map(|record| Identity::of(&record.id)).collect();
        let names: BTreeSet<IfName> = known
            .iter()
            .flat_map(|identity| [identity.host_link(), identity.guest_link()])
            .flatten()
            .collect();
        let links: BTreeSet<&IfName> = self.links.iter().map(|link| &link.name).collect();
        let known: BTreeSet<String> = known.iter().map(Identity::digits).collect();
        let is_known =
            |mark: &str| mark.split_once('/').is_some_and(|(its, _)| known.contains(its));
        let is_marked = |link: &Link| link.alias.as_deref().is_some_and(is_known);
        let unknown =
            self.links.iter().filter(|link| !names.contains(&link.name) && !is_marked(link));
        let host_ends = unknown.filter(|link| !self.goes_with_another(link));
        let mut strays: Vec<_> = host_ends
            .map(|link| {
                let here = link.peer_netns.is_none();
                let presence = if here { Presence::Gone } else { Presence::Alive };
                (Stray::Link(link.name.clone()), presence)
            })
            .collect();
        for mark in self.marks.iter().filter(|mark| !is_known(mark)) {
            strays.push((Stray::Elements(mark.clone()), presence_of(mark, &links)));
        }
        strays
    }

    /// Whether it is the container's end of a pair whose host's end is here too.
    fn goes_with_another(&self, link: &Link) -> bool {
        let has_peer = |other: &Link| link.peer == Some(other.index);
        identity::is_guest_link(&link.name)
            && link.peer_netns.is_none()
            && self.links.iter().any(has_peer)
    }
}

/// Whether it has a name or a mark of the attachment's.
pub(crate) fn is_of(stray: &Stray, record: &Attachment) -> bool {
    let identity = Identity::of(&record.id);
    match stray {
        Stray::Link(name) => [identity.host_link(), identity.guest_link()]
            .into_iter()
            .any(|its| its.is_ok_and(|its| its == *name)),
        Stray::Elements(mark) => {
            mark.split_once('/').is_some_and(|(digits, _)| digits == identity.digits())
        }
        Stray::Parking(_) | Stray::Names(_) | Stray::SwitchPort { .. } => false,
    }
}

/// Whether it is an end of a pair of Spoke's, or a link of Spoke's that waits for its runtime.
fn is_of_container(link: &Link) -> bool {
    let is_end = matches!(link.kind.as_deref(), Some("veth" | "tun")) && link.group == GROUP;
    is_end || identity::group_of(&link.name) == Some(link.group)
}

/// Whether the container of the elements still has its link. A container whose link a third party
/// made, or has no end in the host, proves nothing.
fn presence_of(mark: &str, links: &BTreeSet<&IfName>) -> Presence {
    let host_link = identity::host_link_of(mark);
    match host_link.is_some_and(|link| links.contains(&link)) {
        true => Presence::Alive,
        false if mark.ends_with("/link") => Presence::Gone,
        false => Presence::Doubtful,
    }
}

/// Whether an interface of Spoke's exists: the guard of the loopback also protects those without elements.
pub(crate) fn has_links(socket: &mut Socket) -> Result<bool> {
    Ok(socket.links(Links::default())?.iter().any(|link| link.group == GROUP))
}
