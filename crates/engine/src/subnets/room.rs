//! Making room: learned reservations are dropped, addresses of dead holders are freed, and what a
//! released subnet leaves is removed with it.

use std::net::IpAddr;

use model::{Kind, Layer, Lease, Reservation, Result, Subnet, SubnetId, Tenant};

use crate::port::{Key, Outcome, Prefix, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::{AUXILIARY, GATEWAY};
use crate::subnets::ranges::SubnetRanges;
use crate::{Request, Subnets};

/// For so many names a network keeps addresses; what was kept longest without use goes first.
const NAMES: usize = 1024;

/// Every so many addresses of a pool the names are counted: a power of two.
const COUNTED: u8 = 64;

/// So many are dropped in one transaction: each is a durable one.
const BATCH: usize = 100;

/// This many are dropped at once, so that not every request of a full network counts them.
const FORGOTTEN: usize = 16;

impl Subnets<'_> {
    /// Frees what provably has no owner in the place. Returns whether there was anything.
    pub(super) fn make_room(&self, place: &SubnetRanges) -> Result<bool> {
        let learned = self.learned(place)?;
        let some = learned.len() / FORGOTTEN + 1;
        if self.forget_learned(place, learned, some)? > 0 {
            return Ok(true);
        }
        let mut is_freed = false;
        for read in
            self.records.attachments_in(&Prefix::AttachmentsOf(place.subnet.network.clone()))?
        {
            is_freed |= self.links.free_if_gone(&read.value.id)?;
        }
        Ok(is_freed)
    }

    /// Bounds the names that a network keeps addresses for, whenever `address` says that it is time.
    pub(super) fn forget_oldest(&self, place: &SubnetRanges, address: IpAddr) -> Result<()> {
        if !is_time_to_count(address) {
            return Ok(());
        }
        let learned = self.learned(place)?;
        let too_many = learned.len().saturating_sub(NAMES);
        self.forget_learned(place, learned, too_many).map(|_| ())
    }

    /// The same for an attachment that was given these addresses.
    pub(crate) fn bound_names(&self, request: &Request, leases: &[Lease]) {
        let is_time = leases.iter().any(|lease| is_time_to_count(lease.address.addr()));
        if request.sticky_owner().is_some() && is_time {
            // What this cannot drop stays until such an address is given again.
            let _ = self.forget_names(request, |all| all.saturating_sub(NAMES));
        }
    }

    /// Drops some of the addresses that the request's network keeps for names without a container.
    /// Returns whether there were any.
    pub(crate) fn forget_kept(&self, request: &Request) -> Result<bool> {
        self.forget_names(request, |all| all / FORGOTTEN + 1)
    }

    /// Drops as many of them as `count` says of all; `false` where none was dropped.
    fn forget_names(&self, request: &Request, count: impl Fn(usize) -> usize) -> Result<bool> {
        let mut learned = self.records.reservations_in(&Prefix::Reservations)?;
        let network = Some(&request.network.name);
        learned.retain(|Read { value, .. }| is_old(value) && value.network.as_ref() == network);
        let count = count(learned.len());
        let forgotten = self.unreserve_oldest(learned, count)?;
        if forgotten.is_empty() {
            return Ok(false);
        }
        let mut txn = Txn::new();
        for pool in request.ipam.pools() {
            txn = self.addresses.note_freed(pool, &forgotten, txn)?;
        }
        self.store.commit(&txn)?;
        Ok(true)
    }

    fn forget_learned(
        &self,
        place: &SubnetRanges,
        learned: Vec<Read<Reservation>>,
        count: usize,
    ) -> Result<usize> {
        let forgotten = self.unreserve_oldest(learned, count)?;
        let txn = self.addresses.note_freed(&place.pool, &forgotten, Txn::new())?;
        self.store.commit(&txn)?;
        Ok(forgotten.len())
    }

    /// Drops up to `count` learned addresses without a holder, those learned first.
    fn unreserve_oldest(
        &self,
        mut learned: Vec<Read<Reservation>>,
        count: usize,
    ) -> Result<Vec<IpAddr>> {
        learned.sort_by_key(|read| read.revision);
        let mut learned = learned.into_iter();
        let mut forgotten = Vec::new();
        while forgotten.len() < count {
            let most = BATCH.min(count - forgotten.len());
            let mut batch = Vec::new();
            for read in learned.by_ref() {
                if self.records.holder_of(&read.value.space, read.value.address)?.is_none() {
                    batch.push(read);
                }
                if batch.len() == most {
                    break;
                }
            }
            if batch.is_empty() {
                break;
            }
            forgotten.extend(self.unreserve_batch(&batch)?);
        }
        Ok(forgotten)
    }

    fn unreserve_batch(&self, batch: &[Read<Reservation>]) -> Result<Vec<IpAddr>> {
        let txn = self.addresses.end_reservations(batch, Txn::new())?;
        if let Outcome::Done(_) = self.store.commit(&txn)? {
            return Ok(batch.iter().map(|read| read.value.address).collect());
        }
        let mut forgotten = Vec::new();
        for Read { value, .. } in batch {
            match self.addresses.unreserve_address(&value.space, value.address) {
                Ok(()) => forgotten.push(value.address),
                // Another process is making room.
                Err(error) if error.kind() == Kind::TryAgain => {}
                Err(error) => return Err(error),
            }
        }
        Ok(forgotten)
    }

    fn learned(&self, place: &SubnetRanges) -> Result<Vec<Read<Reservation>>> {
        let mut reserved = self.records.reservations_in(&Prefix::Reservations)?;
        reserved.retain(|Read { value, .. }| {
            is_old(value)
                && value.network.as_ref() == Some(&place.subnet.network)
                && value.space == place.subnet.id.space
        });
        Ok(reserved)
    }

    /// Removes what was requested from a subnet and not released, but what an attachment still has,
    /// and what was learned about a network that goes with its subnet.
    pub(super) fn clear(&self, subnet: &Subnet) -> Result<()> {
        let place = self.ranges_of(subnet.clone())?;
        self.clear_leases(&place)?;
        self.clear_reservations(&place)?;
        // Addresses were requested before the network was made, or made of several subnets.
        let before = place.provisional_id()?;
        let is_in_use = place.network.as_ref().is_some_and(|made| made.name == before.network);
        match is_in_use {
            true => Ok(()),
            false => self.store.commit(&Txn::new().delete(Key::Cursor(before))).map(|_| ()),
        }
    }

    fn clear_leases(&self, place: &SubnetRanges) -> Result<()> {
        let id = &place.subnet.id;
        for read in self.records.holders_in(&Prefix::Leases(id.space.clone()))? {
            let Tenant::Request { subnet, user } = &read.value.tenant else { continue };
            let is_used = match user {
                Some(user) => self.records.record_of(user, Layer::Link)?.is_some(),
                None => false,
            };
            if subnet != id || is_used {
                continue;
            }
            let lease = &read.value.lease;
            self.release_file(place, lease)?;
            let key = Key::Lease(id.space.clone(), lease.address.addr());
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).delete(key);
            let txn = self.addresses.note_freed(&place.pool, &[lease.address.addr()], txn)?;
            // A process that changed it meanwhile has it, with its file.
            let freed = self.store.commit(&txn);
            if !matches!(freed, Ok(Outcome::Done(_))) {
                self.restore_file(place, lease)?;
            }
            freed?;
        }
        Ok(())
    }

    fn clear_reservations(&self, place: &SubnetRanges) -> Result<()> {
        let id = &place.subnet.id;
        let is_whole =
            !self.records.subnets_in(&Prefix::Subnets)?.iter().any(|read| is_part(id, read));
        let goes = place.network.as_ref().is_none_or(|made| made.runtime == place.subnet.runtime);
        for Read { value, .. } in self.records.reservations_in(&Prefix::Reservations)? {
            let is_here = value.space == id.space && id.net.contains(&value.address);
            let is_marked = value
                .owner
                .as_ref()
                .is_some_and(|owner| matches!(owner.as_str(), GATEWAY | AUXILIARY));
            let is_learned = value.learned && value.network.as_ref() == Some(&place.subnet.network);
            if is_here && ((is_marked && is_whole) || (is_learned && goes)) {
                self.addresses.unreserve_address(&value.space, value.address)?;
            }
        }
        Ok(())
    }
}

fn is_time_to_count(address: IpAddr) -> bool {
    let last = match address {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    last.is_multiple_of(COUNTED)
}

/// Whether the record is another part of the same subnet.
fn is_part(id: &SubnetId, read: &Read<Subnet>) -> bool {
    let other = &read.value.id;
    other != id && other.space == id.space && other.net == id.net
}

/// Whether it was learned from a container that is gone, and does not come back in a moment.
fn is_old(reservation: &Reservation) -> bool {
    reservation.learned && reservation.until.is_none()
}
