//! Ports of containers whose records cannot be read: which rules these have is not known. What they had is kept as long
//! as the packet filter has it. Where it was lost the port sends nothing.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use model::{Attachment, IfName, Layer, Phase, Result};
use netlink::nft::table_handle;
use netlink::{Links, Socket};

use super::own::{Own, have_chains, own_sources};
use super::sets::TABLE;
use super::{calmly, fenced_bridges};
use crate::filter::Owner;
use crate::filter::spoof::shut::Known;
use crate::filter::spoof::{self, Bound, Sender};
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

/// What the records say that can be read: by that it is known whether something of the packet filter was lost.
#[derive(Debug, Default)]
pub struct Readable {
    /// Addresses of containers, behind their bridges.
    sources: HashSet<(IfName, IpAddr)>,
    /// Those of containers that have rules of their own.
    own: HashSet<(IfName, IpAddr)>,
    /// Ports whose containers send from their own addresses only.
    bound: BTreeSet<IfName>,
    /// The bridges of networks with rules.
    pub fenced: BTreeSet<IfName>,
    /// Those of networks of which no container can have rules of its own.
    pub ruleless: BTreeSet<IfName>,
}

impl Readable {
    /// What attachments say.
    ///
    /// # Errors
    /// None that input can cause.
    pub fn of<'a>(attachments: impl IntoIterator<Item = &'a Attachment>) -> Result<Self> {
        let mut readable = Self::default();
        for attachment in attachments {
            let Some(bridge) = attachment.wiring.bridge() else { continue };
            let held = attachment.addresses.iter();
            let sources: Vec<_> =
                held.map(|held| (bridge.name.clone(), held.address.addr())).collect();
            // What comes or goes need not be there.
            if attachment.layer == Layer::Link && matches!(attachment.phase, Phase::Attached(_)) {
                if attachment.wiring.own_fence.is_some() {
                    readable.own.extend(sources.iter().cloned());
                }
                if spoof::bound(attachment) != Bound::No {
                    readable.bound.extend(ContainerPort::name_of(attachment)?);
                }
            }
            readable.sources.extend(sources);
        }
        Ok(readable)
    }
}

/// Those of these ports of whose containers' rules nothing is left, or of which it cannot be said that they have none.
///
/// A container with rules of its own is there with its addresses in both tables. One that has none is known by what else
/// it has there, which a flush takes and which comes from its record alone; but not where a container of which nothing
/// is known has rules of its own behind its bridge, and nothing says which. What others have there says whether a table
/// is the one that knew the container: it has to be asked before the records put back what was lost.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn lost_ports(
    socket: &mut Socket,
    all: &[ContainerPort],
    readable: &Readable,
) -> Result<Vec<ContainerPort>> {
    if all.is_empty() { Ok(Vec::new()) } else { calmly(socket, |it| lost(it, all, readable)) }
}

/// Has these send nothing, whatever is there of their containers' rules.
///
/// # Errors
/// As [`lost_ports`].
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
    readable: &Readable,
) -> Result<Vec<ContainerPort>> {
    let there = There::read(socket)?;
    let unclaimed = there.unclaimed(all, readable);
    let is_kept = |port: &&ContainerPort| there.keeps(port, readable, &unclaimed);
    let (kept, lost): (Vec<_>, Vec<_>) = all.iter().partition(is_kept);
    // A flush of a table leaves its sets.
    if kept.iter().any(|port| there.known.bound.contains(&port.name)) {
        have_chains(socket)?;
    }
    if !there.known.bound.is_empty() {
        spoof::mend(socket)?;
    }
    // The next look finds no older version any more.
    let linked: BTreeSet<&IfName> =
        kept.iter().filter(|it| there.is_linked_later(it)).map(|it| &it.name).collect();
    if !linked.is_empty() {
        spoof::shut::link(socket, &linked)?;
    }
    Ok(lost.into_iter().cloned().collect())
}

/// What the packet filter has.
struct There {
    /// Of ports.
    known: Known,
    /// The addresses of containers with rules of their own.
    own: HashSet<(IfName, IpAddr)>,
    fenced: BTreeSet<IfName>,
    /// Whether there is the table of the fences.
    is_fence: bool,
    /// The ports of containers that have anything in the table that checks what ports send, and in the other one.
    checked: BTreeSet<IfName>,
    others: BTreeSet<IfName>,
}

impl There {
    fn read(socket: &mut Socket) -> Result<Self> {
        let checked = spoof::owners(socket)?;
        let others = crate::filter::list_owners(socket)?;
        Ok(Self {
            known: Known::read(socket)?,
            own: own_sources(socket)?,
            fenced: fenced_bridges(socket)?.into_iter().collect(),
            is_fence: table_handle(socket, TABLE)?.is_some(),
            checked: checked.iter().filter_map(|owner| host_link_of(owner)).collect(),
            others: others.keys().map(Owner::as_str).filter_map(host_link_of).collect(),
        })
    }

    /// The bridges behind which a container has rules of its own that no record names, and no port.
    fn unclaimed(&self, all: &[ContainerPort], readable: &Readable) -> BTreeSet<IfName> {
        let of = |port: &ContainerPort| {
            let sources = self.known.sources.get(&port.name).into_iter().flatten();
            sources.map(|source| (port.bridge.clone(), *source)).collect::<Vec<_>>()
        };
        let claimed: HashSet<_> = all.iter().flat_map(of).collect();
        let left = self.own.iter();
        let left = left.filter(|it| !readable.sources.contains(it) && !claimed.contains(it));
        left.map(|(bridge, _)| bridge.clone()).collect()
    }

    fn has_own(&self, port: &ContainerPort) -> bool {
        let sources = self.known.sources.get(&port.name).map(Vec::as_slice).unwrap_or_default();
        let is_there = |source: &IpAddr| self.own.contains(&(port.bridge.clone(), *source));
        !sources.is_empty() && sources.iter().all(is_there)
    }

    /// Whether the table of the fences has what the records say: it is the one that would have a container's rules.
    fn has_all_fences(&self, readable: &Readable) -> bool {
        self.is_fence
            && readable.own.is_subset(&self.own)
            && readable.fenced.is_subset(&self.fenced)
    }

    /// The same of the table that checks what ports send. What an older version did not check was not lost.
    fn has_all_ports(&self, readable: &Readable) -> bool {
        let known = &self.known;
        known.is_there && (known.is_older || readable.bound.is_subset(&known.bound))
    }

    /// Whether a container has its network's rules, and an older version did not say so.
    fn is_linked_later(&self, port: &ContainerPort) -> bool {
        let ContainerPort { name, bridge } = port;
        let known = &self.known;
        known.is_older
            && known.bound.contains(name)
            && !known.linked.contains(name)
            && !known.machines.contains(name)
            && self.fenced.contains(bridge)
            && !self.has_own(port)
    }

    /// Whether a port has the rules that it had, or had none.
    fn keeps(
        &self,
        port: &ContainerPort,
        readable: &Readable,
        unclaimed: &BTreeSet<IfName>,
    ) -> bool {
        let ContainerPort { name, bridge } = port;
        let known = &self.known;
        if known.shut.contains(name) {
            return false;
        }
        let is_fenced = self.fenced.contains(bridge);
        match (known.bound.contains(name), known.linked.contains(name)) {
            _ if readable.ruleless.contains(bridge) => true,
            (true, true) => is_fenced,
            (true, false) if self.has_own(port) => true,
            // It sends from its own addresses only, with rules or without.
            (true, false) if known.machines.contains(name) => {
                !unclaimed.contains(bridge) && (is_fenced || self.has_all_fences(readable))
            }
            (true, false) => self.is_linked_later(port),
            (false, _) => {
                let is_known = self.checked.contains(name) || self.others.contains(name);
                // One with rules would be bound.
                is_known
                    && self.has_all_ports(readable)
                    && !known.sources.contains_key(name)
                    && !is_fenced
                    && !readable.fenced.contains(bridge)
                    && !unclaimed.contains(bridge)
            }
        }
    }
}

/// Lets a port send again: a record says by now whose it is, and its rules are there; or it is gone. `false` where the
/// rules are not there yet. `is_fenced`: the container's network has rules.
///
/// # Errors
/// Where the process may not change the packet filter.
pub fn open_port(
    socket: &mut Socket,
    port: &IfName,
    (attachment, is_fenced): (Option<&Attachment>, bool),
) -> Result<bool> {
    let mut sender = None;
    if let Some(attachment) = attachment {
        if let Some(own) = Own::of(attachment)? {
            let there = calmly(socket, own_sources)?;
            let is_there = |source| there.contains(&(own.bridge.clone(), source));
            if !own.sources.iter().copied().all(is_there) {
                return Ok(false);
            }
        } else if is_fenced
            && let Some(bridge) = attachment.wiring.bridge()
            && !calmly(socket, fenced_bridges)?.contains(&bridge.name)
        {
            return Ok(false);
        }
        sender = spoof::sender(attachment)?.filter(Sender::is_bound);
    }
    calmly(socket, |socket| spoof::shut::open(socket, port, sender.as_ref())).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> ContainerPort {
        ContainerPort { name: "veth0".parse().unwrap(), bridge: "br0".parse().unwrap() }
    }

    fn source() -> (IfName, IpAddr) {
        (port().bridge, "10.1.0.2".parse().unwrap())
    }

    /// A port that sends from its own address only, with both tables there.
    fn bound() -> There {
        let name = port().name;
        There {
            known: Known {
                bound: BTreeSet::from([name.clone()]),
                linked: BTreeSet::new(),
                sources: [(name.clone(), vec![source().1])].into(),
                shut: BTreeSet::new(),
                machines: BTreeSet::new(),
                is_there: true,
                is_older: false,
            },
            own: HashSet::new(),
            fenced: BTreeSet::new(),
            is_fence: true,
            checked: BTreeSet::from([name.clone()]),
            others: BTreeSet::from([name]),
        }
    }

    fn keeps(there: &There, readable: &Readable) -> bool {
        there.keeps(&port(), readable, &there.unclaimed(&[port()], readable))
    }

    #[test]
    fn a_container_has_its_rules_or_those_of_its_network() {
        let (mut there, none) = (bound(), Readable::default());
        assert!(!keeps(&there, &none), "it had rules");
        there.own.insert(source());
        assert!(keeps(&there, &none));
        there.own.clear();
        there.known.linked.insert(port().name);
        assert!(!keeps(&there, &none), "its network's are gone");
        there.fenced.insert(port().bridge);
        assert!(keeps(&there, &none));
        there.known.shut.insert(port().name);
        assert!(!keeps(&there, &none));
    }

    #[test]
    fn an_older_version_does_not_say_that_the_rules_are_the_networks() {
        let (mut there, none) = (bound(), Readable::default());
        there.fenced.insert(port().bridge);
        assert!(!keeps(&there, &none), "its own may be lost");
        there.known.is_older = true;
        assert!(keeps(&there, &none));
    }

    #[test]
    fn a_machine_may_have_no_rules() {
        let mut there = bound();
        there.known.machines.insert(port().name);
        let other = (port().bridge, "10.1.0.3".parse().unwrap());
        let mut readable = Readable::default();
        assert!(keeps(&there, &readable));
        readable.own.insert(other.clone());
        assert!(!keeps(&there, &readable), "the table lacks what it had");
        readable.sources.insert(other.clone());
        there.own.insert(other);
        assert!(keeps(&there, &readable));
        (there.is_fence, there.own) = (false, HashSet::new());
        assert!(!keeps(&there, &Readable::default()), "its rules may be lost");
        let bridges = BTreeSet::from([port().bridge]);
        assert!(keeps(&there, &Readable { ruleless: bridges, ..Readable::default() }));
    }

    #[test]
    fn a_container_without_rules_is_not_bound_where_others_are() {
        let mut there = bound();
        (there.known.bound, there.known.sources) = Default::default();
        there.checked.clear();
        let mut readable = Readable::default();
        assert!(keeps(&there, &readable));
        readable.bound.insert("veth1".parse().unwrap());
        assert!(!keeps(&there, &readable), "the table lacks what it had");
        there.known.bound.insert("veth1".parse().unwrap());
        assert!(keeps(&there, &readable));
        there.own.insert(source());
        assert!(!keeps(&there, &readable), "nothing says whose rules these are");
        there.own.clear();
        there.known.is_there = false;
        assert!(!keeps(&there, &Readable::default()), "its check may be lost");
        there.known.is_there = true;
        there.known.sources.insert(port().name, vec![source().1]);
        assert!(!keeps(&there, &readable), "it was bound");
    }
}
