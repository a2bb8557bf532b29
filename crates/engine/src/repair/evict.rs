//! Takes an address away from its holder.

use model::{Error, Holder, Result, Tenant};

use crate::Repair;
use crate::links::detach::Meaning;
use crate::port::{Key, Outcome, Prefix, Txn};
use crate::records::book::unchanged;

impl Repair<'_> {
    /// Takes an address away from its holder by detaching that, every layer of it.
    pub fn evict(&self, holder: &Holder) -> Result<()> {
        if let Some(id) = holder.attachment() {
            let lock = self.host.lock_attachment(id);
            let mut steered = None;
            for read in self.records.attachments_in(&Prefix::AttachmentsOf(id.network.clone()))? {
                if read.value.id == *id {
                    let gateway_role = read.value.gateway_role.as_ref();
                    steered = steered.or(gateway_role.map(|_| read.value.sandbox_name().clone()));
                    self.links.detach_record(read, Meaning::Classified)?;
                }
            }
            drop(lock);
            if let Some(sandbox) = steered {
                self.networks.update_gateway(&sandbox)?;
                // If this fails, the reconciler does it.
                let _ = self.networks.name_sandboxes();
            }
        }
        let address = holder.lease.address.addr();
        let key = Key::Lease(holder.lease.space.clone(), address);
        match self.records.holder_of(&holder.lease.space, address)? {
            Some(read) if is_same(&read.value.tenant, &holder.tenant) => {
                let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).delete(key);
                match self.store.commit(&txn)? {
                    Outcome::Done(_) => Ok(()),
                    Outcome::Lost(_) => {
                        Err(Error::try_again(format!("the lease of {address} changes right now")))
                    }
                }
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A requested address outlives the attachment that uses it.
fn is_same(now: &Tenant, classified: &Tenant) -> bool {
    match (now, classified) {
        (Tenant::Request { subnet: now, user: None }, Tenant::Request { subnet, .. }) => {
            now == subnet
        }
        (now, classified) => now == classified,
    }
}
