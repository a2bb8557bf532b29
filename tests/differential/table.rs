//! The configurations.

pub(crate) mod bandwidth;
pub(crate) mod bridge;
pub(crate) mod chained;
pub(crate) mod delegated;
pub(crate) mod device;
pub(crate) mod dhcp;
pub(crate) mod dummy;
pub(crate) mod each;
pub(crate) mod ipam;
pub(crate) mod ipvlan;
pub(crate) mod loopback;
pub(crate) mod macvlan;
pub(crate) mod ports;
pub(crate) mod protocol;
pub(crate) mod ptp;
pub(crate) mod routing;
pub(crate) mod tap;
pub(crate) mod texts;
pub(crate) mod vlan;

use tests::Feature;

use crate::row::Row;

/// Every row.
pub(crate) fn all() -> Vec<Row> {
    let tables = [
        loopback::rows,
        bridge::rows,
        bridge::masquerade,
        ptp::rows,
        ipam::host_local,
        ipam::fixed,
        chained::portmap,
        chained::firewall,
        chained::tuning,
        macvlan::rows,
        ipvlan::rows,
        vlan::rows,
        vlan::refusals,
        device::rows,
        dummy::rows,
        dummy::refusals,
        tap::rows,
        ports::rows,
        ports::vlans,
        bandwidth::rows,
        routing::sbr,
        routing::vrf,
        routing::vrf_refusals,
        dhcp::rows,
        delegated::rows,
        protocol::versions,
        protocol::bad_input,
        each::versions,
        each::deletions,
        each::checks,
        each::gc_and_status,
        texts::host_local,
        texts::fixed_addresses,
        texts::pairs,
        texts::parents,
        texts::chained,
        texts::envelope,
        texts::lacking,
        texts::unreadable,
        texts::missing_interface,
    ];
    let lacking = Feature::ALL.into_iter().flat_map(each::lacking);
    let delegated = Feature::ALL.into_iter().flat_map(delegated::lacking);
    tables.iter().flat_map(|rows| rows()).chain(lacking).chain(delegated).collect()
}
