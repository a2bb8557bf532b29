//! Spoke's tables of nftables.

use std::fmt;

use crate::filter;

/// Our tables of nftables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnTable {
    /// `bridge spoke`.
    Frames,
    /// `inet spoke_transit`.
    Transit,
    /// `inet spoke`.
    Packets,
}

impl OwnTable {
    /// In the order in which they are repaired.
    pub const ALL: [Self; 3] = [Self::Frames, Self::Transit, Self::Packets];
}

impl fmt::Display for OwnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnTable::Frames => filter::spoof::TABLE.fmt(f),
            OwnTable::Transit => filter::transit::TABLE.fmt(f),
            OwnTable::Packets => filter::TABLE.fmt(f),
        }
    }
}
