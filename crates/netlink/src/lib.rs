//! The kernel's wire: the only crate that talks to it, and the only one with unsafe code.

pub mod link;
mod netns;
pub mod nft;
mod outcome;
pub mod probe;
pub mod process;
mod socket;
mod sys;
pub mod sysctl;
pub mod wire;

pub use link::{At, Change, Link, Links, NewBridge, Peer, Veth};
pub use netns::Netns;
pub use outcome::{Failure, Outcome};
pub use rustix::io::Errno;
pub use socket::{PATIENCE, Socket};
