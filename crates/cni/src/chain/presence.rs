//! Whether a container still has the interface that plugins of others made.

use engine::port::Presence;
use model::{Attachment, Handoff, IfName, Mac, Phase};
use netlink::{At, Links, Netns, Socket};

use crate::wire::Success;

/// The last interface that the plugins report in the host's namespace is the other end, where there
/// is one: the kernel removes it together with the container's.
pub(super) fn of(
    attachment: &Attachment,
    result: &Success,
    mac: Option<Mac>,
    waiting: Option<&IfName>,
) -> Presence {
    if attachment.phase == Phase::Reserved {
        return Presence::Doubtful;
    }
    let Some(sandbox) = &attachment.sandbox else { return Presence::Doubtful };
    let at_path = Netns::open(&sandbox.path).ok();
    match (attachment.handoff, at_path) {
        (Handoff::Finish, Some(netns)) if netns.inode() == sandbox.inode => Presence::Alive,
        (Handoff::Finish, Some(_)) => Presence::Gone,
        (Handoff::Finish, None) => match host_end(result) {
            HostEnd::There => Presence::Alive,
            HostEnd::Gone => Presence::Gone,
            HostEnd::Unknown => Presence::Doubtful,
        },
        // Not moved yet, or moved back: in no container.
        (Handoff::Caller, _) if waiting.is_some_and(is_here) => Presence::Doubtful,
        (Handoff::Caller, Some(netns)) if has(&netns, mac) => Presence::Alive,
        (Handoff::Caller, _) => match host_end(result) {
            HostEnd::There | HostEnd::Unknown => Presence::Doubtful,
            HostEnd::Gone => Presence::Gone,
        },
    }
}

enum HostEnd {
    There,
    Gone,
    Unknown,
}

fn host_end(result: &Success) -> HostEnd {
    let reported = result.interfaces.iter().rfind(|interface| interface.sandbox.is_empty());
    let Some(name) = reported.and_then(|interface| interface.name.parse::<IfName>().ok()) else {
        return HostEnd::Unknown;
    };
    match Socket::route().and_then(|mut socket| socket.link(At::Name(&name))) {
        Ok(Some(_)) => HostEnd::There,
        Ok(None) => HostEnd::Gone,
        Err(_) => HostEnd::Unknown,
    }
}

fn is_here(name: &IfName) -> bool {
    matches!(Socket::route().and_then(|socket| socket.link_index(name)), Ok(Some(_)))
}

/// Its runtime may have given it any name.
fn has(netns: &Netns, mac: Option<Mac>) -> bool {
    let inspect = || Socket::route()?.links(Links { kind: None, master: None });
    let links = netns.enter(inspect).and_then(|links| links).unwrap_or_default();
    mac.is_some() && links.iter().any(|link| link.mac == mac)
}
