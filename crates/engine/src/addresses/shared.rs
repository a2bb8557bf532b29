//! Addresses of networks that many hosts share.
//!
//! A host leases from its own blocks. An address outside them is given to it by the others; the reservation
//! [`PINNED`] is the proof on this host, and a lease of such an address is made only while that is there. An
//! address in a block of this host that another host has is reserved for that host; this host asks the others for it
//! as for one outside its blocks, and has it as such a one.

use std::net::IpAddr;

use model::{
    Error, Holder, HostName, Ipam, Lease, LinkKind, Network, NetworkName, OwnerName, Pool, Range,
    Reservation, Result, Space, Stage, SubnetId, host_net,
};

use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::{ELSEWHERE, PINNED, shared_address};
use crate::{Addresses, Request};

/// What keeps an address from being given to another host.
#[derive(Clone, Debug, PartialEq)]
pub enum InUse {
    /// A container has it.
    Held(Box<Holder>),
    /// An operator, or an endpoint, has reserved it: for whom, for a sentence.
    Reserved(String),
}

/// What of a network of many hosts can change besides its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Whether it takes no more containers.
    pub is_draining: bool,
    /// Whether its containers have names.
    pub names: bool,
    /// Whether names keep their addresses.
    pub sticky: bool,
}

impl Addresses<'_> {
    /// The lease of an address that is in the pool's subnet, and in none of the network's ranges; none where
    /// there is no host to ask, because the network is this host's alone.
    pub(super) fn beyond(
        &self,
        pool: &Pool,
        address: IpAddr,
        request: &Request,
    ) -> Result<Option<(Lease, Read<Reservation>)>> {
        match own_pool(pool, request).range_of(address) {
            None => self.given_by_hosts(pool, address, request),
            Some(_) => Ok(None),
        }
    }

    /// The same, in a range or not.
    pub(super) fn given_by_hosts(
        &self,
        pool: &Pool,
        address: IpAddr,
        request: &Request,
    ) -> Result<Option<(Lease, Read<Reservation>)>> {
        let network = &request.network.name;
        let by = request.owner.as_ref().map_or(request.container.as_str(), OwnerName::as_str);
        let pool = own_pool(pool, request);
        let Some(lease) = lease_in_subnet(pool, address) else { return Ok(None) };
        let pinned = self.pinned(&pool.space, network, address, by)?;
        Ok(pinned.map(|read| (lease, read)))
    }

    /// Whether a network is one of many hosts.
    pub fn is_of_hosts(&self, network: &NetworkName) -> bool {
        self.host.has_hosts(network)
    }

    /// Whether a request for this address of a subnet waits for other hosts: it is in none of this host's
    /// blocks, or they have agreed on whose it is.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn address_asks_hosts(&self, subnet: &SubnetId, address: IpAddr) -> Result<bool> {
        let Some(subnet) = self.records.subnet(subnet)? else { return Ok(false) };
        if !self.host.has_hosts(&subnet.network) {
            return Ok(false);
        }
        let network = self.records.declared(&subnet.network)?;
        let mut pools = network.iter().flat_map(|network| network.ipam.pools());
        let is_own = pools.any(|pool| pool.range_of(address).is_some());
        let read = if is_own { self.records.reservation_of(&Space::Host, address)? } else { None };
        Ok(!is_own || read.is_some_and(|read| is_agreed(&read.value)))
    }

    /// Has an address given to this host; the reservation that proves it. None where the network is this
    /// host's alone.
    pub(crate) fn pinned(
        &self,
        space: &Space,
        network: &NetworkName,
        address: IpAddr,
        by: &str,
    ) -> Result<Option<Read<Reservation>>> {
        if let Some(read) = self.records.reservation_of(space, address)?
            && !is_agreed(&read.value)
        {
            return Err(self.records.reserved_for(&read.value));
        }
        if !self.host.pin(network, address, by)? {
            return Ok(None);
        }
        let read = self.records.reservation_of(space, address)?.filter(|read| is_pin(&read.value));
        let gone = || Error::try_again(format!("address {address} was released a moment ago"));
        read.ok_or_else(gone).map(Some)
    }

    /// Notes that the others gave an address to this host, also one of its block that it kept for one of them. Repeating
    /// it is no error.
    ///
    /// # Errors
    /// `Conflict` where it is reserved for another one; `TryAgain` where another process changes it.
    pub fn note_pin(&self, network: &NetworkName, address: IpAddr) -> Result<()> {
        let kept = self.records.reservation_of(&Space::Host, address)?;
        if let Some(mut read) = kept.filter(|read| is_elsewhere(&read.value)) {
            let key = Key::Reservation(Space::Host, address);
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            read.value.owner = Some(PINNED.parse()?);
            return match self.store.commit(&txn.put(key, Record::Reservation(read.value)))? {
                Outcome::Done(_) => Ok(()),
                Outcome::Lost(_) => Err(changes(address)),
            };
        }
        match self.reserve_as(network, address, PINNED)? {
            None => Ok(()),
            Some(InUse::Held(_)) => Ok(()),
            Some(InUse::Reserved(by)) => {
                Err(Error::conflict(format!("address {address} is {by} on this host")))
            }
        }
    }

    /// Ends that, unless a container has the address; whether it has ended.
    pub fn end_pin(&self, address: IpAddr) -> Result<bool> {
        self.unreserve_as(address, |owner| owner == PINNED)
    }

    /// Keeps an address for a host that has it by now, where the others gave it to this one before, in one transaction:
    /// no other host leases it in between. Whether nothing of that is left to be done; not while a container has it.
    pub fn pass_pin(&self, address: IpAddr, host: &HostName) -> Result<bool> {
        let (lease, key) =
            (Key::Lease(Space::Host, address), Key::Reservation(Space::Host, address));
        let kept = self.records.reservation_of(&Space::Host, address)?;
        let Some(mut read) = kept.filter(|read| is_pin(&read.value)) else { return Ok(true) };
        let txn =
            Txn::new().require(lease, Expect::Absent).require(key.clone(), unchanged(Some(&read)));
        read.value.owner = Some(format!("{ELSEWHERE}{host}").parse()?);
        let done = self.store.commit(&txn.put(key, Record::Reservation(read.value)))?;
        Ok(matches!(done, Outcome::Done(_)))
    }

    /// Keeps an address of this host's block for a host that has it; what is in the way, if anything is.
    /// Repeating it is no error.
    pub fn give_to_host(
        &self,
        network: &NetworkName,
        address: IpAddr,
        host: &HostName,
    ) -> Result<Option<InUse>> {
        self.reserve_as(network, address, &format!("{ELSEWHERE}{host}"))
    }

    /// Every address of this host's blocks that is kept for another host, and for which.
    pub fn given_to_hosts(&self) -> Result<Vec<(NetworkName, IpAddr, String)>> {
        let all = self.reserved_by(|owner| owner.starts_with(ELSEWHERE))?.into_iter();
        let of = |owner: String| owner.trim_start_matches(ELSEWHERE).to_owned();
        Ok(all.map(|(network, address, owner)| (network, address, of(owner))).collect())
    }

    /// Every address that this host has outside its blocks.
    pub fn pins(&self) -> Result<Vec<(NetworkName, IpAddr)>> {
        let all = self.reserved_by(|owner| owner == PINNED)?.into_iter();
        Ok(all.map(|(network, address, _)| (network, address)).collect())
    }

    /// Takes an address back that was kept for another host.
    pub fn take_from_host(&self, address: IpAddr) -> Result<bool> {
        self.unreserve_as(address, |owner| owner.starts_with(ELSEWHERE))
    }

    /// Ends all that is kept for other hosts, and all that they gave to this one: it is among no others any
    /// more. Containers keep their addresses.
    pub fn forget_hosts(&self) -> Result<()> {
        let ours = self.reserved_by(|owner| owner == PINNED || owner.starts_with(ELSEWHERE))?;
        let keys = ours.into_iter().map(|(_, address, _)| Key::Reservation(Space::Host, address));
        let txn = keys.fold(Txn::new(), Txn::delete);
        self.store.commit(&txn).map(|_| ())
    }

    /// Gives a network of this host other ranges of addresses, each of its pools those of its place, lets it take
    /// more containers or not, and gives names to those that it takes from now on, and keeps their addresses, or not.
    ///
    /// # Errors
    /// `NotFound` where there is no such network; `TryAgain` where another process changes it.
    pub fn set_shared(
        &self,
        name: &NetworkName,
        ranges: &[Vec<Range>],
        shared: Shared,
    ) -> Result<()> {
        let key = Key::Network(name.clone());
        let read = self.records.network_under(&key)?;
        let mut read = read.ok_or_else(|| Error::not_found(format!("no network {name}")))?;
        let stage = if shared.is_draining { Stage::Draining } else { Stage::Made };
        let was_unsupported = std::mem::take(&mut read.value.unsupported);
        let is_same_stage =
            std::mem::replace(&mut read.value.stage, stage) == stage && !was_unsupported;
        let are_same_names =
            std::mem::replace(&mut read.value.wiring.names, shared.names) == shared.names;
        let is_as_sticky =
            std::mem::replace(&mut read.value.sticky, shared.sticky) == shared.sticky;
        let Ipam::Book { pools } = &mut read.value.ipam else {
            return Err(Error::bug(format!("network {name} has no pool of the store")));
        };
        if pools.len() != ranges.len() {
            return Err(Error::bug(format!("network {name} has {} pools", pools.len())));
        }
        let is_same = is_same_stage && are_same_names && is_as_sticky;
        if is_same && pools.iter().zip(ranges).all(|(pool, ranges)| pool.ranges == *ranges) {
            return Ok(());
        }
        for (pool, ranges) in pools.iter_mut().zip(ranges) {
            pool.ranges.clone_from(ranges);
        }
        self.put_changed(key, read)
    }

    /// Containers that come to a network from now on are reached from elsewhere by published ports only. A missing
    /// network is done.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn close_network(&self, name: &NetworkName) -> Result<()> {
        let key = Key::Network(name.clone());
        let Some(mut read) = self.records.network_under(&key)? else { return Ok(()) };
        let link = read.value.wiring.link.as_mut().map(|link| &mut link.kind);
        let Some(LinkKind::Bridge(bridge)) = link else { return Ok(()) };
        if !std::mem::replace(&mut bridge.port.direct, false) {
            return Ok(());
        }
        self.put_changed(key, read)
    }

    /// A network takes no more containers until [`Addresses::set_shared`] is called for it: this version does not know how
    /// its packets go to other hosts. A missing network, or one that is not whole, is done.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn suspend_network(&self, name: &NetworkName) -> Result<()> {
        let key = Key::Network(name.clone());
        let Some(mut read) = self.records.network_under(&key)? else { return Ok(()) };
        if !read.value.stage.is_whole() || read.value.unsupported {
            return Ok(());
        }
        (read.value.stage, read.value.unsupported) = (Stage::Draining, true);
        self.put_changed(key, read)
    }

    /// Writes what was read of a network and changed since.
    fn put_changed(&self, key: Key, read: Read<Box<Network>>) -> Result<()> {
        let txn = Txn::new().require(key.clone(), Expect::At(read.revision));
        let name = read.value.name.clone();
        match self.store.commit(&txn.put(key, Record::Network(read.value)))? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => Err(Error::try_again(format!("network {name} changes right now"))),
        }
    }

    /// Reserves an address under an owner of ours; what is in the way, if anything is.
    fn reserve_as(
        &self,
        network: &NetworkName,
        address: IpAddr,
        owner: &str,
    ) -> Result<Option<InUse>> {
        let owner: OwnerName = owner.parse()?;
        let reserved = self.records.reservation_of(&Space::Host, address)?;
        if let Some(Read { value, .. }) = &reserved {
            // From one host to another it goes at once: no container leases it in between.
            let passes = is_elsewhere(value) && owner.as_str().starts_with(ELSEWHERE);
            match &value.owner {
                Some(of) if *of == owner => return Ok(None),
                of if !passes => {
                    let whose = of.as_ref().map_or("no container", OwnerName::as_str);
                    return Ok(Some(InUse::Reserved(format!("reserved for {whose}"))));
                }
                _ => {}
            }
        }
        if let Some(read) = self.records.holder_of(&Space::Host, address)? {
            return Ok(Some(InUse::Held(Box::new(read.value))));
        }
        let txn = reserve((network, address), reserved.as_ref(), Some(owner));
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(None),
            Outcome::Lost(_) => Err(changes(address)),
        }
    }

    /// Ends a reservation of ours, unless a container has the address; whether there is none any more.
    fn unreserve_as(&self, address: IpAddr, is_ours: impl Fn(&str) -> bool) -> Result<bool> {
        let (lease, key) =
            (Key::Lease(Space::Host, address), Key::Reservation(Space::Host, address));
        let Some(read) = self.records.reservation_of(&Space::Host, address)? else {
            return Ok(true);
        };
        if !read.value.owner.as_ref().is_some_and(|owner| is_ours(owner.as_str())) {
            return Ok(true);
        }
        let txn = Txn::new()
            .require(lease, Expect::Absent)
            .require(key.clone(), unchanged(Some(&read)))
            .delete(key);
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }

    fn reserved_by(
        &self,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<Vec<(NetworkName, IpAddr, String)>> {
        let all = self.records.reservations_in(&Prefix::Reservations)?.into_iter();
        let ours = all
            .map(|read| read.value)
            .filter(|it| it.owner.as_ref().is_some_and(|owner| is_ours(owner.as_str())));
        Ok(ours.filter_map(|it| Some((it.network?, it.address, it.owner?.to_string()))).collect())
    }
}

/// The lease of an address of the pool's subnet, in one of its ranges or not.
pub(super) fn lease_in_subnet(pool: &Pool, address: IpAddr) -> Option<Lease> {
    let range = pool.ranges.iter().find(|range| range.subnet.contains(&address))?;
    let net = model::IpNet::new(address, range.subnet.prefix_len());
    let address = net.unwrap_or_else(|_| host_net(address));
    let (space, pool) = (pool.space.clone(), Some(pool.id.clone()));
    Some(Lease { space, pool, address, gateway: range.gateway })
}

/// A transaction that finds no lease of an address, and its reservation as it was read: it is reserved for this owner
/// then, or not any more.
pub(super) fn reserve(
    (network, address): (&NetworkName, IpAddr),
    reserved: Option<&Read<Reservation>>,
    owner: Option<OwnerName>,
) -> Txn {
    let key = Key::Reservation(Space::Host, address);
    let txn = Txn::new()
        .require(Key::Lease(Space::Host, address), Expect::Absent)
        .require(key.clone(), unchanged(reserved));
    match owner {
        None => txn.delete(key),
        owner => {
            let network = Some(network.clone());
            let unowned = Reservation::new(Space::Host, address);
            txn.put(key, Record::Reservation(Reservation { owner, network, ..unowned }))
        }
    }
}

pub(super) fn changes(address: IpAddr) -> Error {
    Error::try_again(format!("address {address} changes right now"))
}

/// How the owner is called of an address that another host has.
pub(super) fn elsewhere(host: &HostName) -> Result<OwnerName> {
    format!("{ELSEWHERE}{host}").parse()
}

/// The network's pool: a front end may have widened the request's for an exact address.
pub(super) fn own_pool<'a>(pool: &'a Pool, request: &'a Request) -> &'a Pool {
    let mut pools = request.network.ipam.pools().iter();
    pools.find(|own| own.id == pool.id).unwrap_or(pool)
}

pub(crate) fn is_pin(reservation: &Reservation) -> bool {
    reservation.owner.as_ref().is_some_and(|owner| owner.as_str() == PINNED)
}

fn is_elsewhere(reservation: &Reservation) -> bool {
    let owner = reservation.owner.as_ref();
    owner.is_some_and(|owner| owner.as_str().starts_with(ELSEWHERE))
}

/// Whether the hosts have agreed on whose the address is.
pub(crate) fn is_agreed(reservation: &Reservation) -> bool {
    is_pin(reservation) || is_elsewhere(reservation)
}

/// Whether a record only says what hosts have agreed on: they would have to agree on it again.
pub(crate) fn is_of_hosts(record: &Record) -> bool {
    matches!(record, Record::Reservation(reservation) if shared_address(reservation).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_reservations_are_of_hosts() {
        let reservation = |owner: &str| Reservation {
            owner: Some(owner.parse().unwrap()),
            network: Some("front".parse().unwrap()),
            ..Reservation::new(Space::Host, "10.64.0.9".parse().unwrap())
        };
        let said = |owner| shared_address(&reservation(owner)).map(|error| error.to_string());
        let elsewhere = "address 10.64.0.9 of network front is in use on host b";
        assert_eq!(said("@host/b").as_deref(), Some(elsewhere));
        assert!(said("@pinned").is_some_and(|said| said.contains("pinned to this host")));
        assert_eq!(said("host/b"), None);
        let is_backed_up = |owner| !is_of_hosts(&Record::Reservation(reservation(owner)));
        assert!(is_backed_up("db") && !is_backed_up("@pinned") && !is_backed_up("@host/b"));
    }
}
