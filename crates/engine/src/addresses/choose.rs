//! Chooses an attachment's addresses.
//!
//! A proposal becomes a lease only in the transaction that finds the lease's key absent. A process
//! that loses that race proposes again.

use std::net::IpAddr;

use model::{
    Attachment, Cursor, Error, Fact, Holder, Ipam, Kind, Lease, LinkKind, NetworkName, Order,
    OwnerName, Pool, Reservation, Result, Tenant, host_net,
};

use crate::addresses::search::{Avoid, FreeAddress, KeptAddress, Search};
use crate::addresses::shared::{is_agreed, lease_in_subnet, own_pool};
use crate::port::{Expect, Key, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::kept_address;
use crate::{Addresses, Request};

/// The chosen leases, and the new cursor of each searched pool.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) leases: Vec<Lease>,
    cursors: Vec<(Pool, Option<Read<Cursor>>, FreeAddress)>,
    /// Reservations that must still be there: addresses that other hosts gave to this one.
    pins: Vec<Read<Reservation>>,
    /// Reservations that must be as they were read, or still absent: another process may reserve a free
    /// address for a host, a gateway or a device, and that does not touch its lease.
    reserved: Vec<(Key, Expect)>,
    /// Those of them that end, because their owner is back.
    returned: Vec<Key>,
}

impl Addresses<'_> {
    /// One lease from each pool of the request's address source, or its fixed ones.
    pub(crate) fn choose(&self, request: &Request, avoid: &Avoid) -> Result<Choice> {
        let mut choice = Choice::default();
        let mut wanted = request.wanted.clone();
        self.follow_request(request)?;
        for pool in request.ipam.pools() {
            if self.lease_pinned(pool, &mut wanted, request, &mut choice)? {
                continue;
            }
            let place = wanted.iter().position(|address| pool.range_of(*address).is_some());
            match place.map(|place| wanted.remove(place)) {
                Some(address) => self.exactly(pool, address, request, &mut choice)?,
                None => self.any(pool, request, avoid, &mut choice)?,
            }
        }
        if let Ipam::Fixed { leases } = &request.ipam {
            choice.leases.extend(leases.iter().cloned());
            wanted.retain(|address| leases.iter().all(|lease| lease.address.addr() != *address));
        }
        let kind = request.wiring.link.as_ref().map(|link| &link.kind);
        if matches!(kind, Some(LinkKind::Neutron(_))) || request.ipam.remote().is_some() {
            // The cloud, or the plugin, says whether it has them, and how long their prefixes are.
            let space = request.wiring.space(&request.network.name);
            choice.leases.extend(wanted.drain(..).map(|address| Lease {
                space: space.clone(),
                pool: None,
                address: host_net(address),
                gateway: None,
            }));
        }
        match wanted.first() {
            Some(address) if !request.ipam.asks_over_link() => Err(Error::invalid(format!(
                "requested address {address} is in no range of network {}",
                request.network.name
            ))),
            _ => Ok(choice),
        }
    }

    /// Takes a wanted address that is in the pool's subnet, and that other hosts give to this one; whether
    /// there is one.
    fn lease_pinned(
        &self,
        pool: &Pool,
        wanted: &mut Vec<IpAddr>,
        request: &Request,
        choice: &mut Choice,
    ) -> Result<bool> {
        for place in 0..wanted.len() {
            if let Some((lease, pin)) = self.beyond(pool, wanted[place], request)? {
                wanted.remove(place);
                choice.leases.push(lease);
                choice.pins.push(pin);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn exactly(
        &self,
        pool: &Pool,
        address: IpAddr,
        request: &Request,
        choice: &mut Choice,
    ) -> Result<()> {
        if pool.is_gateway(address) {
            return Err(Error::invalid(format!(
                "requested address {address} is the gateway of network {}",
                request.network.name
            )));
        }
        let read = self.records.reservation_of(&pool.space, address)?;
        if read.as_ref().is_some_and(|read| is_agreed(&read.value))
            && let Some((lease, pin)) = self.given_by_hosts(pool, address, request)?
        {
            choice.leases.push(lease);
            choice.pins.push(pin);
            return Ok(());
        }
        let is_back = read.as_ref().is_some_and(|read| read.value.until.is_some());
        let reserved = self.refuse_reserved(read, address, request)?;
        choice.take(pool.lease(address)?, reserved, request);
        if is_back {
            choice.returned.push(Key::Reservation(pool.space.clone(), address));
        }
        Ok(())
    }

    /// Refuses an address that is reserved for another one; otherwise says how its reservation must be.
    fn refuse_reserved(
        &self,
        read: Option<Read<Reservation>>,
        address: IpAddr,
        request: &Request,
    ) -> Result<Expect> {
        let Some(read) = read else { return Ok(Expect::Absent) };
        if let Some(error) = kept_address(&read.value) {
            return Err(error);
        }
        match (&read.value.owner, &request.owner) {
            (Some(reserved), Some(owner)) if reserved == owner => Ok(unchanged(Some(&read))),
            (Some(reserved), _) => Err(self.records.comes_back(&read.value).unwrap_or_else(|| {
                Error::conflict(format!(
                    "address {address} is reserved for {reserved}; `spoke ipam release {address}` ends that"
                ))
            })),
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
        let search = Search { pool, ranges: &pool.ranges, order: pool.order, avoid };
        if let Some(owner) = &request.owner
            && let Some(kept) = self.kept_for(&request.network.name, owner, &search)?
        {
            return choice.take_kept(own_pool(pool, request), kept, request);
        }
        let read = self.records.cursor_of(&pool.id)?;
        let cursor = read.as_ref().map(|read| &read.value);
        let found = self.find(&search, cursor)?.ok_or_else(|| full(pool))?;
        choice.take(pool.lease(found.address)?, Expect::Absent, request);
        choice.cursors.push((pool.clone(), read, found));
        Ok(())
    }

    /// Adds to the transaction that `leases` become the attachment's, on condition that they are
    /// free.
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
            txn = txn.require(key.clone(), Expect::Absent).put(key, Record::Lease(holder));
        }
        txn
    }

    /// Adds to the transaction that the leases become free.
    pub(crate) fn give_back(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        for lease in &attachment.leases {
            txn = txn.delete(Key::Lease(lease.space.clone(), lease.address.addr()));
        }
        let freed: Vec<IpAddr> =
            attachment.leases.iter().map(|lease| lease.address.addr()).collect();
        for pool in attachment.ipam.pools() {
            txn = self.note_freed(pool, &freed, txn)?;
        }
        Ok(txn)
    }

    /// Adds to the transaction that the pool's search finds these addresses again.
    pub(crate) fn note_freed(&self, pool: &Pool, freed: &[IpAddr], txn: Txn) -> Result<Txn> {
        if pool.order != Order::LowestFree {
            return Ok(txn);
        }
        let Some(mut read) = self.records.cursor_of(&pool.id)? else { return Ok(txn) };
        let expect = unchanged(Some(&read));
        let mut is_new = false;
        for address in freed {
            if let Some(range) = pool.range_of(*address) {
                is_new |= read.value.note_freed(range, *address);
            }
        }
        let key = Key::Cursor(pool.id.clone());
        Ok(match is_new {
            true => txn.require(key.clone(), expect).put(key, Record::Cursor(read.value)),
            false => txn,
        })
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
        let known = self.records.sticky_of(network, owner)?;
        let mut kept = known.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        let before = kept.clone();
        for lease in leases.iter().filter(|lease| !before.contains(&lease.address.addr())) {
            kept.push(lease.address.addr());
            if !self.is_pinned(&lease.space, lease.address.addr())? {
                txn = learn(network, owner, lease, txn);
            }
        }
        if kept == before {
            return Ok(txn);
        }
        let key = Key::Sticky(network.clone(), owner.clone());
        Ok(txn.require(key.clone(), unchanged(known.as_ref())).put(key, Record::Sticky(kept)))
    }

    /// The same where `lost`, which were kept for the owner a moment ago, have another holder: it
    /// gets the others instead.
    pub(crate) fn keep_instead(
        &self,
        request: &Request,
        lost: &[&Lease],
        leases: &[Lease],
        mut txn: Txn,
    ) -> Result<Txn> {
        let network = &request.network.name;
        let Some(owner) = request.sticky_owner() else { return Ok(txn) };
        let known = self.records.sticky_of(network, owner)?;
        let mut kept = known.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        for Lease { space, address, .. } in lost {
            let address = address.addr();
            let reserved = self.records.reservation_of(space, address)?;
            if reserved.is_some_and(|read| read.value.learned) {
                kept.retain(|kept| *kept != address);
                txn = txn.delete(Key::Reservation(space.clone(), address));
            }
        }
        for lease in leases {
            let address = lease.address.addr();
            if !kept.contains(&address) {
                kept.push(address);
                if !self.is_pinned(&lease.space, address)? {
                    txn = learn(network, owner, lease, txn);
                }
            }
        }
        let key = Key::Sticky(network.clone(), owner.clone());
        Ok(txn.require(key.clone(), unchanged(known.as_ref())).put(key, Record::Sticky(kept)))
    }
}

/// Adds to the transaction that an address is kept for its owner.
fn learn(network: &NetworkName, owner: &OwnerName, lease: &Lease, txn: Txn) -> Txn {
    let address = lease.address.addr();
    let reservation = Reservation {
        owner: Some(owner.clone()),
        network: Some(network.clone()),
        learned: true,
        ..Reservation::new(lease.space.clone(), address)
    };
    let key = Key::Reservation(lease.space.clone(), address);
    txn.require(key.clone(), Expect::Absent).put(key, Record::Reservation(reservation))
}

impl Choice {
    /// Whether other hosts gave an address of it to this one.
    pub(crate) fn is_from_others(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Chooses an address whose reservation was read. The files of host-local exclude everything else that
    /// has one of their addresses.
    fn take(&mut self, lease: Lease, reserved: Expect, request: &Request) {
        if matches!(request.ipam, Ipam::Book { .. }) {
            let key = Key::Reservation(lease.space.clone(), lease.address.addr());
            self.reserved.push((key, reserved));
        }
        self.leases.push(lease);
    }

    /// Chooses what is kept for the request's name: of the pool, or an address that other hosts gave to this one.
    fn take_kept(&mut self, pool: &Pool, kept: KeptAddress, request: &Request) -> Result<()> {
        if let Some(pin) = kept.pin() {
            let lease = lease_in_subnet(pool, kept.address);
            let gone =
                || Error::bug(format!("{} is in no subnet of {}", kept.address, pool.shown()));
            self.leases.push(lease.ok_or_else(gone)?);
            self.pins.push(pin.clone());
        } else {
            let lease = pool.lease(kept.address)?;
            self.take(lease, unchanged(kept.reserved.as_ref()), request);
        }
        Ok(())
    }

    /// Adds to the transaction where the next search starts, that what other hosts gave is still given, and
    /// that nothing else is reserved.
    pub(crate) fn advance(&self, mut txn: Txn) -> Txn {
        for (pool, read, found) in &self.cursors {
            txn = advance(pool, read.as_ref(), found, txn);
        }
        for pin in &self.pins {
            let key = Key::Reservation(pin.value.space.clone(), pin.value.address);
            txn = txn.require(key, unchanged(Some(pin)));
        }
        let reserved = self.reserved.iter();
        let txn = reserved.fold(txn, |txn, (key, expect)| txn.require(key.clone(), *expect));
        self.returned.iter().cloned().fold(txn, Txn::delete)
    }
}

/// Adds to the transaction the start of the pool's next search. In the order next-after-last a lost
/// update only changes where that is. Lowest-free requires the update, because a freed address
/// could be missed otherwise.
pub(crate) fn advance(
    pool: &Pool,
    read: Option<&Read<Cursor>>,
    found: &FreeAddress,
    mut txn: Txn,
) -> Txn {
    let key = Key::Cursor(pool.id.clone());
    let mut cursor = Cursor::new(found.address);
    if pool.order == Order::LowestFree {
        txn = txn.require(key.clone(), unchanged(read));
        cursor = read.map_or(cursor, |read| read.value.clone());
        if let Some(range) = pool.range_of(found.address) {
            cursor.note_taken(range, found.from, found.address);
        }
    }
    txn.put(key, Record::Cursor(cursor))
}

fn full(pool: &Pool) -> Error {
    Error::new(
        Kind::Exhausted,
        format!(
            "failed to allocate for range {}: no IP addresses available in range set: {} of network {}; `spoke ipam show {}` says who holds them",
            pool.id.index,
            pool.shown(),
            pool.id.network,
            pool.id.network
        ),
    )
    .about(Fact::Full { index: pool.id.index, ranges: pool.shown() })
}
