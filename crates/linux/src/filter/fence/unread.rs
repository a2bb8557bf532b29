//! Ports of containers whose records cannot be read: which rules these have is not known. What they had is kept as long
//! as the packet filter has it. Where it was lost the port sends nothing.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use model::{Attachment, IfName, Layer, Result};
use netlink::{Links, Socket};

use super::own::{Own, have_chains, own_sources};
use super::{calmly, fenced_bridges};
use crate::filter::Owner;
use crate::filter::spoof::shut::Known;
use crate::filter::spoof::{self, Sender};
use crate::identity::{GROUP, Identity, host_link_of};

/// The host's end of a container's link, and the bridge that it is a port of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerPort {
    /// Its name.
    pub name: IfName,
    /// Its bridge.
    pub bridge: IfName,
}

impl ContainerPort {
    /// The name that an attachment's port has; `None` where another layer has it.
    ///
    /// # Errors
    /// None that input can cause.
    pub fn name_of(attachment: &Attachment) -> Result<Option<IfName>> {
        let is_link = attachment.layer == Layer::Link;
        is_link.then(|| Identity::of(&attachment.id).host_link()).transpose()
    }

    /// Those of this host, whatever records say.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn all() -> Result<Vec<Self>> {
        let all = Socket::route()?.links(Links::default())?;
        let bridge = |index: u32| {
            let is_it = |link: &&netlink::Link| link.index == index;
            let link = all.iter().find(is_it)?;
            (link.kind.as_deref() == Some("bridge")).then(|| link.name.clone())
        };
        let port = |link: &netlink::Link| {
            let is_ours = link.group == GROUP
                && matches!(link.kind.as_deref(), Some("veth" | "tun"))
                && link.name.as_str().starts_with("veth");
            let bridge = link.master.filter(|_| is_ours).and_then(bridge)?;
            Some(Self { name: link.name.clone(), bridge })
        };
        Ok(all.iter().filter_map(port).collect())
    }
}

/// Which ports send nothing, because their containers' records could not be read.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn shut_ports(socket: &mut Socket) -> Result<BTreeSet<IfName>> {
    spoof::shut::ports(socket)
}

/// Has those of these ports send nothing of whose containers' rules nothing is left, or of which it cannot be said that
/// they have none. Returns those that send nothing by now.
///
/// A container with rules of its own is there with its addresses in both tables. One that has none is known by what else
/// it has there, which a flush takes and which comes from its record alone; but not where a container that is none of
/// the `known` ones has rules of its own behind its bridge, and nothing says which.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn shut_unread(
    socket: &mut Socket,
    all: &[ContainerPort],
    known: &HashSet<(IfName, IpAddr)>,
) -> Result<Vec<ContainerPort>> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    calmly(socket, |socket| {
        let lost = lost(socket, all, known)?;
        if !lost.is_empty() {
            spoof::shut::shut(socket, lost.iter().map(|port| &port.name))?;
        }
        Ok(lost)
    })
}

/// Has these send nothing, whatever is there of their containers' rules.
///
/// # Errors
/// As [`shut_unread`].
pub fn keep_shut(socket: &mut Socket, all: &[ContainerPort]) -> Result<()> {
    let there = calmly(socket, spoof::shut::ports)?;
    if all.iter().all(|port| there.contains(&port.name)) {
        return Ok(());
    }
    calmly(socket, |socket| spoof::shut::shut(socket, all.iter().map(|port| &port.name)))
}

fn lost(
    socket: &mut Socket,
    all: &[ContainerPort],
    known_sources: &HashSet<(IfName, IpAddr)>,
) -> Result<Vec<ContainerPort>> {
    let known = Known::read(socket)?;
    let own = own_sources(socket)?;
    let fenced = fenced_bridges(socket)?;
    let owners = owners(socket)?;
    let may_have_own = |bridge: &IfName| {
        own.iter().any(|source| source.0 == *bridge && !known_sources.contains(source))
    };
    let has_own = |port: &ContainerPort| {
        let sources = known.sources.get(&port.name).map(Vec::as_slice).unwrap_or_default();
        let is_there = |source| own.contains(&(port.bridge.clone(), source));
        !sources.is_empty() && sources.iter().copied().all(is_there)
    };
    let is_kept = |port: &&ContainerPort| {
        let (is_bound, is_linked) =
            (known.bound.contains(&port.name), known.linked.contains(&port.name));
        !known.shut.contains(&port.name)
            && match (is_bound, is_linked) {
                (true, true) => fenced.contains(&port.bridge),
                (true, false) => has_own(port),
                (false, _) => {
                    owners.contains(&port.name)
                        && !fenced.contains(&port.bridge)
                        && !may_have_own(&port.bridge)
                }
            }
    };
    let (kept, lost): (Vec<_>, Vec<_>) = all.iter().partition(is_kept);
    // A flush of a table leaves its sets.
    if kept.iter().any(|port| known.bound.contains(&port.name)) {
        have_chains(socket)?;
    }
    if !known.bound.is_empty() {
        spoof::mend(socket)?;
    }
    Ok(lost.into_iter().cloned().collect())
}

/// The ports of containers that have anything in the tables of this host.
fn owners(socket: &mut Socket) -> Result<BTreeSet<IfName>> {
    let checked = spoof::owners(socket)?;
    let others = crate::filter::list_owners(socket)?;
    let others = others.keys().map(Owner::as_str);
    Ok(checked.iter().map(String::as_str).chain(others).filter_map(host_link_of).collect())
}

/// Lets a port send again: a record says by now whose it is, and its rules are there; or it is gone. `false` where the
/// rules are not there yet.
///
/// # Errors
/// Where the process may not change the packet filter.
pub fn open_port(
    socket: &mut Socket,
    port: &IfName,
    attachment: Option<&Attachment>,
) -> Result<bool> {
    let mut sender = None;
    if let Some(attachment) = attachment {
        if let Some(own) = Own::of(attachment)? {
            let there = calmly(socket, own_sources)?;
            let is_there = |source| there.contains(&(own.bridge.clone(), source));
            if !own.sources.iter().copied().all(is_there) {
                return Ok(false);
            }
        }
        if let Some(bridge) = attachment.wiring.bridge().filter(|_| attachment.fence().is_some())
            && attachment.wiring.own_fence.is_none()
            && !calmly(socket, fenced_bridges)?.contains(&bridge.name)
        {
            return Ok(false);
        }
        sender = spoof::sender(attachment)?.filter(Sender::is_bound);
    }
    calmly(socket, |socket| spoof::shut::open(socket, port, sender.as_ref())).map(|()| true)
}
