//! Spoke's tables of nftables.

use std::fmt;

use model::{IfName, Result};

use super::Policy;
use crate::{filter, forwarding};

/// Our tables of nftables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnTable {
    /// `bridge spoke`.
    Frames,
    /// `inet spoke_transit`.
    Transit,
    /// `inet spoke`.
    Packets,
    /// `bridge spoke_quota` and `inet spoke_quota`.
    Quotas,
}

impl OwnTable {
    /// In the order in which they are repaired.
    pub const ALL: [Self; 4] = [Self::Frames, Self::Transit, Self::Packets, Self::Quotas];
}

impl fmt::Display for OwnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnTable::Frames => filter::spoof::TABLE.fmt(f),
            OwnTable::Transit => filter::transit::TABLE.fmt(f),
            OwnTable::Packets => filter::TABLE.fmt(f),
            OwnTable::Quotas => {
                let [bridged, routed] = filter::quota::TABLES;
                write!(f, "{bridged} and {routed}")
            }
        }
    }
}

impl Policy {
    /// Makes the table's chains what they should be. Whether they were not.
    pub(crate) fn mend(&self, table: OwnTable) -> Result<bool> {
        match table {
            OwnTable::Frames => self.if_there(filter::spoof::mend),
            OwnTable::Transit if !forwarding::is_turned_on() => Ok(false),
            OwnTable::Transit => {
                self.lock.with(|| self.if_there(forwarding::settle))?;
                self.if_there(forwarding::mend)
            }
            OwnTable::Packets => {
                let counted = self.if_there(filter::counted::mend);
                Ok(self.if_there(filter::mend)? | counted?)
            }
            OwnTable::Quotas => self.if_there(filter::quota::mend),
        }
    }

    /// Makes the guard of a host that forwards because of Spoke again, where it is gone: the container that leaves may be
    /// the last one, after which no process would.
    pub(super) fn guard_again(&self) -> Result<()> {
        if !forwarding::is_turned_on() {
            return Ok(());
        }
        let is_gone =
            self.if_there(|socket| filter::transit::is_there(socket).map(|there| !there))?;
        if is_gone { self.mend(OwnTable::Transit).map(drop) } else { Ok(()) }
    }

    /// As [`Policy::forget_bridge`] does with the last bridge, where there was none.
    pub(crate) fn forget_unowned(&self) -> Result<()> {
        self.if_there(|socket| filter::disallow_forwarding(socket, None))?;
        self.forget_unowned_but(None)
    }

    /// Removes what has no owner, where there is no bridge of Spoke's but the one that is `leaving`.
    pub(super) fn forget_unowned_but(&self, leaving: Option<&IfName>) -> Result<()> {
        let uncounted = self.if_there(|socket| {
            filter::spoof::unload_unowned(socket)?;
            let uncounted = filter::counted::unload_unused(socket);
            filter::unload_unowned(socket).map(|()| uncounted.err())
        })?;
        if forwarding::is_turned_on() {
            self.lock.with(|| self.if_there(|socket| forwarding::turn_off(leaving, socket)))?;
        }
        uncounted.map_or(Ok(()), Err)
    }
}
