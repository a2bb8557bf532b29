//! A device that shares its parent's hardware address.

use model::{Ipvlan, Result};
use netlink::DeviceKind;

use super::single::{Bearing, Birth};

pub(super) fn birth(bearing: &Bearing<'_>, ipvlan: &Ipvlan) -> Result<Birth> {
    let parent = &ipvlan.parent;
    let (there, mut host) = bearing.above(parent)?;
    let at = super::parent::at(parent, there);
    let born = bearing.born(DeviceKind::Ipvlan(ipvlan.mode), Some(at), None);
    host.extend(born.host);
    Ok(Birth { host, mac: there.mac, ..born })
}
