//! A dummy device.

use netlink::DeviceKind;

use super::single::{Bearing, Birth};

pub(super) fn birth(bearing: &Bearing<'_>) -> Birth {
    bearing.born(DeviceKind::Dummy, None, Some(bearing.own_mac()))
}
