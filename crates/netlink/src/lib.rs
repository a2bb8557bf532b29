//! The kernel's wire: the only crate that talks to it, and the only one with unsafe code.

mod outcome;
mod socket;
mod sys;
pub mod wire;

pub use outcome::{Failure, Outcome};
pub use rustix::io::Errno;
pub use socket::{PATIENCE, Socket};
