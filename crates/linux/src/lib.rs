//! The kernel dataplane: what to do (pure), and doing it.

pub mod identity;
pub mod plan;
