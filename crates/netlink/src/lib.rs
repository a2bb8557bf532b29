//! The kernel's wire: the only crate that talks to it, and the only one with unsafe code.

pub mod address;
pub mod conntrack;
mod decode;
pub mod link;
pub mod monitor;
pub mod neighbour;
mod netns;
pub mod nft;
mod outcome;
pub mod packet;
pub mod probe;
pub mod process;
mod reap;
pub mod route;
mod socket;
mod sys;
pub mod sysctl;
pub mod wire;

pub use address::{Address, NewAddress};
pub use decode::decode_anything;
pub use link::{At, Change, Link, Links, NewBridge, Peer, Veth};
pub use monitor::{Event, Monitor, Stop, Wake};
pub use neighbour::Neighbour;
pub use netns::Netns;
pub use outcome::{Failure, Outcome};
pub use reap::{Reaper, reap};
pub use route::{Existing, Route, Routes};
pub use rustix::io::Errno;
pub use socket::{PATIENCE, Socket};
