//! Allocates and releases addresses of a subnet, one by one.

use std::net::IpAddr;

use model::{
    AttachmentId, Cursor, Error, Holder, Layer, Lease, Order, OwnerName, Phase, Reservation,
    Result, Sticky, SubnetId, Tenant, Want,
};

use crate::Subnets;
use crate::addresses::choose::advance;
use crate::addresses::search::{Avoid, FreeAddress, Search};
use crate::port::{Expect, Key, Outcome, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::{AUXILIARY, GATEWAY};
use crate::subnets::auxiliary::{mark, refuse_auxiliary};
use crate::subnets::ranges::SubnetRanges;
use crate::subnets::{AddressRequest, Purpose};

/// How often a lost race is run again.
const RACES: usize = 200;

impl Subnets<'_> {
    /// Allocates an address, with the prefix length of its whole subnet.
    ///
    /// Any address is one of the subnet's part; where that is full, one of another subnet that the
    /// same network has for the same family. An exact one may lie anywhere in the subnet. Fails
    /// with `NotFound` where the subnet is not allocated, with `Conflict` where the address is
    /// held, reserved or the network's gateway, and with `Exhausted`.
    pub fn request_address(&self, request: &AddressRequest) -> Result<Lease> {
        let id = &request.subnet;
        let Some(read) = self.records.subnet_of(id)? else {
            return Err(Error::not_found(format!(
                "subnet {id} is not allocated; request it first"
            )));
        };
        let place = self.ranges_of(read.value)?;
        if let Some(lease) = given(&place, request)? {
            return Ok(lease);
        }
        let mut avoid = Avoid::new();
        for _ in 0..RACES {
            let proposal = match request.want {
                Want::Exactly(address) => Some(self.exact(&place, request, address)?),
                Want::Any => self.any_of(&place, request, &avoid)?,
            };
            let Some(proposal) = proposal else {
                match self.make_room(&place)? {
                    true => continue,
                    false => return Err(place.full()),
                }
            };
            match self.grant(&place, request, proposal, &mut avoid)? {
                Some(lease) => return Ok(lease),
                None => self.after_lost_address(request)?,
            }
        }
        Err(Error::try_again(format!(
            "requesting an address of subnet {id}: lost {RACES} races in a row"
        )))
    }

    /// An address that may be allocated, unless it has a holder.
    fn exact(
        &self,
        place: &SubnetRanges,
        request: &AddressRequest,
        address: IpAddr,
    ) -> Result<Proposal> {
        place.check_inside(address)?;
        if place.pool.is_gateway(address) {
            return Err(Error::conflict(format!(
                "address {address} is the gateway of network {}",
                place.subnet.network
            )));
        }
        let lease = place.lease(address)?;
        let reserved = self.records.reservation_of(&lease.space, address)?;
        let is_agreed =
            reserved.as_ref().is_some_and(|read| crate::addresses::shared::is_agreed(&read.value));
        let by = match &request.purpose {
            Purpose::Container(owner) if place.is_beyond(address) || is_agreed => {
                let container = || format!("a container of {}", place.subnet.runtime);
                Some(owner.as_ref().map_or_else(container, ToString::to_string))
            }
            Purpose::Container(_) | Purpose::Gateway | Purpose::Auxiliary => None,
        };
        if let Some(by) = by
            && let Some(pin) =
                self.addresses.pinned(&lease.space, &place.subnet.network, address, &by)?
        {
            return Ok(Proposal { lease, reserved: Some(pin), searched: None });
        }
        let is_for_owner = match (reserved.as_ref(), &request.purpose) {
            (None, _) => true,
            (Some(read), Purpose::Container(Some(owner))) => {
                read.value.owner.as_ref() == Some(owner)
            }
            (Some(_), _) => false,
        };
        match reserved {
            Some(read) if !is_for_owner => Err(self.records.reserved_for(&read.value)),
            reserved => Ok(Proposal { lease, reserved, searched: None }),
        }
    }

    fn any_of(
        &self,
        place: &SubnetRanges,
        request: &AddressRequest,
        avoid: &Avoid,
    ) -> Result<Option<Proposal>> {
        // Only a pool in the order lowest-free tracks its lowest free address, so only there the
        // request may choose.
        let order = match place.pool.order {
            Order::NextAfterLast => Order::NextAfterLast,
            Order::LowestFree => request.order.unwrap_or(place.subnet.order),
        };
        let owner = self.kept_by(place, &request.purpose);
        if let Some(owner) = owner
            && place.is_open()
        {
            self.addresses.follow(&place.subnet.network, owner)?;
        }
        let cursor = self.records.cursor_of(&place.pool.id)?;
        for ranges in [&place.own, &place.siblings] {
            let search = Search { pool: &place.pool, ranges, order, avoid };
            if let Some(owner) = owner
                && let Some(kept) =
                    self.addresses.kept_for(&place.subnet.network, owner, &search)?
            {
                let lease = place.lease(kept.address)?;
                return Ok(Some(Proposal { lease, reserved: kept.reserved, searched: None }));
            }
            let known = cursor.as_ref().map(|read| &read.value);
            if let Some(found) = self.addresses.find(&search, known)? {
                let lease = place.lease(found.address)?;
                let searched = Some((cursor, found));
                return Ok(Some(Proposal { lease, reserved: None, searched }));
            }
        }
        Ok(None)
    }

    /// The owner for which the subnet, or its network of many hosts, keeps addresses, if they do.
    fn kept_by<'a>(&self, place: &SubnetRanges, purpose: &'a Purpose) -> Option<&'a OwnerName> {
        let Purpose::Container(owner) = purpose else { return None };
        let is_shared =
            || place.network.as_ref().is_some_and(|it| it.sticky && self.host.has_hosts(&it.name));
        owner.as_ref().filter(|_| place.subnet.sticky != Sticky::No || is_shared())
    }

    /// Commits a proposal; `None` where another process was faster.
    fn grant(
        &self,
        place: &SubnetRanges,
        request: &AddressRequest,
        proposal: Proposal,
        avoid: &mut Avoid,
    ) -> Result<Option<Lease>> {
        let Proposal { lease, reserved, searched } = proposal;
        let address = lease.address.addr();
        let held = Key::Lease(lease.space.clone(), address);
        let kept = Key::Reservation(lease.space.clone(), address);
        let mut txn = Txn::new()
            .require(held.clone(), Expect::Absent)
            .require(kept.clone(), unchanged(reserved.as_ref()));
        txn = match &request.purpose {
            Purpose::Gateway => txn.put(kept, mark(place, &lease, GATEWAY)?),
            Purpose::Auxiliary => txn.put(kept, mark(place, &lease, AUXILIARY)?),
            Purpose::Container(owner) => {
                let holder = self.tenant(place, &lease, owner.clone());
                txn.put(held, Record::Lease(holder))
            }
        };
        if let Some((cursor, found)) = &searched {
            txn = advance(&place.pool, cursor.as_ref(), found, txn);
        }
        let owner = self.kept_by(place, &request.purpose);
        if let Some(owner) = owner {
            txn = self.addresses.keep(
                &place.subnet.network,
                owner,
                std::slice::from_ref(&lease),
                txn,
            )?;
        }
        match self.store.commit(&txn)? {
            Outcome::Lost(_) => Ok(None),
            Outcome::Done(_) => {
                if owner.is_some() && reserved.is_none() {
                    self.forget_oldest(place, address)?;
                }
                self.claim_file(place, request, lease, avoid)
            }
        }
    }

    fn tenant(&self, place: &SubnetRanges, lease: &Lease, owner: Option<OwnerName>) -> Holder {
        Holder {
            lease: lease.clone(),
            tenant: Tenant::Request { subnet: place.subnet.id.clone(), user: None },
            runtime: place.subnet.runtime,
            since: self.host.now(),
            owner,
            quarantined: None,
        }
    }

    /// An exact address has a holder: either a container that is gone, or one that the error names.
    fn after_lost_address(&self, request: &AddressRequest) -> Result<()> {
        let Want::Exactly(address) = request.want else { return Ok(()) };
        let Some(read) = self.records.holder_of(&request.subnet.space, address)? else {
            return Ok(());
        };
        let is_freed = match read.value.attachment() {
            Some(id) => {
                let never_left = self.is_attached(id)?;
                self.links.free_if_gone(id)? && self.free_abandoned(request, address, never_left)?
            }
            None => false,
        };
        match is_freed {
            true => Ok(()),
            false => Err(self.records.held(&read.value)),
        }
    }

    fn is_attached(&self, id: &AttachmentId) -> Result<bool> {
        let link = self.records.record_of(id, Layer::Link)?;
        Ok(link.is_some_and(|link| matches!(link.value.phase, Phase::Attached(_))))
    }

    /// Frees the addresses of a container that is gone. Its runtime could not report that, and will
    /// not release the address either: Docker asks for the same one again after a crash. An address
    /// that has another holder by now stays.
    fn free_abandoned(
        &self,
        request: &AddressRequest,
        address: IpAddr,
        never_left: bool,
    ) -> Result<bool> {
        let Some(read) = self.records.holder_of(&request.subnet.space, address)? else {
            return Ok(true);
        };
        match &read.value.tenant {
            Tenant::Request { subnet, user: None } if never_left && *subnet == request.subnet => {
                self.free_unused(&request.subnet, &read)
            }
            Tenant::Request { .. } | Tenant::Attachment { .. } => Ok(false),
        }
    }

    /// Takes an address back that was requested from this subnet, or from another one of its
    /// network: where this one was full it came from there. One that is not is no error.
    ///
    /// The attachment that still uses it is removed first: its runtime has given it up. A gateway
    /// that others share stays.
    pub fn release_address(&self, id: &SubnetId, address: IpAddr) -> Result<()> {
        for _ in 0..RACES {
            let is_done = match self.records.holder_of(&id.space, address)? {
                Some(read) => match &read.value.tenant {
                    Tenant::Request { subnet, .. } if self.are_siblings(subnet, id)? => {
                        self.free_lease(&subnet.clone(), read)?
                    }
                    Tenant::Request { .. } | Tenant::Attachment { .. } => true,
                },
                None => self.unmark(id, address)?,
            };
            if is_done {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("releasing {address}: lost {RACES} races in a row")))
    }

    fn are_siblings(&self, one: &SubnetId, other: &SubnetId) -> Result<bool> {
        if one == other {
            return Ok(true);
        }
        Ok(match (self.records.subnet(one)?, self.records.subnet(other)?) {
            (Some(one), Some(other)) => one.network == other.network,
            (_, _) => false,
        })
    }

    /// Frees a requested address, and removes its user. `false` where it changed meanwhile.
    fn free_lease(&self, id: &SubnetId, mut read: Read<Holder>) -> Result<bool> {
        let (space, address) = (&id.space, read.value.lease.address.addr());
        if let Some(user) = read.value.attachment().cloned()
            && self.records.record_of(&user, Layer::Link)?.is_some()
        {
            self.links.remove(&user)?;
            let Some(again) = self.records.holder_of(space, address)? else { return Ok(true) };
            read = again;
        }
        self.free_unused(id, &read)
    }

    /// Frees a requested address without a user. `false` where it changed since it was read and may
    /// have a user now.
    pub(crate) fn free_unused(&self, id: &SubnetId, read: &Read<Holder>) -> Result<bool> {
        let address = read.value.lease.address.addr();
        let place = match self.records.subnet_of(id)? {
            Some(subnet) => Some(self.ranges_of(subnet.value)?),
            None => None,
        };
        let key = Key::Lease(id.space.clone(), address);
        let mut txn = Txn::new().require(key.clone(), unchanged(Some(read))).delete(key);
        if let Some(place) = &place {
            self.release_file(place, &read.value.lease)?;
            txn = self.addresses.note_freed(&place.pool, &[address], txn)?;
        }
        let freed = self.store.commit(&txn);
        let is_freed = matches!(freed, Ok(Outcome::Done(_)));
        if !is_freed && let Some(place) = &place {
            self.restore_file(place, &read.value.lease)?;
        }
        freed.map(|_| is_freed)
    }

    /// Ends what a request for a gateway or an auxiliary address reserved.
    fn unmark(&self, id: &SubnetId, address: IpAddr) -> Result<bool> {
        let Some(read) = self.records.reservation_of(&id.space, address)? else { return Ok(true) };
        let Some(subnet) = self.records.subnet_of(id)? else { return Ok(true) };
        let is_shared = subnet.value.references > 1;
        let is_ours = match read.value.owner.as_ref().map(OwnerName::as_str) {
            Some(GATEWAY) => !is_shared,
            Some(AUXILIARY) => true,
            Some(_) | None => false,
        };
        if !is_ours || !id.net.contains(&address) {
            return Ok(true);
        }
        let place = self.ranges_of(subnet.value)?;
        let key = Key::Reservation(id.space.clone(), address);
        let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).delete(key);
        let txn = self.addresses.note_freed(&place.pool, &[address], txn)?;
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }
}

/// An address that can be allocated.
struct Proposal {
    lease: Lease,
    /// Its reservation for any requester.
    reserved: Option<Read<Reservation>>,
    /// How it was found, where it was searched for.
    searched: Option<(Option<Read<Cursor>>, FreeAddress)>,
}

/// A container that shares an existing network gets the network's gateway.
fn given(place: &SubnetRanges, request: &AddressRequest) -> Result<Option<Lease>> {
    let network = &place.subnet.network;
    match (&request.purpose, place.gateway(), request.want) {
        (Purpose::Gateway, Some(has), Want::Exactly(wanted)) if has != wanted => {
            Err(Error::conflict(format!(
                "{wanted} cannot be the gateway of network {network}, which has {has}"
            )))
        }
        (Purpose::Gateway, Some(has), _) => place.lease(has).map(Some),
        (Purpose::Auxiliary, _, _) => refuse_auxiliary(place).map(|()| None),
        (_, _, _) => Ok(None),
    }
}
