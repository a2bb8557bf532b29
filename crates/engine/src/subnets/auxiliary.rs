//! Addresses of devices that are no containers (libnetwork's auxiliary addresses).

use std::net::IpAddr;

use model::{
    Error, Ipam, Lease, Network, NetworkName, OwnerName, Reservation, Result, Space, SubnetId,
    Tenant,
};

use crate::Subnets;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::unchanged;
use crate::records::reservation::AUXILIARY;
use crate::subnets::ranges::SubnetRanges;

/// How often a lost race is run again.
const RACES: usize = 200;

impl Subnets<'_> {
    /// Keeps an address permanently that was requested as if for a container. A runtime may say
    /// only when it makes a network which addresses are auxiliary (libnetwork). An address that is
    /// kept already, or that an attachment uses, stays as it is.
    pub fn keep_auxiliary(&self, id: &SubnetId, address: IpAddr) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.holder_of(&id.space, address)? else { return Ok(()) };
            let is_loose = matches!(&read.value.tenant, Tenant::Request { subnet, user: None } if subnet == id);
            let Some(subnet) = self.records.subnet_of(id)?.filter(|_| is_loose) else {
                return Ok(());
            };
            let place = self.ranges_of(subnet.value)?;
            refuse_auxiliary(&place)?;
            let reserved = self.records.reservation_of(&id.space, address)?;
            let held = Key::Lease(id.space.clone(), address);
            let kept = Key::Reservation(id.space.clone(), address);
            let txn = Txn::new()
                .require(held.clone(), unchanged(Some(&read)))
                .require(kept.clone(), unchanged(reserved.as_ref()))
                .delete(held)
                .put(kept, mark(&place, &read.value.lease, AUXILIARY)?);
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("keeping {address}: lost {RACES} races in a row")))
    }

    /// Keeps an address of this host that a third party's IPAM allocates, for a device on the
    /// network, until the network is removed. Repeating it is no error; `Conflict` where the
    /// address has a holder.
    pub fn reserve_auxiliary(&self, network: &NetworkName, address: IpAddr) -> Result<()> {
        let made = self.records.network_of(network)?;
        if matches!(made.ipam, Ipam::HostLocal { .. }) {
            return Err(in_files(&made));
        }
        let (lease, kept) =
            (Key::Lease(Space::Host, address), Key::Reservation(Space::Host, address));
        for _ in 0..RACES {
            match self.records.reservation_of(&Space::Host, address)? {
                Some(read) if is_auxiliary(&read.value, network) => return Ok(()),
                Some(read) => return Err(self.records.reserved_for(&read.value)),
                None => {}
            }
            if let Some(read) = self.records.holder_of(&Space::Host, address)? {
                return Err(self.records.held(&read.value));
            }
            let txn = Txn::new()
                .require(lease.clone(), Expect::Absent)
                .require(kept.clone(), Expect::Absent)
                .put(kept.clone(), marked(network, Space::Host, address, AUXILIARY)?);
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("keeping {address}: lost {RACES} races in a row")))
    }

    /// Adds to the end of a network that of its auxiliary addresses; those of a subnet that was
    /// requested are released by themselves.
    pub(crate) fn forget_auxiliary(&self, network: &NetworkName, mut txn: Txn) -> Result<Txn> {
        let reserved = self.records.reservations_in(&Prefix::Reservations)?;
        let ours = reserved.into_iter().filter(|read| is_auxiliary(&read.value, network));
        let ours: Vec<_> = ours.collect();
        if ours.is_empty() {
            return Ok(txn);
        }
        let subnets = self.records.subnets()?;
        for read in ours {
            let Reservation { space, address, .. } = &read.value;
            let is_its = |id: &SubnetId| id.space == *space && id.net.contains(address);
            if !subnets.iter().any(|subnet| is_its(&subnet.id)) {
                let key = Key::Reservation(space.clone(), *address);
                txn = txn.require(key.clone(), unchanged(Some(&read))).delete(key);
            }
        }
        Ok(txn)
    }
}

fn is_auxiliary(reservation: &Reservation, network: &NetworkName) -> bool {
    reservation.network.as_ref() == Some(network)
        && reservation.owner.as_ref().map(OwnerName::as_str) == Some(AUXILIARY)
}

pub(super) fn refuse_auxiliary(place: &SubnetRanges) -> Result<()> {
    match (&place.network, place.keeps_files()) {
        (Some(network), true) => Err(in_files(network)),
        (_, _) => Ok(()),
    }
}

fn in_files(network: &Network) -> Error {
    Error::unsupported(format!(
        "network {} keeps its addresses in the files of host-local, where auxiliary addresses \
         cannot be reserved",
        network.name
    ))
}

/// A reservation for what a subnet's address was requested for.
pub(super) fn mark(place: &SubnetRanges, lease: &Lease, owner: &str) -> Result<Record> {
    marked(&place.subnet.network, lease.space.clone(), lease.address.addr(), owner)
}

fn marked(network: &NetworkName, space: Space, address: IpAddr, owner: &str) -> Result<Record> {
    Ok(Record::Reservation(Reservation {
        owner: Some(owner.parse()?),
        network: Some(network.clone()),
        ..Reservation::new(space, address)
    }))
}
