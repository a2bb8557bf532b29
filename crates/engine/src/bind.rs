//! Addresses that were requested by themselves, and the attachments that use them. An attachment
//! neither gets nor frees them: it is written into the lease that it uses it.

use model::{Attachment, AttachmentId, Holder, Lease, Result, SubnetId, Tenant};

use crate::Engine;
use crate::attach::held;
use crate::book::unchanged;
use crate::port::{Key, Prefix, Record, Txn};

impl Engine<'_> {
    /// Adds to the transaction that the attachment uses its leases. One that is not held is taken
    /// for it, as if it had been requested: its runtime believes that it was.
    pub(crate) fn bind(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        for lease in &attachment.leases {
            let address = lease.address.addr();
            let read = self.holder_of(&lease.space, address)?;
            let holder = match &read {
                Some(read) => self.bound(&read.value, attachment)?,
                None => self.requested(lease, attachment)?,
            };
            let key = Key::Lease(lease.space.clone(), address);
            txn = txn.expect(key.clone(), unchanged(read.as_ref())).put(key, Record::Lease(holder));
        }
        Ok(txn)
    }

    /// Adds to the transaction that the attachment does not use its leases any more.
    pub(crate) fn unbind(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        for lease in &attachment.leases {
            let address = lease.address.addr();
            let Some(read) = self.holder_of(&lease.space, address)? else { continue };
            let Tenant::Request { subnet, user: Some(user) } = &read.value.tenant else { continue };
            if *user != attachment.id {
                continue;
            }
            let tenant = Tenant::Request { subnet: subnet.clone(), user: None };
            let holder = Holder { tenant, quarantined: None, ..read.value.clone() };
            let key = Key::Lease(lease.space.clone(), address);
            txn = txn.expect(key.clone(), unchanged(Some(&read))).put(key, Record::Lease(holder));
        }
        Ok(txn)
    }

    fn bound(&self, holder: &Holder, attachment: &Attachment) -> Result<Holder> {
        let Tenant::Request { subnet, user } = &holder.tenant else { return Err(held(holder)) };
        if let Some(user) = user
            && *user != attachment.id
            && self.is_recorded(user)?
        {
            return Err(held(holder));
        }
        let user = Some(attachment.id.clone());
        let tenant = Tenant::Request { subnet: subnet.clone(), user };
        Ok(Holder { tenant, ..holder.clone() })
    }

    fn requested(&self, lease: &Lease, attachment: &Attachment) -> Result<Holder> {
        let subnet = self.origin(lease)?;
        Ok(Holder {
            lease: lease.clone(),
            tenant: Tenant::Request { subnet, user: Some(attachment.id.clone()) },
            runtime: attachment.runtime,
            since: attachment.since,
            owner: attachment.owner.clone(),
            quarantined: None,
        })
    }

    /// The subnet that a lease was requested from: of those of its prefix the one whose part has it.
    fn origin(&self, lease: &Lease) -> Result<SubnetId> {
        let whole = SubnetId { space: lease.space.clone(), net: lease.address.trunc(), part: None };
        if self.subnet_of(&whole)?.is_some() {
            return Ok(whole);
        }
        let handed_out = self.subnets_in(&Prefix::Subnets)?.into_iter().map(|read| read.value.id);
        let address = lease.address.addr();
        let same = handed_out.filter(|id| id.space == whole.space && id.net == whole.net);
        let has = |id: &SubnetId| id.part.is_some_and(|part| part.contains(&address));
        Ok(same.max_by_key(has).unwrap_or(whole))
    }

    fn is_recorded(&self, id: &AttachmentId) -> Result<bool> {
        Ok(self.record_of(id, model::Layer::Link)?.is_some())
    }
}
