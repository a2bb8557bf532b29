//! How a host gets its certificates: what it asks a host with the authority's key, and by which TLS the two know
//! each other.

mod tls;
pub mod wire;

pub use tls::{PeerQuestion, Pinned, ask_pinned, ask_with, is_other, server};
