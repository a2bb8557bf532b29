//! Parts of a backup that have other holders by now: addresses, subnets and the names of endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Attachment, Error, Holder, Layer, Network, Reservation, Result, Space};

use crate::Repair;
use crate::port::{Key, Record, Revision};
use crate::records::reservation::ENDPOINT;
use crate::repair::backup::describe;

/// The durable records of the book.
pub(super) type DurableRecords = BTreeMap<Key, (Record, Revision)>;

impl Repair<'_> {
    /// Fails where something else has an address, a subnet or a name of these records.
    pub(super) fn refuse_taken_meanwhile(&self, missing: &[(&Key, &Record)]) -> Result<()> {
        for (key, record) in missing {
            let taken = match record {
                Record::Reservation(reserved) => self.holder_instead_of(reserved)?,
                Record::Attachment(endpoint) => self.instead_of_endpoint(endpoint)?,
                Record::Subnet(subnet) => self.addresses.instead_of_subnet(subnet)?,
                Record::Network(network) => self.called_instead_of(network)?,
                _ => None,
            };
            if let Some(why) = taken {
                let message = format!("{} cannot be restored: {why}", describe(key));
                return Err(Error::conflict(message));
            }
        }
        Ok(())
    }

    /// The network that is called so by now, after one of them was renamed.
    fn called_instead_of(&self, network: &Network) -> Result<Option<String>> {
        let called = network.called();
        let other = self.records.called(called)?.filter(|it| it.name != network.name);
        let other = other.filter(|it| it.called() == called);
        Ok(other.map(|_| format!("another network is called {called} now; rename that one")))
    }

    /// What holds an address that is for another owner. One that is for none stays with its holder until that
    /// goes, as with `spoke ipam reserve`; one that is only remembered gives way.
    fn holder_instead_of(&self, reserved: &Reservation) -> Result<Option<String>> {
        let Some(owner) = reserved.owner.as_ref().filter(|_| !reserved.learned) else {
            return Ok(None);
        };
        let Some(holder) = self.records.holder(&reserved.space, reserved.address)? else {
            return Ok(None);
        };
        let Some(id) = holder.attachment() else { return Ok(Some(self.held(&holder))) };
        let is_there = reserved.network.as_ref() == Some(&id.network);
        let is_its_own = match owner.as_str().strip_prefix(ENDPOINT) {
            Some(endpoint) => endpoint.trim_start_matches('/') == id.container.as_str(),
            // A container whose name is not known yet may be it.
            None => self.records.owner_of(id)?.is_none_or(|known| known == *owner),
        };
        Ok((!is_there || !is_its_own).then(|| self.held(&holder)))
    }

    fn held(&self, holder: &Holder) -> String {
        let (address, by) = (holder.lease.address.addr(), self.records.tenant(holder));
        format!("{address} is held by {by}; `spoke ipam release {address} --force` frees it")
    }

    fn instead_of_endpoint(&self, endpoint: &Attachment) -> Result<Option<String>> {
        if let Some(read) = self.records.record_of(&endpoint.id, Layer::Link)?
            && !read.value.kept
        {
            return Ok(Some(format!("a container is {}", endpoint.id)));
        }
        for lease in &endpoint.leases {
            let address = lease.address.addr();
            let holder = self.records.holder(&lease.space, address)?;
            if let Some(holder) = holder.filter(|it| it.attachment() != Some(&endpoint.id)) {
                return Ok(Some(self.held(&holder)));
            }
            let reserved =
                self.records.reservation_of(&lease.space, address)?.map(|read| read.value);
            let of_other = |it: &Reservation| {
                let owner = it.owner.as_ref().map_or("", |owner| owner.as_str());
                !owner.starts_with(ENDPOINT) || it.network.as_ref() != Some(&endpoint.id.network)
            };
            if reserved.as_ref().is_some_and(of_other) {
                return Ok(Some(format!("{address} is reserved for something else")));
            }
        }
        Ok(None)
    }
}

/// Whether a record has addresses that the network of its name, which is here and differs, does not have; or
/// addresses whose reservation is here and differs.
pub(super) fn is_misfit(record: &Record, kept: &[&Key], here: &DurableRecords) -> bool {
    let network = |name| match here.get(&Key::Network(name)) {
        Some((Record::Network(network), _))
            if kept.contains(&&Key::Network(network.name.clone())) =>
        {
            Some(network)
        }
        _ => None,
    };
    match record {
        Record::Reservation(reserved) => reserved
            .network
            .clone()
            .and_then(network)
            .is_some_and(|it| !has(it, &reserved.space, reserved.address)),
        Record::Attachment(endpoint) => {
            let network = network(endpoint.id.network.clone());
            endpoint.leases.iter().any(|lease| {
                let address = lease.address.addr();
                let reservation = Key::Reservation(lease.space.clone(), address);
                kept.contains(&&reservation)
                    || network.is_some_and(|it| !has(it, &lease.space, address))
            })
        }
        _ => false,
    }
}

/// Whether it reserves an address for an endpoint that is left out: without the endpoint nothing gives it back.
pub(super) fn is_address_of(record: &Record, left_out: &[(&Key, &Record)]) -> bool {
    let Record::Reservation(reserved) = record else { return false };
    let owner = reserved.owner.as_ref().map_or("", |owner| owner.as_str());
    let has = |endpoint: &Attachment| {
        let mut leases = endpoint.leases.iter();
        reserved.network.as_ref() == Some(&endpoint.id.network)
            && leases.any(|it| it.space == reserved.space && it.address.addr() == reserved.address)
    };
    owner.starts_with(ENDPOINT)
        && left_out.iter().any(|(_, it)| matches!(it, Record::Attachment(it) if has(it)))
}

fn has(network: &Network, space: &Space, address: IpAddr) -> bool {
    let mut pools = network.ipam.pools().iter().filter(|pool| pool.space == *space);
    pools.any(|pool| pool.range_of(address).is_some())
}
