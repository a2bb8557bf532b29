//! Addresses of a container that is detached to be attached again in a moment, and asks for them then
//! (`podman network reload`). Nothing else says whether it comes back, so they are kept for its name for that
//! moment only.

use model::{
    Attachment, AttachmentId, Error, Ipam, Layer, OwnerName, Phase, Reservation, Result, Timestamp,
};

use crate::Records;
use crate::port::{Expect, Key, Record, Txn};
use crate::records::reservation::reserved_for;

/// How long an address is kept, in seconds.
const MOMENT: u64 = 10;

impl Records<'_> {
    /// Keeps the addresses of an attached container for its name, for ten seconds at most. To be called before
    /// [`Links::detach`](crate::Links::detach), so that no container finds them free in between. The next
    /// attachment of that name that asks for them ends it. Addresses that are reserved anyway stay so.
    ///
    /// # Errors
    /// Where the book cannot be read or written.
    pub fn keep_for_return(&self, id: &AttachmentId) -> Result<()> {
        let Some(read) = self.record_of(id, Layer::Link)? else { return Ok(()) };
        let attachment = &read.value;
        let (Some(owner), Phase::Attached(_), Ipam::Book { .. }) =
            (&attachment.owner, &attachment.phase, &attachment.ipam)
        else {
            return Ok(());
        };
        let mut txn = Txn::new();
        for kept in self.returning(attachment, owner) {
            if self.reservation_of(&kept.space, kept.address)?.is_none() {
                let key = Key::Reservation(kept.space.clone(), kept.address);
                txn = txn.require(key.clone(), Expect::Absent).put(key, Record::Reservation(kept));
            }
        }
        // Who reserved one of them meanwhile has it.
        self.store.commit(&txn).map(drop)
    }

    fn returning(
        &self,
        attachment: &Attachment,
        owner: &OwnerName,
    ) -> impl Iterator<Item = Reservation> {
        let until = Some(Timestamp(self.host.now().0 + MOMENT));
        let pooled = attachment.leases.iter().filter(|lease| lease.pool.is_some());
        pooled.map(move |lease| Reservation {
            owner: Some(owner.clone()),
            network: Some(attachment.id.network.clone()),
            learned: true,
            until,
            ..Reservation::new(lease.space.clone(), lease.address.addr())
        })
    }

    /// Whether a reservation holds no more. A clock that was set back makes none hold longer.
    pub(super) fn is_over(&self, reservation: &Reservation) -> bool {
        let left = |until: Timestamp| until.0.checked_sub(self.host.now().0);
        reservation.until.is_some_and(|until| !matches!(left(until), Some(1..=MOMENT)))
    }

    /// The error where an address is reserved for another one.
    pub(crate) fn reserved_for(&self, reservation: &Reservation) -> Error {
        self.comes_back(reservation).unwrap_or_else(|| reserved_for(reservation))
    }

    /// The error where an address is kept for another one that comes back.
    pub(crate) fn comes_back(&self, reservation: &Reservation) -> Option<Error> {
        let until = reservation.until?;
        let owner = reservation.owner.as_ref().map_or("another container", OwnerName::as_str);
        Some(Error::conflict(format!(
            "address {} is kept for {owner}, whose network its runtime is making again, for {} more seconds; \
             ask for it again then",
            reservation.address,
            until.0.saturating_sub(self.host.now().0)
        )))
    }
}
