//! Keeps the addresses of an endpoint for as long as its user keeps that.

use model::{Attachment, OwnerName, Phase, Reservation, Result};

use crate::Addresses;
use crate::port::{Expect, Key, Record, Txn};
use crate::records::book::unchanged;
use crate::records::reservation::ENDPOINT;

impl Addresses<'_> {
    /// Adds to the transaction that its user keeps it, once it is reserved.
    pub(crate) fn keep_if_reserved(&self, attachment: &mut Attachment, txn: Txn) -> Txn {
        match attachment.phase {
            Phase::Reserved => self.keep_endpoint(attachment, txn),
            Phase::Attaching { .. } | Phase::Attached(_) | Phase::Detaching { .. } => txn,
        }
    }

    fn keep_endpoint(&self, attachment: &mut Attachment, txn: Txn) -> Txn {
        let txn = reservations(attachment).fold(txn, |txn, (key, kept)| {
            txn.require(key.clone(), Expect::Absent).put(key, Record::Reservation(kept))
        });
        self.keep_again(attachment, txn)
    }

    /// The same of an attachment whose name may get the addresses again on a sticky network: from now on they are
    /// the endpoint's, with or without a container of that name.
    pub(crate) fn keep_joined(&self, attachment: &mut Attachment) -> Result<Txn> {
        let (mut txn, mut learned) = (Txn::new(), Vec::new());
        for (key, kept) in reservations(attachment) {
            let read = self.records.reservation_of(&kept.space, kept.address)?.filter(|read| {
                read.value.learned
                    && read.value.owner.is_some()
                    && read.value.owner == attachment.owner
            });
            txn = txn.require(key.clone(), unchanged(read.as_ref()));
            txn = txn.put(key, Record::Reservation(kept));
            learned.extend(read);
        }
        let txn = self.forget_for_owners(&learned, txn)?;
        Ok(self.keep_again(attachment, txn))
    }

    /// The same where its addresses are kept already.
    pub(crate) fn keep_again(&self, attachment: &mut Attachment, txn: Txn) -> Txn {
        attachment.kept = true;
        let mut kept = Box::new(attachment.clone());
        kept.phase = Phase::Reserved;
        kept.sandbox = None;
        kept.gateway_role = None;
        kept.undecide();
        txn.put(Key::Endpoint(kept.id.clone()), Record::Attachment(kept))
    }

    /// Adds to the transaction that an attachment which goes is kept no more.
    pub(crate) fn drop_kept(&self, attachment: &Attachment, txn: Txn) -> Txn {
        if !attachment.kept {
            return txn;
        }
        let keys = reservations(attachment).map(|(key, _)| key);
        keys.fold(txn.delete(Key::Endpoint(attachment.id.clone())), Txn::delete)
    }
}

/// The reservations of those of its addresses that the store allocates.
fn reservations(attachment: &Attachment) -> impl Iterator<Item = (Key, Reservation)> {
    let id = &attachment.id;
    let owner = format!("{ENDPOINT}/{}", id.container).parse().or_else(|_| ENDPOINT.parse());
    let owner: Option<OwnerName> = owner.ok();
    let pooled = attachment.leases.iter().filter(|lease| lease.pool.is_some());
    pooled.map(move |lease| {
        let reservation = Reservation {
            owner: owner.clone(),
            network: Some(id.network.clone()),
            ..Reservation::new(lease.space.clone(), lease.address.addr())
        };
        let key = Key::Reservation(lease.space.clone(), lease.address.addr());
        (key, reservation)
    })
}
