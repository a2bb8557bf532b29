//! The common part of plugins whose links share the segment of a parent device.

use model::{Error, IfName, InterfaceNamespace, Mtu, Parent, Result, Sandbox};
use netlink::{At, Netns, Socket};

use super::link;
use crate::wire::Object;

/// The device in the field `master`; that of the default route where none is named. It is in the
/// container with `linkInContainer`.
pub(super) fn parent(root: &Object<'_>) -> Result<Parent> {
    Ok(Parent { name: root.parse::<IfName>("master")?, place: place(root)?, vlan: None })
}

/// In which namespace the parent is.
fn place(root: &Object<'_>) -> Result<InterfaceNamespace> {
    Ok(match root.flag("linkInContainer")? {
        true => InterfaceNamespace::Sandbox,
        false => InterfaceNamespace::Host,
    })
}

/// The MTU of the parent, for telling.
fn greatest(root: &Object<'_>, sandbox: Option<&Sandbox>) -> Option<u32> {
    let parent = parent(root).ok()?;
    let name = parent.name?;
    let read = || Socket::route().and_then(|mut socket| socket.link(At::Name(&name)));
    let link = match parent.place {
        InterfaceNamespace::Host => read(),
        InterfaceNamespace::Sandbox => Netns::open(&sandbox?.path).ok()?.enter(read).ok()?,
    };
    link.ok().flatten().map(|link| link.mtu)
}

/// The MTU in the field `mtu`; the parent's where it is 0. Whether the parent lets one be that
/// large is known to the kernel.
pub(super) fn mtu(root: &Object<'_>, sandbox: Option<&Sandbox>) -> Result<Option<Mtu>> {
    match root.integer("mtu")? {
        Some(bytes) if bytes < 0 => {
            let most = greatest(root, sandbox).map_or_else(String::new, |mtu| format!("({mtu})"));
            Err(Error::invalid(format!("invalid MTU {bytes}, must be [0, master MTU{most}]")))
        }
        _ => link::mtu(root),
    }
}
