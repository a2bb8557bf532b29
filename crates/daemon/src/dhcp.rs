//! Leases of DHCP servers: what answers the remote calls, in `spoke serve` and as the program `dhcp daemon`.

mod leases;
mod serve;
mod standalone;

pub(crate) use serve::inherited;
pub use standalone::daemon;
