//! Whether what a record describes is still there.

use engine::port::Presence;
use model::{Attachment, Handoff, LinkKind, Phase, Result, Sandbox};
use netlink::{At, Link, Netns, Socket};

use crate::identity::Identity;
use crate::plan;

/// Whether the container still has what the record describes. Of a pair the kernel removes both
/// ends together with the namespace of either.
pub(crate) fn of(attachment: &Attachment) -> Presence {
    if attachment.phase == Phase::Reserved {
        return Presence::Doubtful;
    }
    match (host_link(attachment), attachment.handoff) {
        (Err(_), _) => Presence::Doubtful,
        // Not moved yet, or moved back: in no container.
        (Ok(Some(link)), Handoff::Caller) if link.peer_netns.is_none() => Presence::Doubtful,
        (Ok(Some(_)), _) => Presence::Alive,
        (Ok(None), Handoff::Caller) if has_host_end(attachment) => Presence::Gone,
        (Ok(None), _) => without_host_end(attachment),
    }
}

fn without_host_end(attachment: &Attachment) -> Presence {
    match attachment.sandbox.as_ref().map(at_path) {
        Some(AtPath::Same(sandbox)) => within(attachment, &sandbox),
        Some(AtPath::Other) => Presence::Gone,
        Some(AtPath::Nothing) if proves_death(attachment) => Presence::Gone,
        Some(AtPath::Nothing) | None => Presence::Doubtful,
    }
}

enum AtPath {
    Same(Netns),
    Other,
    Nothing,
}

fn at_path(sandbox: &Sandbox) -> AtPath {
    match Netns::open(&sandbox.path) {
        Ok(netns) if netns.inode() == sandbox.inode => AtPath::Same(netns),
        Ok(_) => AtPath::Other,
        Err(_) => AtPath::Nothing,
    }
}

/// Of a container that still has its namespace, but whose host's end is gone, if it had one.
fn within(attachment: &Attachment, sandbox: &Netns) -> Presence {
    if !has_host_end(attachment) {
        return Presence::Alive;
    }
    let device = At::Name(plan::device(attachment));
    match sandbox.enter(|| Socket::route()?.link(device)) {
        Ok(Ok(None)) => Presence::Gone,
        Ok(Ok(Some(_)) | Err(_)) | Err(_) => Presence::Doubtful,
    }
}

fn host_link(attachment: &Attachment) -> Result<Option<Link>> {
    let name = Identity::of(&attachment.id).host_link()?;
    Socket::route()?.link(At::Name(&name))
}

fn has_host_end(attachment: &Attachment) -> bool {
    let link = attachment.wiring.link.as_ref();
    link.is_some_and(|link| link.kind != LinkKind::Loopback)
}

/// Nothing at the namespace's path proves little, because it may be mounted where we cannot see
/// it. With it the host's end is gone too, which the kernel removes together with the namespace;
/// and where nothing is held, nothing can be taken from a living one.
fn proves_death(attachment: &Attachment) -> bool {
    let holds_something = !attachment.leases.is_empty() || attachment.wiring.publish.is_some();
    has_host_end(attachment) || !holds_something
}
