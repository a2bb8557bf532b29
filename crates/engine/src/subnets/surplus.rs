//! References to a shared subnet without a holder: their release was lost, or their request was repeated.
//! Docker repeats no release that a dying daemon did not answer.

use std::time::Duration;

use model::{Result, Runtime, Space, Subnet, SubnetId, Timestamp};

use crate::port::{Key, Prefix, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::{Live, Subnets};

/// How long a runtime may take from a subnet's request to the network that it is for.
const YOUNG: Duration = Duration::from_secs(60);

impl Subnets<'_> {
    /// Whether the subnet's last request is so young that its network may still come.
    pub(super) fn is_young(&self, subnet: &Subnet) -> bool {
        subnet.since.0.saturating_add(YOUNG.as_secs()) > self.host.now().0
    }

    /// Lowers how often subnets are counted to the number of networks that the runtime lists of each
    /// ([`Live::shares`]) or that the store knows, where the last request was longer than `grace` ago. One that
    /// changes at this moment stays as it is.
    pub fn lower_references(&self, runtime: Runtime, live: &Live, grace: Duration) -> Result<()> {
        if self.records.has_damaged(&Prefix::Aliases)? {
            return Ok(());
        }
        let before = Timestamp(self.host.now().0.saturating_sub(grace.as_secs()));
        for read in self.records.subnets_in(&Prefix::Subnets)? {
            let Subnet { id, since, references, .. } = &read.value;
            let is_judged =
                read.value.runtime == runtime && *since < before && id.space != Space::Global;
            let Some(listed) = live.shares.get(id).filter(|_| is_judged && *references > 1) else {
                continue;
            };
            let made = self.records.aliases_of(&read.value.network)?.len();
            let held = u32::try_from((*listed).max(made).max(1)).unwrap_or(u32::MAX);
            if held < *references {
                self.count_anew(id.clone(), &read, held)?;
            }
        }
        Ok(())
    }

    fn count_anew(&self, id: SubnetId, read: &Read<Subnet>, references: u32) -> Result<()> {
        let key = Key::Subnet(id);
        let txn = Txn::new().require(key.clone(), unchanged(Some(read)));
        let counted = Subnet { references, ..read.value.clone() };
        self.store.commit(&txn.put(key, Record::Subnet(counted))).map(drop)
    }
}
