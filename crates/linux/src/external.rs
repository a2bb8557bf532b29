//! Interfaces that a third party made in the host: moving them into a container, and back.
//!
//! A moved interface is marked in its group and in its alias ([`OriginAlias`]), before it is moved
//! and until it is back. So it is found wherever a killed process left it, and under any name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use model::{
    Attached, Attachment, Error, ExternalInterface, Family, Handoff, IfName, InterfaceNamespace,
    Kind, LinkKind, Phase, Result,
};
use netlink::route::{MAIN, Routes};
use netlink::wire::Batch;
use netlink::{Announcement, At, Change, HostLock, Link, Links, NamespaceLock, Netns, Socket};

use crate::apply::Hands;
use crate::identity::{Identity, is_guest_link, is_ours_by};
use crate::origin_alias::OriginAlias;
use crate::plan::{self, ExternalFacts, ExternalLink, Facts};
use crate::{apply, parts};

/// How long to wait for other processes that move an interface. A process that was stopped while it
/// moves one blocks others no longer than this.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// How often another name is tried where another process was faster.
const ATTEMPTS: usize = 64;

/// The interface that the attachment moves, where its link is one.
pub(crate) fn of(attachment: &Attachment) -> Option<&ExternalInterface> {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::ExternalInterface(external)) => Some(external),
        Some(_) | None => None,
    }
}

/// Moves the interface into the container and completes it there. What a killed process did of it
/// is not done again.
pub(crate) fn make(
    attachment: &Attachment,
    external: &ExternalInterface,
    sandbox: Option<&Netns>,
    lock: &HostLock,
) -> Result<Attached> {
    let origin_alias = Netns::current()?;
    let elsewhere = sandbox.filter(|sandbox| !sandbox.is_same(&origin_alias));
    // With the container's turn as well the thread can read the container while it waits: no other
    // process of Spoke moves anything there.
    let inside = elsewhere.and_then(|sandbox| NamespaceLock::take(sandbox, LOCK_WAIT).ok());
    let mut found = inside.as_ref().map(|_| within(attachment, sandbox)).transpose()?;
    // Each message waits for the kernel's lock again, which a move holds for long: of many at once
    // none would be done before all had moved.
    let _lock = lock.take(LOCK_WAIT);
    let mut refused = BTreeSet::new();
    loop {
        let mut facts = found.take().map_or_else(|| within(attachment, sandbox), Ok)?;
        here(attachment, external, &mut facts)?;
        facts.taken.extend(refused.iter().cloned());
        let plan = plan::attach(attachment, &Facts { external: Some(facts), ..Facts::default() })?;
        let made = apply::carry_out(&plan, None, (sandbox, lock), &mut Socket::route()?);
        let name = plan.attached.interfaces.first().map(|interface| interface.name.clone());
        match (made, name) {
            (Err(error), Some(name))
                if error.kind() == Kind::Conflict
                    && external.prefix.is_some()
                    && refused.len() < ATTEMPTS
                    && refused.insert(name.clone()) => {}
            (made, _) => return made.map(|()| plan.attached),
        }
    }
}

/// Whether the interface is in the container, and what there is in its way.
fn within(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<ExternalFacts> {
    let mut facts = ExternalFacts::default();
    if let Some(sandbox) = sandbox {
        let identity = Identity::of(&attachment.id);
        sandbox.enter(|| inside(attachment, &identity, &mut facts))??;
    }
    Ok(facts)
}

/// Whether the interface is in the host.
fn here(
    attachment: &Attachment,
    external: &ExternalInterface,
    facts: &mut ExternalFacts,
) -> Result<()> {
    let identity = Identity::of(&attachment.id);
    let mut socket = Socket::route()?;
    let here = match socket.link(At::Name(&external.source))? {
        Some(link) => Some(link),
        None => socket.link(At::Name(&identity.guest_link()?))?,
    };
    match (here, &facts.link) {
        (Some(here), None) => {
            refuse_others(attachment, &identity, &here)?;
            let mark = (!is_of(&here, &identity)).then(|| OriginAlias::of(&here).mark(&identity));
            let (name, mac) = (here.name, here.mac);
            facts.link = Some(ExternalLink { name, place: InterfaceNamespace::Host, mac, mark });
        }
        (Some(here), Some(inside)) if here.name == external.source => {
            return Err(Error::conflict(format!(
                "{}: there is another interface {} in the host, and the container has {} already",
                attachment.id, here.name, inside.name
            )));
        }
        (_, _) => {}
    }
    Ok(())
}

/// The container's own interfaces and routes; the calling thread is there.
fn inside(attachment: &Attachment, identity: &Identity, facts: &mut ExternalFacts) -> Result<()> {
    let mut socket = Socket::route()?;
    let (ours, others): (Vec<Link>, Vec<Link>) =
        socket.links(Links::default())?.into_iter().partition(|link| is_of(link, identity));
    facts.taken = others.into_iter().map(|link| link.name).collect();
    let own = ours.first().map(|link| link.index);
    let families: BTreeSet<Family> =
        attachment.addresses.iter().map(|held| Family::of(&held.address)).collect();
    for family in families {
        let all = socket.routes(Routes { family, table: Some(MAIN), link: None })?.into_iter();
        let others = all.filter(|route| own.is_none() || route.link != own);
        facts.routes.extend(others.map(|route| route.dst));
    }
    facts.link = ours.into_iter().next().map(|link| ExternalLink {
        name: link.name,
        place: InterfaceNamespace::Sandbox,
        mac: link.mac,
        mark: None,
    });
    Ok(())
}

/// An interface that no driver may give away.
fn refuse_others(attachment: &Attachment, identity: &Identity, link: &Link) -> Result<()> {
    let refused = |why: &str| {
        Err(Error::conflict(format!("{}: interface {} {why}", attachment.id, link.name)))
    };
    if link.flags.is_loopback() {
        return refused("is the host's loopback device, which stays where it is");
    }
    // An interface that another process of Spoke made for a runtime to move is moved by that
    // runtime.
    if is_ours_by(link.group) && !is_guest_link(&link.name) {
        return refused("is Spoke's own");
    }
    let is_external = |alias: &String| Identity::is_external_mark(alias);
    match link.alias.as_ref().is_some_and(is_external) && !is_of(link, identity) {
        true => refused("is on its way into another container"),
        false => Ok(()),
    }
}

/// Whether the interface is the attachment's for now.
pub(crate) fn is_of(link: &Link, identity: &Identity) -> bool {
    let is_given = |alias: &String| OriginAlias::read(alias, identity).is_some();
    link.group == identity.group() || link.alias.as_ref().is_some_and(is_given)
}

/// Moves the interface back into the host: down, with its old name, hardware address, MTU, group
/// and alias. An interface that is gone is no error.
///
/// # Errors
/// [`Kind::Conflict`] where the host has another interface of its name by now: it is back, under
/// the name in the error, and that is not to be repeated.
pub(crate) fn put_back(
    attachment: &Attachment,
    external: &ExternalInterface,
    sandbox: Option<&Netns>,
) -> Result<()> {
    if attachment.handoff == Handoff::Caller {
        return Ok(());
    }
    let identity = Identity::of(&attachment.id);
    let origin_alias = Netns::current()?;
    let moved = match sandbox.filter(|sandbox| !sandbox.is_same(&origin_alias)) {
        Some(sandbox) => {
            sandbox.enter(|| move_to_host(attachment, external, &identity, &origin_alias))??
        }
        None => Moved::Nothing,
    };
    match moved {
        Moved::Whole => Ok(()),
        Moved::Partly | Moved::Nothing => settle(external, &identity),
    }
}

/// The result for the interface in the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// There was none.
    Nothing,
    /// The interface is in the host, and as it was.
    Whole,
    /// It may be in the host, and not as it was.
    Partly,
}

/// From the container, where the calling thread is. Under its old name, or where that is taken,
/// under one of Spoke's.
fn move_to_host(
    attachment: &Attachment,
    external: &ExternalInterface,
    identity: &Identity,
    origin_alias: &Netns,
) -> Result<Moved> {
    let mut socket = Socket::route()?;
    Hands::new(&mut socket, None).apply(&plan::external::leave(attachment))?;
    let links = socket.links(Links::default())?.into_iter();
    let mut moved = Moved::Nothing;
    for link in links.filter(|link| is_of(link, identity)) {
        let mut batch = Batch::new();
        let changes = origin_of(&link, external, identity).changes(&link);
        batch.move_and_change_link(link.index, origin_alias.as_fd(), &external.source, &changes);
        if socket.send(&mut batch)?.failures().is_empty() {
            moved = if moved == Moved::Nothing { Moved::Whole } else { moved };
            continue;
        }
        moved = Moved::Partly;
        // It may be gone by now, because only its name was in the way.
        if socket.link(At::Index(link.index))?.is_some_and(|link| is_of(&link, identity)) {
            let mut batch = Batch::new();
            batch.move_link(link.index, origin_alias.as_fd(), &identity.guest_link()?);
            socket.send(&mut batch)?.into_result()?;
        }
    }
    Ok(moved)
}

fn origin_of(link: &Link, external: &ExternalInterface, identity: &Identity) -> OriginAlias {
    let given = link.alias.as_deref().and_then(|alias| OriginAlias::read(alias, identity));
    given.unwrap_or_else(|| OriginAlias::unknown(&external.source))
}

/// Makes an interface that is in the host what it was: one that was never moved, one that came back
/// in parts, or one that the kernel released at the end of a namespace, under whatever name.
fn settle(external: &ExternalInterface, identity: &Identity) -> Result<()> {
    let mut socket = Socket::route()?;
    let named = socket.link(At::Name(&external.source))?;
    let is_named = named.as_ref().is_some_and(|link| is_of(link, identity));
    let found = match named.filter(|_| is_named) {
        Some(link) => Some(link),
        None => socket.links(Links::default())?.into_iter().find(|link| is_of(link, identity)),
    };
    let Some(link) = found else { return Ok(()) };
    let mut batch = Batch::new();
    let at = At::Index(link.index);
    batch.change_link(at, &[Change::Up(false)]);
    let is_taken =
        link.name != external.source && socket.link(At::Name(&external.source))?.is_some();
    let name = if is_taken { identity.guest_link()? } else { external.source.clone() };
    if link.name != name {
        batch.change_link(at, &[Change::Name(name.clone())]);
    }
    for change in origin_of(&link, external, identity).changes(&link) {
        batch.change_link(at, &[change]);
    }
    socket.send(&mut batch)?.except(netlink::Errno::NODEV).into_result()?;
    match is_taken {
        false => Ok(()),
        true => Err(Error::conflict(format!(
            "the host has another interface {} by now: the container's is back as {name}",
            external.source
        ))),
    }
}

/// The attachment, with the name that its interface has in the container: what is done there besides
/// must know it.
pub(crate) fn as_attached<'a>(
    attachment: &'a Attachment,
    attached: &Attached,
) -> Cow<'a, Attachment> {
    let inside =
        attached.interfaces.iter().find(|known| known.place == InterfaceNamespace::Sandbox);
    match (of(attachment), inside) {
        (Some(_), Some(interface)) => named(attachment, &interface.name),
        (_, _) => Cow::Borrowed(attachment),
    }
}

/// The same where nothing is left but the container.
pub(crate) fn as_inside<'a>(
    attachment: &'a Attachment,
    sandbox: Option<&Netns>,
) -> Cow<'a, Attachment> {
    let wiring = &attachment.wiring;
    let is_needed = wiring.tuning.is_some() || parts::reach_inside(attachment);
    let Some(sandbox) = sandbox.filter(|_| is_needed && of(attachment).is_some()) else {
        return Cow::Borrowed(attachment);
    };
    match sandbox.enter(|| name_inside(attachment, &mut Socket::route()?)) {
        Ok(Ok(name)) => named(attachment, &name),
        Ok(Err(_)) | Err(_) => Cow::Borrowed(attachment),
    }
}

fn named<'a>(attachment: &Attachment, name: &IfName) -> Cow<'a, Attachment> {
    let mut named = attachment.clone();
    if let Some(link) = &mut named.wiring.link {
        link.name = Some(name.clone());
    }
    Cow::Owned(named)
}

/// The announcement for the neighbours of an interface that was just moved; `None` where there is
/// nothing to announce.
pub(crate) fn announcement(attachment: &Attachment, attached: &Attached) -> Option<Announcement> {
    of(attachment)?;
    let sandbox = attachment.sandbox.as_ref()?;
    let interface =
        attached.interfaces.iter().find(|known| known.place == InterfaceNamespace::Sandbox)?;
    let addresses: Vec<IpAddr> =
        attached.addresses.iter().map(|held| held.address.addr()).collect();
    Some(Announcement {
        netns: sandbox.path.clone(),
        inode: sandbox.inode,
        link: interface.name.clone(),
        mac: interface.mac?,
        addresses,
    })
    .filter(|announcement| !announcement.addresses.is_empty())
}

/// The name of the attachment's interface in the container, where the calling thread is: as its
/// result says, or where there is none, as it is marked, or as it was asked for.
pub(crate) fn name_inside(attachment: &Attachment, socket: &mut Socket) -> Result<IfName> {
    if let Phase::Attached(attached) = &attachment.phase
        && let Some(known) =
            attached.interfaces.iter().find(|known| known.place == InterfaceNamespace::Sandbox)
    {
        // Links need not be listed, which would wait for every process that changes one.
        return Ok(known.name.clone());
    }
    let identity = Identity::of(&attachment.id);
    let ours = socket.links(Links::default())?.into_iter().find(|link| is_of(link, &identity));
    Ok(ours.map_or_else(|| plan::device(attachment).clone(), |link| link.name))
}

/// Whether the calling thread's namespace has the interface.
pub(crate) fn is_inside(attachment: &Attachment) -> Result<bool> {
    let identity = Identity::of(&attachment.id);
    let links = Socket::route()?.links(Links::default())?;
    Ok(links.iter().any(|link| is_of(link, &identity)))
}

/// Whether the interface is in the calling thread's namespace under its old name: not moved yet, or
/// moved back.
pub(crate) fn is_in_host(external: &ExternalInterface) -> Result<bool> {
    Ok(Socket::route()?.link(At::Name(&external.source))?.is_some())
}
