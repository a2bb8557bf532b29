//! The common part of plugins whose links share the segment of a parent device.

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

/// The MTU of the parent, for telling; sysfs(5) knows those of the host.
fn greatest(root: &Object<'_>) -> Result<Option<u32>> {
    let parent = parent(root)?;
    let name = parent.name.filter(|_| parent.place == Place::Host);
    let path = name.map(|name| format!("/sys/class/net/{name}/mtu"));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    Ok(text.and_then(|text| text.trim().parse().ok()))
}

/// The MTU in the field `mtu`; the parent's where it is 0. Whether the parent lets one be that
/// large is known to the kernel.
pub(super) fn mtu(root: &Object<'_>) -> Result<Option<Mtu>> {
    match root.integer("mtu")? {
        Some(bytes) if bytes < 0 => {
            let most = greatest(root)?.map_or_else(String::new, |mtu| format!("({mtu})"));
            Err(Error::invalid(format!("invalid MTU {bytes}, must be [0, master MTU{most}]")))
        }
        _ => link::mtu(root),
    }
}
