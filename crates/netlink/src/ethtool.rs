//! Settings of a link's driver (`linux/ethtool.h`): the commands that every kernel has.

use model::{IfName, Result};

use crate::Socket;
use crate::outcome::refused;
use crate::sys;

/// `ETHTOOL_GTXCSUM`, `ETHTOOL_STXCSUM`.
const GET_TRANSMIT_CHECKSUMS: u32 = 0x16;
const SET_TRANSMIT_CHECKSUMS: u32 = 0x17;

impl Socket {
    /// Whether packets are passed to the link's driver without their checksums.
    ///
    /// # Errors
    /// A refusal; ENODEV if there is no such link.
    pub fn leaves_checksums(&self, name: &IfName) -> Result<bool> {
        sys::ethtool(self, name, GET_TRANSMIT_CHECKSUMS, 0)
            .map(|value| value != 0)
            .map_err(|errno| refused(format!("asking who makes checksums for {name}"), errno))
    }

    /// Sets whether the kernel passes packets to the link's driver without their checksums: a
    /// program that reads raw frames finds none then. The setting stays when the link moves to
    /// another namespace.
    ///
    /// # Errors
    /// As [`Socket::leaves_checksums`]; [`model::Kind::Denied`].
    pub fn leave_checksums(&self, name: &IfName, leave: bool) -> Result<()> {
        sys::ethtool(self, name, SET_TRANSMIT_CHECKSUMS, u32::from(leave))
            .map(drop)
            .map_err(|errno| refused(format!("deciding who makes checksums for {name}"), errno))
    }
}
