//! Captured packets: what is in them, which are meant, and how they stand in a file.

pub mod filter;
pub mod packet;
pub mod pcapng;

pub use filter::Filter;
pub use packet::{Form, Packet};
