//! Reads the store, and makes the few changes that a person makes by hand.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{
    Attachment, Claim, ContainerId, Error, Holder, NetworkName, OwnerName, Protocol, Reservation,
    Result, Space, Tenant,
};

use crate::Engine;
use crate::book::{Read, unchanged};
use crate::detach::Meaning;
use crate::kept::kept_address;
use crate::port::{Key, Outcome, Prefix, Record, Txn};

impl Engine<'_> {
    /// Every record of every attachment, in the order of their identities; those that a reboot took, and
    /// that their users keep, as they will be.
    pub fn attachments(&self) -> Result<Vec<Attachment>> {
        let records = self.records(&Prefix::Attachments)?.into_iter();
        let mut records: Vec<Attachment> = records.map(|read| *read.value).collect();
        let mut kept = self.kept_endpoints(None)?;
        kept.retain(|kept| !records.iter().any(|record| record.id == kept.id));
        if !kept.is_empty() {
            records.append(&mut kept);
            records.sort_by(|one, other| (&one.id, one.layer).cmp(&(&other.id, other.layer)));
        }
        Ok(records)
    }

    /// As [`Engine::attachments`], and none is left out.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where a record is damaged: what has no record may be that
    /// attachment's. Who removes what no record speaks of asks here.
    pub fn intact_attachments(&self) -> Result<Vec<Attachment>> {
        let all = self.attachments()?;
        self.refuse_damaged(&[Prefix::Attachments, Prefix::Endpoints])?;
        Ok(all)
    }

    /// Fails with [`model::Kind::Conflict`] where a record of one of these kinds is damaged. Call it after they
    /// are read.
    pub fn refuse_damaged(&self, prefixes: &[Prefix]) -> Result<()> {
        for prefix in prefixes {
            if let Some(damaged) = self.store.damaged(Some(prefix))?.first() {
                let why = &damaged.why;
                return Err(Error::conflict(format!(
                    "nothing goes while a record is unknown: {why}"
                )));
            }
        }
        Ok(())
    }

    /// Every record of every attachment of a container, from any front end.
    pub fn attachments_of(&self, container: &ContainerId) -> Result<Vec<Attachment>> {
        let records = self.records(&Prefix::AttachmentsOfContainer(container.clone()))?;
        Ok(records.into_iter().map(|read| *read.value).collect())
    }

    /// The attachments of a container that Spoke itself connects to networks, whatever phase they are in.
    pub fn connected(&self, container: &ContainerId) -> Result<Vec<Attachment>> {
        self.sandbox_record_of(container)?
            .map_or(Ok(Vec::new()), |read| self.members_of(&read.value))
    }

    /// Every held address.
    pub fn holders(&self) -> Result<Vec<Holder>> {
        Ok(self.holders_in(&Prefix::AllLeases)?.into_iter().map(|read| read.value).collect())
    }

    /// Every address that is kept back.
    pub fn reservations(&self) -> Result<Vec<Reservation>> {
        let reserved = self.reservations_in(&Prefix::Reservations)?;
        Ok(reserved.into_iter().map(|read| read.value).collect())
    }

    /// Every host port that is taken, with its holders.
    pub fn ports(&self) -> Result<Vec<(Protocol, u16, Vec<Claim>)>> {
        let mut ports = Vec::new();
        for (key, versioned) in self.store.list(&Prefix::Ports)? {
            if let (Key::Port(protocol, port), Record::Port(claims)) = (key, versioned.record) {
                ports.push((protocol, port.get(), claims));
            }
        }
        Ok(ports)
    }

    /// The holder of the address.
    pub fn holder(&self, space: &Space, address: IpAddr) -> Result<Option<Holder>> {
        Ok(self.holder_of(space, address)?.map(|read| read.value))
    }

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
            .expect(key.clone(), crate::port::Expect::Absent)
            .put(key, Record::Reservation(reservation));
        if let Some((network, owner)) = owner {
            let kept = self.sticky_of(&network, &owner)?;
            let sticky = Key::Sticky(network, owner);
            let mut addresses = kept.as_ref().map(|read| read.value.clone()).unwrap_or_default();
            addresses.push(address);
            let expect = unchanged(kept.as_ref());
            txn = txn.expect(sticky.clone(), expect).put(sticky, Record::Sticky(addresses));
        }
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(_) => Err(Error::conflict(format!("{address} is already reserved"))),
        }
    }

    /// Ends a reservation. An address that is not reserved is no error.
    pub fn unreserve_address(&self, space: &Space, address: IpAddr) -> Result<()> {
        let Some(read) = self.reservation_of(space, address)? else { return Ok(()) };
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
            txn = txn.expect(key.clone(), unchanged(Some(read))).delete(key);
        }
        self.forget_for_owners(ended, txn)
    }

    /// Adds to the transaction that the owners of these reservations do not get the addresses again.
    pub(crate) fn forget_for_owners(
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
            let kept = self.sticky_of(&network, &owner)?;
            let sticky = Key::Sticky(network, owner);
            txn = txn.expect(sticky.clone(), unchanged(kept.as_ref()));
            let mut addresses = kept.map(|read| read.value).unwrap_or_default();
            addresses.retain(|kept| !gone.contains(kept));
            txn = match addresses.is_empty() {
                true => txn.delete(sticky),
                false => txn.put(sticky, Record::Sticky(addresses)),
            };
        }
        Ok(txn)
    }

    /// Takes an address away from its holder by detaching that, every layer of it.
    pub fn evict(&self, holder: &Holder) -> Result<()> {
        if let Some(id) = holder.attachment() {
            let lock = self.host.lock_attachment(id);
            let mut steered = None;
            for read in self.records(&Prefix::AttachmentsOf(id.network.clone()))? {
                if read.value.id == *id {
                    let gateway_role = read.value.gateway_role.as_ref();
                    steered = steered.or(gateway_role.map(|_| read.value.sandbox_name().clone()));
                    self.detach_record(read, Meaning::Classified)?;
                }
            }
            drop(lock);
            if let Some(sandbox) = steered {
                self.update_gateway(&sandbox)?;
                // If this fails, the reconciler does it.
                let _ = self.name_sandboxes();
            }
        }
        let address = holder.lease.address.addr();
        let key = Key::Lease(holder.lease.space.clone(), address);
        match self.holder_of(&holder.lease.space, address)? {
            Some(read) if is_same(&read.value.tenant, &holder.tenant) => {
                let txn = Txn::new().expect(key.clone(), unchanged(Some(&read))).delete(key);
                match self.store.commit(&txn)? {
                    Outcome::Done(_) => Ok(()),
                    Outcome::Lost(_) => {
                        Err(Error::try_again(format!("the lease of {address} changes right now")))
                    }
                }
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A requested address outlives the attachment that uses it.
fn is_same(now: &Tenant, classified: &Tenant) -> bool {
    match (now, classified) {
        (Tenant::Request { subnet: now, user: None }, Tenant::Request { subnet, .. }) => {
            now == subnet
        }
        (now, classified) => now == classified,
    }
}
