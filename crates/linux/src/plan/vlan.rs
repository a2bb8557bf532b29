//! A device for one VLAN of its parent.

use model::{Result, Vlan};
use netlink::DeviceKind;

use super::single::{Bearing, Birth};

pub(super) fn birth(bearing: &Bearing<'_>, vlan: &Vlan) -> Result<Birth> {
    let parent = &vlan.parent;
    let (there, mut host) = bearing.above(parent)?;
    let at = super::parent::at(parent, there);
    let born = bearing.born(DeviceKind::Vlan(vlan.id), Some(at), bearing.link.mac);
    host.extend(born.host);
    Ok(Birth { host, mac: bearing.link.mac.or(there.mac), ..born })
}
