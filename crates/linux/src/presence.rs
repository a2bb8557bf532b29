//! Proves whether an attachment's link and namespace still exist.

use engine::port::Presence;
use model::{Attachment, ExternalInterface, Handoff, LinkKind, Phase, Result, Sandbox};
use netlink::{At, Link, Links, Netns, Socket};

use crate::identity::{GROUP, Identity};
use crate::{device, external, facts, plan};

/// Whether the container still has what the record describes. Of a pair the kernel removes both
/// ends together with the namespace of either; another link proves life only inside its namespace.
pub(crate) fn of(attachment: &Attachment) -> Presence {
    if attachment.phase == Phase::Reserved {
        return Presence::Doubtful;
    }
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(_) if attachment.tap().is_some() => of_tap(attachment),
        Some(kind) if kind.is_pair() => of_pair(attachment),
        Some(LinkKind::Loopback | LinkKind::Chain(_) | LinkKind::Neutron(_)) | None => {
            of_sandbox(attachment)
        }
        Some(LinkKind::Device(_)) if is_hidden(attachment) => of_sandbox(attachment),
        Some(LinkKind::ExternalInterface(external)) => of_external(attachment, external),
        Some(_) => of_single(attachment),
    }
}

/// Of a virtual machine's device, which stays while no program has it open: only its deletion ends it.
fn of_tap(attachment: &Attachment) -> Presence {
    match host_link(attachment) {
        Err(_) => Presence::Doubtful,
        Ok(Some(_)) => Presence::Alive,
        Ok(None) => Presence::Gone,
    }
}

fn of_pair(attachment: &Attachment) -> Presence {
    match (host_link(attachment), attachment.handoff) {
        (Err(_), _) => Presence::Doubtful,
        // Not moved yet, or moved back: in no container.
        (Ok(Some(link)), Handoff::Caller) if link.peer_netns.is_none() => Presence::Doubtful,
        (Ok(Some(_)), _) => Presence::Alive,
        (Ok(None), Handoff::Caller) => Presence::Gone,
        (Ok(None), Handoff::Finish) => match attachment.sandbox.as_ref().map(at_path) {
            Some(AtPath::Same(sandbox)) => within(attachment, &sandbox),
            // With it the host's end is gone too, which the kernel removes together with it.
            Some(AtPath::Other | AtPath::Nothing) => Presence::Gone,
            None => Presence::Doubtful,
        },
    }
}

/// Of a container that still has its namespace, but whose host's end is gone.
fn within(attachment: &Attachment, sandbox: &Netns) -> Presence {
    let device = At::Name(plan::device(attachment));
    match sandbox.enter(|| Socket::route()?.link(device)) {
        Ok(Ok(None)) => Presence::Gone,
        Ok(Ok(Some(_)) | Err(_)) | Err(_) => Presence::Doubtful,
    }
}

/// Of a layer without a link of its own. Where nothing is held, nothing can be taken from a living
/// container.
fn of_sandbox(attachment: &Attachment) -> Presence {
    let holds_something = !attachment.leases.is_empty() || attachment.wiring.publish.is_some();
    match attachment.sandbox.as_ref().map(at_path) {
        Some(AtPath::Same(_)) => Presence::Alive,
        Some(AtPath::Other) => Presence::Gone,
        Some(AtPath::Nothing) if !holds_something => Presence::Gone,
        Some(AtPath::Nothing) | None => Presence::Doubtful,
    }
}

/// A link that is gone from an existing namespace was removed with its parent: the container
/// exists. A namespace that cannot be opened may be mounted in another mount namespace; only
/// another one at its path proves its end.
fn of_single(attachment: &Attachment) -> Presence {
    match is_here(attachment) {
        Err(_) => return Presence::Doubtful,
        // Not moved yet, or moved back: in no container.
        Ok(true) => return Presence::Doubtful,
        Ok(false) => {}
    }
    match attachment.sandbox.as_ref().map(at_path) {
        Some(AtPath::Same(sandbox)) => match sandbox.enter(|| is_inside(attachment)) {
            Ok(Ok(true)) => Presence::Alive,
            Ok(Ok(false) | Err(_)) | Err(_) => Presence::Doubtful,
        },
        Some(AtPath::Other) => Presence::Gone,
        Some(AtPath::Nothing) if is_back(attachment) => Presence::Gone,
        Some(AtPath::Nothing) | None => Presence::Doubtful,
    }
}

/// The presence of a third party's interface, which ends with its namespace, or returns to the
/// host. One that its runtime moves has no mark of Spoke's.
fn of_external(attachment: &Attachment, external: &ExternalInterface) -> Presence {
    let sandbox = attachment.sandbox.as_ref().map(at_path);
    let is_in_host = || external::is_in_host(external).unwrap_or(true);
    match (sandbox, attachment.handoff) {
        (Some(AtPath::Other), _) => Presence::Gone,
        (_, Handoff::Caller) if is_in_host() => Presence::Doubtful,
        (Some(AtPath::Same(_)), Handoff::Caller) => Presence::Alive,
        (Some(AtPath::Same(sandbox)), Handoff::Finish) => {
            match sandbox.enter(|| external::is_inside(attachment)) {
                Ok(Ok(true)) => Presence::Alive,
                Ok(Ok(false) | Err(_)) | Err(_) => Presence::Doubtful,
            }
        }
        (Some(AtPath::Nothing) | None, _) => Presence::Doubtful,
    }
}

/// Whether a program in the container drives its device, of which the kernel has no interface.
fn is_hidden(attachment: &Attachment) -> bool {
    matches!(&attachment.phase, Phase::Attached(attached) if attached.interfaces.is_empty())
}

/// Whether the kernel gave the container's device back to the host, as it does at the end of a
/// namespace.
fn is_back(attachment: &Attachment) -> bool {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Device(device)) => device::is_back(device).unwrap_or(false),
        Some(_) | None => false,
    }
}

/// Whether the link waits in the host's namespace.
fn is_here(attachment: &Attachment) -> Result<bool> {
    let identity = Identity::of(&attachment.id);
    let link = Socket::route()?.link(At::Name(&identity.guest_link()?))?;
    Ok(link.is_some_and(|link| link.group == identity.group()))
}

/// Whether the calling thread's namespace has the link, under whatever name its runtime gave it.
fn is_inside(attachment: &Attachment) -> Result<bool> {
    let mut socket = Socket::route()?;
    let is_device = attachment
        .wiring
        .link
        .as_ref()
        .is_some_and(|link| matches!(link.kind, LinkKind::Device(_)));
    let group = Identity::of(&attachment.id).group();
    match attachment.handoff {
        Handoff::Finish => {
            let link = socket.link(At::Name(plan::device(attachment)))?;
            Ok(link.is_some_and(|link| is_device || link.group == group))
        }
        Handoff::Caller => {
            Ok(socket.links(Links::default())?.iter().any(|link| link.group == group))
        }
    }
}

enum AtPath {
    Same(Netns),
    Other,
    Nothing,
}

/// Which one it was is not known where the runtime named it before it was there: then one that
/// exists is no other.
fn at_path(sandbox: &Sandbox) -> AtPath {
    let is_same = |netns: &Netns| [0, netns.inode()].contains(&sandbox.inode);
    match Netns::open(&sandbox.path) {
        Ok(netns) if is_same(&netns) => AtPath::Same(netns),
        Ok(_) => AtPath::Other,
        Err(_) => AtPath::Nothing,
    }
}

/// Only where a third party chose the name of the end can another attachment's have it.
pub(crate) fn is_anothers(attachment: &Attachment) -> Result<bool> {
    let Some(LinkKind::Plug(plug)) = attachment.wiring.link.as_ref().map(|link| &link.kind) else {
        return Ok(false);
    };
    let there = Socket::route()?.link(At::Name(&plug.end))?;
    Ok(there.is_some_and(|link| link.group == GROUP && !facts::is_host_end(attachment, &link)))
}

fn host_link(attachment: &Attachment) -> Result<Option<Link>> {
    let there = Socket::route()?.link(At::Name(&plan::host_end(attachment)?))?;
    Ok(there.filter(|link| facts::is_host_end(attachment, link)))
}
