//! Addresses that a DHCP server allocates.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The request to a DHCP server, sent by the daemon that renews leases (RFC 2131).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dhcp {
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// Options that must be asked for (RFC 2132), besides the usual ones.
    pub request: Vec<u8>,
    /// Usual options that are not asked for.
    pub skip: Vec<u8>,
    /// Options that are sent.
    pub provide: Vec<DhcpOption>,
    /// The metric of the server's routes. Without one, the kernel's default.
    pub priority: Option<u32>,
}

impl Dhcp {
    /// What a daemon says when it stops asking: the reference's words, which programs compare.
    pub const GAVE_UP: &str = "no more tries";
}

/// An option that is sent to the server (RFC 2132).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpOption {
    /// Its number.
    pub code: u8,
    /// Its value, at most 255 bytes.
    pub value: Vec<u8>,
}
