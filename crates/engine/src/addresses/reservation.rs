//! Reservations: addresses that are kept with an owner, or without.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Error, NetworkName, OwnerName, Reservation, Result, Space};

use super::shared::is_agreed;
use crate::Addresses;
use crate::port::{Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::kept_address;

impl Addresses<'_> {
    /// Reserves an address: for an owner with a lasting name in a network, or without an owner. An
    /// address that has a holder stays with it until that is detached.
    pub fn reserve_address(
        &self,
        space: &Space,
        address: IpAddr,
        owner: Option<(NetworkName, OwnerName)>,
    ) -> Result<()> {
        let key = Key::Reservation(space.clone(), address);
        let reservation = Reservation {
            owner: owner.as_ref().map(|(_, owner)| owner.clone()),
            network: owner.as_ref().map(|(network, _)| network.clone()),
            ..Reservation::new(space.clone(), address)
        };
        let mut txn = Txn::new()
            .require(key.clone(), crate::port::Expect::Absent)
            .put(key, Record::Reservation(reservation));
        if let Some((network, owner)) = owner {
            let kept = self.records.sticky_of(&network, &owner)?;
            let sticky = Key::Sticky(network, owner);
            let mut addresses = kept.as_ref().map(|read| read.value.clone()).unwrap_or_default();
            addresses.push(address);
            let expect = unchanged(kept.as_ref());
            txn = txn.require(sticky.clone(), expect).put(sticky, Record::Sticky(addresses));
        }
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => Err(Error::conflict(format!("{address} is already reserved"))),
        }
    }

    /// Every address that is kept back on this host by an operator, or for an endpoint or a gateway: neither what a name
    /// keeps because it once had it, nor what hosts have agreed on.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn kept_back(&self) -> Result<Vec<IpAddr>> {
        let all = self.records.reservations_in(&Prefix::Reservations)?.into_iter();
        let all = all.map(|read| read.value).filter(is_kept_back);
        Ok(all.map(|reservation| reservation.address).collect())
    }

    /// Ends a reservation. An address that is not reserved is no error.
    pub fn unreserve_address(&self, space: &Space, address: IpAddr) -> Result<()> {
        let Some(read) = self.records.reservation_of(space, address)? else { return Ok(()) };
        if let Some(error) = kept_address(&read.value) {
            return Err(error);
        }
        let txn = self.end_reservations(std::slice::from_ref(&read), Txn::new())?;
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => {
                Err(Error::try_again(format!("the reservation of {address} changes right now")))
            }
        }
    }

    /// Adds to the transaction that these reservations end, and that their owners do not get the addresses
    /// again.
    pub(crate) fn end_reservations(
        &self,
        ended: &[Read<Reservation>],
        mut txn: Txn,
    ) -> Result<Txn> {
        for read in ended {
            let key = Key::Reservation(read.value.space.clone(), read.value.address);
            txn = txn.require(key.clone(), unchanged(Some(read))).delete(key);
        }
        self.forget_for_owners(ended, txn)
    }

    /// Adds to the transaction that the owners of these reservations do not get the addresses again.
    pub(super) fn forget_for_owners(
        &self,
        ended: &[Read<Reservation>],
        mut txn: Txn,
    ) -> Result<Txn> {
        let mut of_owners: BTreeMap<(NetworkName, OwnerName), Vec<IpAddr>> = BTreeMap::new();
        for Read { value, .. } in ended {
            if let (Some(network), Some(owner)) = (value.network.clone(), value.owner.clone()) {
                of_owners.entry((network, owner)).or_default().push(value.address);
            }
        }
        for ((network, owner), gone) in of_owners {
            let kept = self.records.sticky_of(&network, &owner)?;
            let sticky = Key::Sticky(network, owner);
            txn = txn.require(sticky.clone(), unchanged(kept.as_ref()));
            let mut addresses = kept.map(|read| read.value).unwrap_or_default();
            addresses.retain(|kept| !gone.contains(kept));
            txn = match addresses.is_empty() {
                true => txn.delete(sticky),
                false => txn.put(sticky, Record::Sticky(addresses)),
            };
        }
        Ok(txn)
    }
}

fn is_kept_back(reservation: &Reservation) -> bool {
    reservation.space == Space::Host && !reservation.learned && !is_agreed(reservation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_and_hosts_keep_is_not_kept_back() {
        let unowned = Reservation::new(Space::Host, "10.8.9.9".parse().unwrap());
        assert!(is_kept_back(&unowned));
        let owned = |owner: &str| Reservation { owner: owner.parse().ok(), ..unowned.clone() };
        assert!(is_kept_back(&owned("db")) && is_kept_back(&owned("@endpoint/db")));
        assert!(!is_kept_back(&owned("@pinned")) && !is_kept_back(&owned("@host/b")));
        assert!(!is_kept_back(&Reservation { learned: true, ..owned("db") }));
        let space = Space::Network("front".parse().unwrap());
        assert!(!is_kept_back(&Reservation { space, ..unowned.clone() }));
    }
}
