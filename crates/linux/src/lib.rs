//! The kernel dataplane: what to do (pure), and doing it.

mod apply;
mod concern;
mod driver;
mod facts;
pub mod filter;
pub mod identity;
pub mod iptables;
mod listener;
pub mod plan;
mod policy;
mod presence;
mod reference;
mod strays;
mod subnets;
mod tuning;
mod verify;

pub use concern::Concern;
pub use driver::{Life, Linux};
pub use subnets::occupied;
