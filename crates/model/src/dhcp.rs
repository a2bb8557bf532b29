//! Addresses that a DHCP server hands out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is asked of a DHCP server, through the daemon that keeps leases alive (RFC 2131).
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
    /// The metric of the routes that the server tells; the kernel's default where none is given.
    pub priority: Option<u32>,
}

/// An option that is sent to the server (RFC 2132).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpOption {
    /// Its number.
    pub code: u8,
    /// What it says, at most 255 bytes.
    pub value: Vec<u8>,
}
