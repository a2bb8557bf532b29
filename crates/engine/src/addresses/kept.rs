//! Addresses that names keep on networks of many hosts.
//!
//! A name keeps an address of this host's block by a learned reservation, as on any network, and one that the others
//! gave to this host by [`PINNED`](crate::records::reservation::PINNED). [`Key::Sticky`] lists both. The daemon tells the
//! others of them, and hands an address over where a container of its name starts on another host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{HostName, NetworkName, OwnerName, Reservation, Result, Space};

use super::shared::{InUse, changes, elsewhere, is_agreed, is_pin, reserve};
use crate::port::{Key, Outcome, Prefix, Record, Txn};
use crate::records::book::unchanged;
use crate::records::reservation::reserved_for;
use crate::{Addresses, Request};

/// An address, and of which network.
type NetworkAddress<'a> = (&'a NetworkName, IpAddr);

impl Addresses<'_> {
    /// Has the addresses given to this host that others keep for the request's name, where this host keeps none for it.
    pub(super) fn follow_request(&self, request: &Request) -> Result<()> {
        match request.sticky_owner().filter(|_| request.wanted.is_empty()) {
            Some(name) => self.follow(&request.network.name, name),
            None => Ok(()),
        }
    }

    /// The same for a name on a network.
    pub(crate) fn follow(&self, network: &NetworkName, name: &OwnerName) -> Result<()> {
        if !self.host.has_hosts(network) || self.keeps(network, name)? {
            return Ok(());
        }
        // A container starts whatever the others say: it gets another address then.
        let _ = self.host.follow(network, name);
        Ok(())
    }

    fn keeps(&self, network: &NetworkName, name: &OwnerName) -> Result<bool> {
        let kept = self.addresses_of(network, name)?;
        if kept.is_empty() {
            return Ok(false);
        }
        // One of a block that this host had once is not given any more.
        let record = self.records.named(network)?;
        let pools = record.iter().flat_map(|network| network.ipam.pools());
        let ranges: Vec<_> = pools.flat_map(|pool| &pool.ranges).collect();
        let is_here = |address| ranges.iter().any(|range| range.contains(address));
        for address in kept {
            let read = self.records.reservation_of(&Space::Host, address)?;
            let is_given = |it: &Reservation| is_pin(it) || is_here(address);
            if read.is_some_and(|read| is_kept(&read.value, name) && is_given(&read.value)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every address that is listed for a name, whether it is kept for it still or not.
    pub(super) fn addresses_of(
        &self,
        network: &NetworkName,
        name: &OwnerName,
    ) -> Result<Vec<IpAddr>> {
        Ok(self.records.sticky_of(network, name)?.map(|read| read.value).unwrap_or_default())
    }

    /// Whether the others gave an address to this host: that keeps it for a name, too.
    pub(super) fn is_pinned(&self, space: &Space, address: IpAddr) -> Result<bool> {
        let read = self.records.reservation_of(space, address)?;
        Ok(read.is_some_and(|read| is_pin(&read.value)))
    }

    /// Every address that a name keeps on this host, of these networks of many hosts.
    pub fn kept_for_names<'n>(
        &self,
        networks: impl Iterator<Item = &'n NetworkName>,
    ) -> Result<Vec<(NetworkName, IpAddr, OwnerName)>> {
        let (mut here, mut kept) = (None, Vec::new());
        for network in networks {
            let here = match &mut here {
                Some(here) => here,
                none => none.insert(self.reserved_here()?),
            };
            for (key, versioned) in self.store.list(&Prefix::StickyOf(network.clone()))? {
                let (Key::Sticky(_, name), Record::Sticky(addresses)) = (key, versioned.record)
                else {
                    continue;
                };
                let of_name = |address: &IpAddr| {
                    here.get(&(network.clone(), *address)).is_some_and(|it| is_kept(it, &name))
                };
                let addresses = addresses.into_iter().filter(of_name);
                kept.extend(addresses.map(|address| (network.clone(), address, name.clone())));
            }
        }
        Ok(kept)
    }

    fn reserved_here(&self) -> Result<BTreeMap<(NetworkName, IpAddr), Reservation>> {
        let all = self.records.reservations_in(&Prefix::Reservations)?.into_iter();
        let all = all.map(|read| read.value).filter(|it| it.space == Space::Host);
        Ok(all.filter_map(|it| Some(((it.network.clone()?, it.address), it))).collect())
    }

    /// Notes that a name keeps an address that the others gave to this host. Repeating it is no error.
    ///
    /// # Errors
    /// `TryAgain` where the address was given back, or another process changes what the name keeps.
    pub fn note_name(
        &self,
        (network, address): NetworkAddress<'_>,
        name: &OwnerName,
    ) -> Result<()> {
        let reserved = self.records.reservation_of(&Space::Host, address)?;
        let reserved =
            reserved.filter(|read| is_pin(&read.value)).ok_or_else(|| changes(address))?;
        let kept = self.records.sticky_of(network, name)?;
        let mut addresses = kept.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        if addresses.contains(&address) {
            return Ok(());
        }
        addresses.push(address);
        let key = Key::Sticky(network.clone(), name.clone());
        let txn = Txn::new()
            .require(Key::Reservation(Space::Host, address), unchanged(Some(&reserved)))
            .require(key.clone(), unchanged(kept.as_ref()))
            .put(key, Record::Sticky(addresses));
        self.commit_or_try_again(&txn, address)
    }

    /// Ends that a name keeps an address on this host, in one transaction that finds no lease of it; it is `to`'s then,
    /// for which it is kept where it is of a block of this host. What is in the way, if anything is: an operator's
    /// reservation is. Repeating it is no error.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn hand_over(
        &self,
        (network, address): NetworkAddress<'_>,
        name: &OwnerName,
        to: Option<&HostName>,
    ) -> Result<Option<InUse>> {
        if let Some(read) = self.records.holder_of(&Space::Host, address)? {
            return Ok(Some(InUse::Held(Box::new(read.value))));
        }
        let reserved = self.records.reservation_of(&Space::Host, address)?;
        let others = reserved.as_ref().filter(|read| !is_ending(&read.value, network, name));
        if let Some(read) = others {
            return Ok(Some(InUse::Reserved(reserved_for(&read.value).to_string())));
        }
        let owner = to.map(elsewhere).transpose()?;
        let txn = reserve((network, address), reserved.as_ref(), owner);
        let txn = self.forget_name((network, address), name, txn)?;
        self.commit_or_try_again(&txn, address).map(|()| None)
    }

    /// Keeps an address of this host's block for a host that has it, whatever it was kept for here: two hosts would have
    /// it otherwise. What is in the way, if anything is: a container, or that this host had it from the others, which
    /// [`Addresses::pass_pin`] ends. Repeating it is no error.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn yield_to_host(
        &self,
        (network, address): NetworkAddress<'_>,
        host: &HostName,
    ) -> Result<Option<InUse>> {
        if let Some(read) = self.records.holder_of(&Space::Host, address)? {
            return Ok(Some(InUse::Held(Box::new(read.value))));
        }
        let reserved = self.records.reservation_of(&Space::Host, address)?;
        if let Some(read) = reserved.as_ref().filter(|read| is_pin(&read.value)) {
            return Ok(Some(InUse::Reserved(reserved_for(&read.value).to_string())));
        }
        let owner = elsewhere(host)?;
        let mut txn = reserve((network, address), reserved.as_ref(), Some(owner.clone()));
        match reserved {
            Some(read) if read.value.owner == Some(owner) => return Ok(None),
            Some(read) if !is_agreed(&read.value) => {
                txn = self.forget_for_owners(std::slice::from_ref(&read), txn)?;
            }
            Some(_) | None => {}
        }
        self.commit_or_try_again(&txn, address).map(|()| None)
    }

    fn commit_or_try_again(&self, txn: &Txn, address: IpAddr) -> Result<()> {
        match self.store.commit(txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => Err(changes(address)),
        }
    }

    /// Adds to the transaction that the name does not get the address again.
    fn forget_name(
        &self,
        (network, address): NetworkAddress<'_>,
        name: &OwnerName,
        txn: Txn,
    ) -> Result<Txn> {
        let kept = self.records.sticky_of(network, name)?;
        let Some(read) = kept.filter(|read| read.value.contains(&address)) else { return Ok(txn) };
        let key = Key::Sticky(network.clone(), name.clone());
        let txn = txn.require(key.clone(), unchanged(Some(&read)));
        let rest: Vec<IpAddr> = read.value.into_iter().filter(|kept| *kept != address).collect();
        Ok(match rest.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Sticky(rest)),
        })
    }
}

/// Whether a reservation keeps an address that is listed for a name: it was learned for it, or the others gave it.
fn is_kept(reservation: &Reservation, name: &OwnerName) -> bool {
    is_pin(reservation) || reservation.owner.as_ref() == Some(name)
}

/// Whether a reservation ends with what a name keeps on a network: an operator's own stays, and so does another network's,
/// of which the record of the other hosts may speak wrongly.
fn is_ending(reservation: &Reservation, network: &NetworkName, name: &OwnerName) -> bool {
    let is_agreed = reservation.network.as_ref() == Some(network) && is_agreed(reservation);
    is_agreed || is_learned(reservation, network, name)
}

/// Whether a reservation was learned for a name of a network.
pub(super) fn is_learned(
    reservation: &Reservation,
    network: &NetworkName,
    name: &OwnerName,
) -> bool {
    reservation.learned
        && reservation.network.as_ref() == Some(network)
        && reservation.owner.as_ref() == Some(name)
}
