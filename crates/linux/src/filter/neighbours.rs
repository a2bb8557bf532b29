//! The limit on the neighbours that a container can make this host remember or look for. The kernel keeps
//! them in one table for each family, which all interfaces and network namespaces share, and takes no more
//! than 1,024 (`gc_thresh3`): with a full one no process of this host reaches a new address of any link. What
//! is younger than five seconds is not replaced.

use netlink::nft::Expression;

use super::rules::R;

/// So many addresses of others one port may come with at once, and so many a second.
const BURST: u32 = 60;
const PER_SECOND: u32 = 4;
/// The same of all ports together.
const BURST_OF_ALL: u32 = 256;
const PER_SECOND_OF_ALL: u32 = 32;
/// How long an address that a port has sent to may be sent to without being counted again, in seconds.
const SOUGHT: u32 = 10;

/// Matches where the key in the first register comes with too many.
pub(super) fn often(set: &'static str) -> Expression<'static> {
    Expression::Often { set, key: R, times: PER_SECOND, seconds: 1, burst: BURST }
}

/// Notes the key in the first register among what was sought already.
pub(super) fn noted(set: &'static str) -> Expression<'static> {
    Expression::Note { set, key: R, seconds: SOUGHT }
}

/// Matches as long as all together come with few enough.
pub(super) fn of_all() -> Expression<'static> {
    Expression::Limit { per_second: PER_SECOND_OF_ALL, burst: BURST_OF_ALL }
}
