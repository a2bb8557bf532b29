//! Which address an attachment gets.
//!
//! The search starts at the pool's cursor and proposes the first address that nobody holds, so
//! that it costs the same however full the pool is. The proposal becomes a lease only in the
//! transaction that finds the lease's key absent; whoever loses that race proposes again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attachment, Cursor, Error, Holder, Kind, Lease, NetworkName, Order, OwnerName, Pool,
    Reservation, Result, Space, Tenant,
};

use crate::book::{Read, unchanged};
use crate::port::{Expect, Key, Prefix, Record, Txn};
use crate::{Engine, Request};

/// After so many proposals in a row that were held, all leases of the space are listed once.
const PATIENCE: usize = 16;

/// Addresses that a search must pass over although the book does not list them as held.
pub(crate) type Avoid = BTreeSet<IpAddr>;

/// What was chosen, and where each searched pool's cursor goes.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) leases: Vec<Lease>,
    cursors: Vec<(Pool, Option<Read<Cursor>>, IpAddr)>,
}

impl Engine<'_> {
    /// One lease from each pool of the request's address source, or its fixed ones.
    pub(crate) fn choose(&self, request: &Request, avoid: &Avoid) -> Result<Choice> {
        let mut choice = Choice::default();
        let mut wanted = request.wanted.clone();
        for pool in request.ipam.pools() {
            let place = wanted.iter().position(|address| pool.range_of(*address).is_some());
            match place.map(|place| wanted.remove(place)) {
                Some(address) => choice.leases.push(self.exactly(pool, address, request)?),
                None => self.any(pool, request, avoid, &mut choice)?,
            }
        }
        if let model::Ipam::Fixed { leases } = &request.ipam {
            choice.leases.extend(leases.iter().cloned());
            wanted.retain(|address| leases.iter().all(|lease| lease.address.addr() != *address));
        }
        match wanted.first() {
            Some(address) if !matches!(request.ipam, model::Ipam::Foreign(_)) => {
                Err(Error::invalid(format!(
                    "requested address {address} is in no range of network {}",
                    request.network.name
                )))
            }
            _ => Ok(choice),
        }
    }

    fn exactly(&self, pool: &Pool, address: IpAddr, request: &Request) -> Result<Lease> {
        if pool.is_gateway(address) {
            return Err(Error::invalid(format!(
                "requested address {address} is the gateway of network {}",
                request.network.name
            )));
        }
        self.refuse_reserved(&pool.space, address, request)?;
        pool.lease(address)
    }

    fn refuse_reserved(&self, space: &Space, address: IpAddr, request: &Request) -> Result<()> {
        let Some(read) = self.reservation_of(space, address)? else { return Ok(()) };
        match (&read.value.owner, &request.owner) {
            (Some(reserved), Some(owner)) if reserved == owner => Ok(()),
            (Some(reserved), _) => Err(Error::conflict(format!(
                "address {address} is reserved for {reserved}; `spoke ipam release {address}` ends that"
            ))),
            (None, _) => Err(Error::conflict(format!(
                "address {address} is reserved; `spoke ipam release {address}` ends that"
            ))),
        }
    }

    fn any(
        &self,
        pool: &Pool,
        request: &Request,
        avoid: &Avoid,
        choice: &mut Choice,
    ) -> Result<()> {
        if let Some(address) = self.kept_for_owner(pool, request, avoid)? {
            choice.leases.push(pool.lease(address)?);
            return Ok(());
        }
        let read = self.cursor_of(&pool.id)?;
        let address = self.free_address(pool, read.as_ref(), avoid)?;
        choice.leases.push(pool.lease(address)?);
        choice.cursors.push((pool.clone(), read, address));
        Ok(())
    }

    /// The address that was reserved for the request's owner in this pool, if it is free.
    fn kept_for_owner(
        &self,
        pool: &Pool,
        request: &Request,
        avoid: &Avoid,
    ) -> Result<Option<IpAddr>> {
        let Some(owner) = &request.owner else { return Ok(None) };
        let kept = self.sticky_of(&request.network.name, owner)?;
        for address in kept.map(|read| read.value).unwrap_or_default() {
            let ours = pool.range_of(address).is_some()
                && !pool.is_gateway(address)
                && !avoid.contains(&address);
            if ours && self.holder_of(&pool.space, address)?.is_none() {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    fn free_address(
        &self,
        pool: &Pool,
        cursor: Option<&Read<Cursor>>,
        avoid: &Avoid,
    ) -> Result<IpAddr> {
        let full = || full(pool);
        let mut candidate = start(pool, cursor).ok_or_else(full)?;
        let first = candidate;
        let mut listed: Option<Avoid> = None;
        for tried in 0_usize.. {
            if tried == PATIENCE {
                listed = Some(self.held_in(&pool.space)?);
            }
            let passed_over = pool.is_gateway(candidate) || avoid.contains(&candidate);
            if !passed_over && self.is_free(&pool.space, candidate, listed.as_ref())? {
                return Ok(candidate);
            }
            candidate = pool.after(candidate).ok_or_else(full)?;
            if candidate == first {
                break;
            }
        }
        Err(full())
    }

    fn is_free(&self, space: &Space, address: IpAddr, listed: Option<&Avoid>) -> Result<bool> {
        Ok(match listed {
            Some(held) => !held.contains(&address),
            None => {
                self.holder_of(space, address)?.is_none()
                    && self.reservation_of(space, address)?.is_none()
            }
        })
    }

    fn held_in(&self, space: &Space) -> Result<Avoid> {
        let held = self.holders_in(&Prefix::Leases(space.clone()))?;
        let reserved = self.reservations_in(&Prefix::Reservations)?;
        let reserved = reserved.iter().filter(|read| read.value.space == *space);
        Ok(held
            .iter()
            .map(|read| read.value.lease.address.addr())
            .chain(reserved.map(|read| read.value.address))
            .collect())
    }

    /// Adds to the transaction that `leases` are the attachment's, and nobody else's before.
    pub(crate) fn take(&self, attachment: &Attachment, leases: &[Lease], mut txn: Txn) -> Txn {
        for lease in leases {
            let key = Key::Lease(lease.space.clone(), lease.address.addr());
            let holder = Holder {
                lease: lease.clone(),
                tenant: Tenant::Attachment { id: attachment.id.clone(), layer: attachment.layer },
                runtime: attachment.runtime,
                since: attachment.since,
                owner: attachment.owner.clone(),
                quarantined: None,
            };
            txn = txn.expect(key.clone(), Expect::Absent).put(key, Record::Lease(holder));
        }
        txn
    }

    /// Adds to the transaction that the leases are nobody's.
    pub(crate) fn give_back(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        for lease in &attachment.leases {
            txn = txn.delete(Key::Lease(lease.space.clone(), lease.address.addr()));
        }
        for pool in attachment.ipam.pools() {
            if pool.order == Order::LowestFree {
                txn = self.lower_cursor(pool, attachment, txn)?;
            }
        }
        Ok(txn)
    }

    fn lower_cursor(&self, pool: &Pool, attachment: &Attachment, txn: Txn) -> Result<Txn> {
        let freed = attachment.leases.iter().map(|lease| lease.address.addr());
        let Some(freed) = freed.filter(|freed| pool.range_of(*freed).is_some()).min() else {
            return Ok(txn);
        };
        let Some(read) = self.cursor_of(&pool.id)? else { return Ok(txn) };
        if place(pool, freed) >= place(pool, read.value.at) {
            return Ok(txn);
        }
        let key = Key::Cursor(pool.id.clone());
        let expect = unchanged(Some(&read));
        Ok(txn.expect(key.clone(), expect).put(key, Record::Cursor(Cursor { at: freed })))
    }

    /// Adds to the transaction that an owner with a lasting name gets these addresses again,
    /// beside those that it is known to get.
    pub(crate) fn keep(
        &self,
        network: &NetworkName,
        owner: &OwnerName,
        leases: &[Lease],
        mut txn: Txn,
    ) -> Result<Txn> {
        let known = self.sticky_of(network, owner)?;
        let mut kept = known.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        let before = kept.len();
        for lease in leases {
            let address = lease.address.addr();
            if kept.contains(&address) {
                continue;
            }
            kept.push(address);
            let reservation = Reservation {
                space: lease.space.clone(),
                address,
                owner: Some(owner.clone()),
                network: Some(network.clone()),
            };
            let key = Key::Reservation(lease.space.clone(), address);
            let record = Record::Reservation(reservation);
            txn = txn.expect(key.clone(), Expect::Absent).put(key, record);
        }
        if kept.len() == before {
            return Ok(txn);
        }
        let key = Key::Sticky(network.clone(), owner.clone());
        Ok(txn.expect(key.clone(), unchanged(known.as_ref())).put(key, Record::Sticky(kept)))
    }
}

impl Choice {
    /// Adds to the transaction where the next search starts. In the order next-after-last a lost
    /// update only changes where that is; lowest-free insists, lest an address be forgotten.
    pub(crate) fn advance(&self, mut txn: Txn) -> Txn {
        for (pool, read, chosen) in &self.cursors {
            let key = Key::Cursor(pool.id.clone());
            let at = match pool.order {
                Order::NextAfterLast => *chosen,
                Order::LowestFree => {
                    txn = txn.expect(key.clone(), unchanged(read.as_ref()));
                    pool.after(*chosen).filter(|next| next > chosen).unwrap_or(*chosen)
                }
            };
            txn = txn.put(key, Record::Cursor(Cursor { at }));
        }
        txn
    }
}

fn start(pool: &Pool, cursor: Option<&Read<Cursor>>) -> Option<IpAddr> {
    let at = cursor.map(|read| read.value.at);
    match (pool.order, at) {
        (Order::NextAfterLast, Some(last)) => pool.after(last),
        (Order::LowestFree, Some(floor)) if pool.range_of(floor).is_some() => Some(floor),
        (_, _) => pool.first(),
    }
}

fn place(pool: &Pool, address: IpAddr) -> (usize, IpAddr) {
    let range = pool.ranges.iter().position(|range| range.contains(address));
    (range.unwrap_or(usize::MAX), address)
}

fn full(pool: &Pool) -> Error {
    let ranges: Vec<String> =
        pool.ranges.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
    Error::new(
        Kind::Exhausted,
        format!(
            "failed to allocate for range {}: no IP addresses available in range set: {} of network {}; `spoke ipam show {}` says who holds them",
            pool.id.index,
            ranges.join(","),
            pool.id.network,
            pool.id.network
        ),
    )
}
