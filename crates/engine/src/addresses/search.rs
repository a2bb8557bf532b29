//! The search for a free address.
//!
//! It starts at the pool's cursor and proposes the first address without a holder, so that it costs
//! the same however full the pool is. Cursors are hints: the search covers the whole pool before
//! the pool counts as full.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Cursor, NetworkName, Order, OwnerName, Pool, Range, Reservation, Result, Space, next_address,
};

use crate::Addresses;
use crate::addresses::shared::is_pin;
use crate::port::Prefix;
use crate::records::book::{Read, passable};

/// After so many proposals in a row that were held, all leases of the space are listed once.
const TIMEOUT: usize = 16;

/// Addresses that a search must pass over although the store does not list them as held.
pub(crate) type Avoid = BTreeSet<IpAddr>;

/// What to search for, and where.
pub(crate) struct Search<'a> {
    pub(crate) pool: &'a Pool,
    /// The ranges of the pool to search, or parts of them, in this order.
    pub(crate) ranges: &'a [Range],
    pub(crate) order: Order,
    pub(crate) avoid: &'a Avoid,
}

/// A free address, and what the search knows besides.
#[derive(Debug)]
pub(crate) struct FreeAddress {
    pub(crate) address: IpAddr,
    /// From here up to the address nothing of its range is free.
    pub(crate) from: IpAddr,
}

/// An address that is kept for a name and free, with its reservation as it was read.
pub(crate) struct KeptAddress {
    pub(crate) address: IpAddr,
    pub(crate) reserved: Option<Read<Reservation>>,
}

impl KeptAddress {
    /// Its reservation, where the other hosts of the network gave it to this one.
    pub(crate) fn pin(&self) -> Option<&Read<Reservation>> {
        self.reserved.as_ref().filter(|read| is_pin(&read.value))
    }
}

/// Consecutive candidates.
struct Stretch {
    first: IpAddr,
    last: IpAddr,
    from: IpAddr,
}

impl Stretch {
    fn new(first: IpAddr, last: IpAddr, from: IpAddr) -> Self {
        Self { first, last, from }
    }
}

impl Search<'_> {
    /// Whether the address lies in what is searched and is not kept back by the network itself.
    fn admits(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
            && !self.pool.is_gateway(address)
            && !self.avoid.contains(&address)
    }

    /// Whether the address lies in a subnet of what is searched: the other hosts of a network give such addresses.
    fn spans(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.subnet.contains(&address))
            && !self.pool.is_gateway(address)
            && !self.avoid.contains(&address)
    }

    fn stretches(&self, cursor: Option<&Cursor>) -> Vec<Stretch> {
        let whole = |range: &Range| Stretch::new(range.first, range.last, range.first);
        let mut stretches = match (self.order, cursor) {
            (Order::LowestFree, Some(cursor)) => self.lowest_first(cursor),
            (Order::NextAfterLast, Some(cursor)) => self.after(cursor.at),
            (_, None) => Vec::new(),
        };
        stretches.extend(self.ranges.iter().map(whole));
        stretches
    }

    /// Released addresses, then those that were not searched yet.
    fn lowest_first(&self, cursor: &Cursor) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        for range in self.ranges {
            let floor = self.pool.range_of(range.first).and_then(|whole| cursor.floor(whole));
            let Some(floor) = floor else {
                stretches.push(Stretch::new(range.first, range.last, range.first));
                continue;
            };
            let freed = floor.freed.iter().filter(|freed| range.contains(**freed));
            stretches.extend(freed.map(|freed| Stretch::new(*freed, *freed, range.first)));
            if let Some(next) = next_address(floor.at).filter(|next| *next <= range.last) {
                stretches.push(Stretch::new(next.max(range.first), range.last, range.first));
            }
        }
        stretches
    }

    /// The addresses after the last one in its own range, then the ranges after that.
    fn after(&self, last: IpAddr) -> Vec<Stretch> {
        let Some(place) = self.ranges.iter().position(|range| range.contains(last)) else {
            return Vec::new();
        };
        let range = &self.ranges[place];
        let next = next_address(last).filter(|next| *next <= range.last);
        let rest = next.map(|next| Stretch::new(next, range.last, next));
        let later = self.ranges[place + 1..].iter();
        rest.into_iter()
            .chain(later.map(|range| Stretch::new(range.first, range.last, range.first)))
            .collect()
    }
}

impl Addresses<'_> {
    /// The first free address in the search's order; none where all are held or reserved.
    pub(crate) fn find(
        &self,
        search: &Search,
        cursor: Option<&Cursor>,
    ) -> Result<Option<FreeAddress>> {
        let mut tried = 0_usize;
        let mut listed: Option<Avoid> = None;
        // It is unknown whether those are free.
        let mut passed_over = false;
        for Stretch { first, last, from } in search.stretches(cursor) {
            let mut candidate = Some(first);
            while let Some(address) = candidate {
                if tried == TIMEOUT {
                    listed = Some(self.held_in(&search.pool.space)?);
                }
                tried += 1;
                let is_avoided = search.avoid.contains(&address);
                passed_over |= is_avoided;
                let is_admitted = !is_avoided && !search.pool.is_gateway(address);
                if is_admitted && self.is_free(&search.pool.space, address, listed.as_ref())? {
                    let from = if passed_over { address } else { from };
                    return Ok(Some(FreeAddress { address, from }));
                }
                candidate = next_address(address).filter(|next| *next <= last);
            }
        }
        Ok(None)
    }

    /// The address that is kept for the owner in what is searched, if it is free.
    pub(crate) fn kept_for(
        &self,
        network: &NetworkName,
        owner: &OwnerName,
        search: &Search,
    ) -> Result<Option<KeptAddress>> {
        for address in self.addresses_of(network, owner)? {
            let reserved = self.records.reservation_of(&search.pool.space, address)?;
            let is_kept = match &reserved {
                Some(read) if is_pin(&read.value) => search.spans(address),
                // It may be another one's by now.
                Some(read) => read.value.owner.as_ref() == Some(owner) && search.admits(address),
                None => search.admits(address),
            };
            if is_kept && self.records.holder_of(&search.pool.space, address)?.is_none() {
                return Ok(Some(KeptAddress { address, reserved }));
            }
        }
        Ok(None)
    }

    fn is_free(&self, space: &Space, address: IpAddr, listed: Option<&Avoid>) -> Result<bool> {
        Ok(match listed {
            Some(held) => !held.contains(&address) && self.is_unheld(space, address)?,
            None => self.is_unheld(space, address)?,
        })
    }

    /// An address with a damaged record counts as held.
    fn is_unheld(&self, space: &Space, address: IpAddr) -> Result<bool> {
        let is_held = !matches!(passable(self.records.holder_of(space, address))?, Some(None));
        Ok(!is_held && matches!(passable(self.records.reservation_of(space, address))?, Some(None)))
    }

    fn held_in(&self, space: &Space) -> Result<Avoid> {
        let held = self.records.holders_in(&Prefix::Leases(space.clone()))?;
        let reserved = self.records.reservations_in(&Prefix::Reservations)?;
        let reserved = reserved.iter().filter(|read| read.value.space == *space);
        Ok(held
            .iter()
            .map(|read| read.value.lease.address.addr())
            .chain(reserved.map(|read| read.value.address))
            .collect())
    }
}
