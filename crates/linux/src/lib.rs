//! The kernel dataplane: what to do (pure), and doing it.

mod apply;
mod concern;
mod device;
mod driver;
mod facts;
pub mod filter;
mod forwarding;
mod home;
pub mod identity;
pub mod iptables;
mod lead;
mod link;
mod listener;
mod moved;
pub mod names;
mod parts;
pub mod plan;
mod policy;
mod presence;
mod probe;
mod rate;
mod ready;
mod reference;
mod shared;
mod source_routing;
mod strays;
mod subnets;
mod tap;
mod tuning;
mod verify;
mod vlan_gateway;
mod vrf;

pub use concern::Concern;
pub use driver::{Life, Linux};
pub use listener::{Listener, Taken, taken};
pub use subnets::occupied;
