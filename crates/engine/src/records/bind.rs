//! Addresses that were requested by themselves, and the attachments that use them. An attachment
//! neither gets nor frees them: it is written into the lease that it uses it.

use model::{Attachment, AttachmentId, Holder, Lease, Result, Subnet, SubnetId, Tenant, host_net};

use crate::Records;
use crate::port::{Key, Record, Txn};
use crate::records::book::unchanged;

impl Records<'_> {
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
            txn =
                txn.require(key.clone(), unchanged(read.as_ref())).put(key, Record::Lease(holder));
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
            txn = txn.require(key.clone(), unchanged(Some(&read))).put(key, Record::Lease(holder));
        }
        Ok(txn)
    }

    fn bound(&self, holder: &Holder, attachment: &Attachment) -> Result<Holder> {
        let Tenant::Request { subnet, user } = &holder.tenant else {
            return Err(self.held(holder));
        };
        if let Some(user) = user
            && *user != attachment.id
            && self.is_recorded(user)?
        {
            return Err(self.held(holder));
        }
        let user = Some(attachment.id.clone());
        let tenant = Tenant::Request { subnet: subnet.clone(), user };
        Ok(Holder { tenant, ..holder.clone() })
    }

    fn requested(&self, lease: &Lease, attachment: &Attachment) -> Result<Holder> {
        let subnet = self.origin(lease, attachment)?;
        Ok(Holder {
            lease: lease.clone(),
            tenant: Tenant::Request { subnet, user: Some(attachment.id.clone()) },
            runtime: attachment.runtime,
            since: attachment.since,
            owner: attachment.owner.clone(),
            quarantined: None,
        })
    }

    /// The subnet that a lease was requested from: of those that contain it the network's own, of
    /// its prefix, whose part has it. It may have come from a sibling of the one that was asked.
    fn origin(&self, lease: &Lease, attachment: &Attachment) -> Result<SubnetId> {
        let whole = SubnetId { space: lease.space.clone(), net: lease.address.trunc(), part: None };
        let address = lease.address.addr();
        let over = self.subnets_over(&whole.space, &host_net(address))?.into_iter();
        let containing = over.filter(|of| of.id.net.contains(&address));
        let origin = containing.max_by_key(|Subnet { id, network, .. }| {
            let is_in_part = id.part.is_none_or(|part| part.contains(&address));
            (*network == attachment.id.network, id.net == whole.net, is_in_part)
        });
        Ok(origin.map_or(whole, |origin| origin.id))
    }

    fn is_recorded(&self, id: &AttachmentId) -> Result<bool> {
        Ok(self.record_of(id, model::Layer::Link)?.is_some())
    }
}
