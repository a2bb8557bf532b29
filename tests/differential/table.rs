//! The configurations.

pub(crate) mod bridge;
pub(crate) mod chained;
pub(crate) mod each;
pub(crate) mod ipam;
pub(crate) mod loopback;
pub(crate) mod protocol;
pub(crate) mod ptp;

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
        protocol::versions,
        protocol::bad_input,
        each::versions,
        each::deletions,
        each::checks,
        each::gc_and_status,
    ];
    tables.iter().flat_map(|rows| rows()).collect()
}
