//! What the plugins have in common whose links share the segment of a parent device.

use model::{Error, IfName, Mtu, Parent, Place, Result};

use super::link;
use crate::wire::Object;

/// The device in the field `master`; that of the default route where none is named. It is in the
/// container with `linkInContainer`.
pub(super) fn parent(root: &Object<'_>) -> Result<Parent> {
    Ok(Parent { name: root.parse::<IfName>("master")?, place: place(root)?, vlan: None })
}

/// In which namespace the parent is.
fn place(root: &Object<'_>) -> Result<Place> {
    Ok(match root.flag("linkInContainer")? {
        true => Place::Sandbox,
        false => Place::Host,
    })
}

/// The MTU in the field `mtu`; the parent's where it is 0. Whether the parent lets one be that
/// large is known to the kernel.
pub(super) fn mtu(root: &Object<'_>) -> Result<Option<Mtu>> {
    match root.integer("mtu")? {
        Some(bytes) if bytes < 0 => {
            Err(Error::invalid(format!("invalid MTU {bytes}, must be [0, master MTU]")))
        }
        _ => link::mtu(root),
    }
}
