//! The tables with rules about containers, and which of them the kernel has.

use std::collections::BTreeSet;

use model::{Attachment, Phase, Result};
use netlink::Socket;
use netlink::nft::{self, Table};

use super::expected::ExpectedElements;
use crate::filter::{self, fence, spoof};

/// A table with rules about containers, which is there as long as a container needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleTable {
    /// Masquerading, published ports, isolation.
    Attached,
    /// Where containers may go.
    Egress,
    /// What containers with egress rules may send, and in which names.
    Senders,
}

impl RuleTable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Attached, Self::Egress, Self::Senders];

    /// Which table it is.
    pub fn table(self) -> Table<'static> {
        match self {
            Self::Attached => filter::TABLE,
            Self::Egress => fence::TABLE,
            Self::Senders => spoof::TABLE,
        }
    }

    /// Whether an attachment has rules there, by its record.
    ///
    /// # Errors
    /// Where the record has no name of an interface, or the kernel cannot be asked which one leads to the container.
    pub fn is_needed_by(self, record: &Attachment) -> Result<bool> {
        if !matches!(record.phase, Phase::Attached(_)) {
            return Ok(false);
        }
        Ok(match self {
            Self::Attached => {
                ExpectedElements::of(record)?.is_some_and(|it| !it.elements.is_empty())
            }
            Self::Egress => record.fence().is_some(),
            Self::Senders => filter::spoof::sender(record)?.is_some(),
        })
    }

    /// Those that the kernel has.
    ///
    /// # Errors
    /// Where the packet filter cannot be read.
    pub fn present(socket: &mut Socket) -> Result<BTreeSet<Self>> {
        let mut present = BTreeSet::new();
        for family in [nft::Family::Inet, nft::Family::Bridge] {
            let names = nft::tables(socket, family)?;
            let is_there = |table: Table<'_>| {
                table.family == family && names.iter().any(|(name, _)| name == table.name)
            };
            present.extend(Self::ALL.into_iter().filter(|it| is_there(it.table())));
        }
        Ok(present)
    }
}
